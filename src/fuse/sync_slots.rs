//! A limit on the workers that wait for a disk, so that some are left to answer other requests.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The workers that wait for a disk.
#[derive(Debug)]
pub struct SyncSlots {
    waiting: AtomicUsize,
    most: usize,
}

/// A worker that waits for a disk, until it is dropped.
#[derive(Debug)]
pub(super) struct SyncGuard<'a>(&'a SyncSlots);

impl SyncSlots {
    /// Lets half of so many workers wait at a time, and none where there is only one.
    pub fn of_workers(workers: usize) -> SyncSlots {
        SyncSlots {
            waiting: AtomicUsize::new(0),
            most: workers / 2,
        }
    }

    /// Begins to wait; `None` if as many workers do already as may.
    pub(super) fn begin(&self) -> Option<SyncGuard<'_>> {
        let waiting = SyncGuard(self);
        (self.waiting.fetch_add(1, Ordering::Relaxed) < self.most).then_some(waiting)
    }
}

impl Drop for SyncGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_workers_never_wait() {
        for (workers, most) in [(1, 0), (2, 1), (3, 1), (8, 4)] {
            let syncs = SyncSlots::of_workers(workers);
            for _ in 0..2 {
                let all: Vec<_> = std::iter::from_fn(|| syncs.begin()).collect();
                assert_eq!(all.len(), most, "of {workers}");
                assert!(syncs.begin().is_none());
            }
        }
    }
}
