//! Messages of the daemon about what the store's file system could not do: a bad sector, a full disk, a server that is gone.
//!
//! Lock: one mutex over what was said lately, not held while a message is written.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;

/// How long the same operation with the same error is not said again.
const QUIET: Duration = Duration::from_secs(10);

/// What was said lately.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<(&'static str, i32), Said>>);

#[derive(Debug)]
struct Said {
    at: Instant,
    /// How many there were since.
    more: u64,
}

impl Failures {
    /// Says that an operation failed, of which inode and for which process; once in a while where it goes on.
    pub(super) fn warn(&self, operation: &'static str, number: u64, pid: u32, error: &Error) {
        let Some(more) = self.count(operation, error, Instant::now()) else {
            return;
        };
        let more = match more {
            0 => String::new(),
            more => format!(" ({more} more like this since the last message)"),
        };
        log::warn!(
            "the store failed: {operation} of inode {number} by process {pid}: {error}{more}"
        );
    }

    /// Returns how many were not said before, where this one is to be said.
    fn count(&self, operation: &'static str, error: &Error, now: Instant) -> Option<u64> {
        let mut said = self.0.lock();
        let of = said.entry((operation, error.errno().raw_os_error()));
        let mut is_new = false;
        let said = of.or_insert_with(|| {
            is_new = true;
            Said { at: now, more: 0 }
        });
        if !is_new && now.duration_since(said.at) < QUIET {
            said.more += 1;
            return None;
        }
        said.at = now;
        Some(std::mem::take(&mut said.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_flood_is_counted_and_said_once_in_a_while() {
        let failures = Failures::default();
        let (full, broken) = (
            Error::os("write")(Errno::NOSPC),
            Error::os("read")(Errno::IO),
        );
        let start = Instant::now();
        assert_eq!(failures.count("write", &full, start), Some(0));
        for _ in 0..5 {
            assert_eq!(failures.count("write", &full, start + QUIET / 2), None);
        }
        assert_eq!(
            failures.count("write", &broken, start),
            Some(0),
            "another error"
        );
        assert_eq!(
            failures.count("mkdir", &full, start),
            Some(0),
            "another operation"
        );
        assert_eq!(failures.count("write", &full, start + QUIET), Some(5));
        assert_eq!(failures.count("write", &full, start + 3 * QUIET), Some(0));
    }
}
