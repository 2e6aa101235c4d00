//! Present and recent writers past the daemon. Their changes to the store are noticed like anybody else's, although
//! the kernel already knows of them.
//!
//! Only `handles.rs` uses this, under its lock.

use std::time::{Duration, Instant};

use foldhash::HashMap;

/// The time after its last close for which a writer's changes may still be among the store's events.
const RECENT_TIME: Duration = Duration::from_secs(1);

/// The writers, by node and thread.
#[derive(Debug, Default)]
pub(super) struct RecentWriters {
    by: HashMap<(u64, u32), RecentWriter>,
    /// The number of writers above which old ones are dropped.
    kept: usize,
}

#[derive(Debug, Default)]
struct RecentWriter {
    /// The number of files it has open.
    open: u32,
    /// The time of its last close.
    closed: Option<Instant>,
}

impl RecentWriter {
    fn is_of(&self, now: Instant) -> bool {
        let lately = |at| now.duration_since(at) < RECENT_TIME;
        self.open > 0 || self.closed.is_some_and(lately)
    }
}

impl RecentWriters {
    /// Records that a thread has opened a node for writing.
    pub(super) fn begin(&mut self, node: u64, thread: u32) {
        if self.by.len() >= self.kept.max(1024) {
            let now = Instant::now();
            self.by.retain(|_, writer| writer.is_of(now));
            self.kept = 2 * self.by.len();
        }
        self.by.entry((node, thread)).or_default().open += 1;
    }

    /// Records that a thread has closed a node.
    pub(super) fn end(&mut self, node: u64, thread: u32) {
        if let Some(writer) = self.by.get_mut(&(node, thread)) {
            writer.open -= 1;
            writer.closed = Some(Instant::now());
        }
    }

    /// Returns whether a thread has a node open for writing, or had it recently. Always false for 0, which the kernel
    /// reports for all threads of a PID namespace that the daemon does not see.
    pub(super) fn wrote_lately(&self, node: u64, thread: u32) -> bool {
        let writer = self.by.get(&(node, thread)).filter(|_| thread != 0);
        writer.is_some_and(|writer| writer.is_of(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_the_daemon_does_not_see_is_nobody() {
        let mut writers = RecentWriters::default();
        writers.begin(1, 0);
        assert!(!writers.wrote_lately(1, 0));
    }

    #[test]
    fn writers_of_long_ago_are_dropped_and_no_others() {
        let mut writers = RecentWriters::default();
        writers.begin(1, 7);
        for node in 2..3000 {
            writers.begin(node, 7);
            writers.end(node, 7);
        }
        assert!(writers.wrote_lately(2, 7) && !writers.wrote_lately(2, 8));
        std::thread::sleep(RECENT_TIME);
        for node in 3000..9000 {
            writers.begin(node, 7);
            writers.end(node, 7);
        }
        assert!(writers.wrote_lately(1, 7) && !writers.wrote_lately(2, 7));
        assert!(writers.by.len() < 8000, "{}", writers.by.len());
    }
}
