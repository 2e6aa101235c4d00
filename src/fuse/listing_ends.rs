//! The ends of directory listings, so that the request after the last entry costs nothing.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time for which the end of a listing is remembered.
const MAX_AGE: Duration = Duration::from_millis(10);

/// The ends of the latest listings. A reply cannot mark itself as the last, so the kernel asks for more after each, at
/// once; POSIX leaves open whether entries created in between are listed (readdir(3p)).
///
/// Lock: one mutex, never held over a system call.
#[derive(Debug, Default)]
pub struct ListingEnds(Mutex<[Option<ListingEnd>; 16]>);

#[derive(Debug, Clone, Copy)]
struct ListingEnd {
    dir: u64,
    offset: u64,
    since: Instant,
}

impl ListingEnds {
    /// Records that nothing follows an offset.
    pub(super) fn note(&self, dir: u64, offset: u64) {
        let since = Instant::now();
        if let Some(slot) = self.0.lock().get_mut(slot(dir)) {
            *slot = Some(ListingEnd { dir, offset, since });
        }
    }

    /// Returns whether nothing follows an offset, and forgets it.
    pub(super) fn take(&self, dir: u64, offset: u64) -> bool {
        let end = self.0.lock().get_mut(slot(dir)).and_then(Option::take);
        end.is_some_and(|end| {
            (end.dir, end.offset) == (dir, offset) && end.since.elapsed() < MAX_AGE
        })
    }
}

fn slot(dir: u64) -> usize {
    (dir % 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_only_for_its_own_directory() {
        let ends = ListingEnds::default();
        ends.note(5, 70);
        assert!(!ends.take(21, 70), "another directory in the same slot");
        ends.note(5, 70);
        assert!(!ends.take(5, 60), "another offset");
        ends.note(5, 70);
        assert!(ends.take(5, 70));
        assert!(!ends.take(5, 70), "a second time");
        ends.note(5, 70);
        std::thread::sleep(2 * MAX_AGE);
        assert!(!ends.take(5, 70), "too late");
    }
}
