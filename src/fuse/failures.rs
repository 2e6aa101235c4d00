//! The daemon's messages about failures of the store's file system: a bad sector, a full disk, an unreachable server.
//!
//! Lock: one mutex over the recent messages, not held while one is written.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;

/// The time for which a further failure of the same operation with the same error is not reported.
const QUIET_TIME: Duration = Duration::from_secs(10);

/// The recent messages.
#[derive(Debug, Default)]
pub struct FailureLog(Mutex<HashMap<(&'static str, i32), LoggedFailure>>);

#[derive(Debug)]
struct LoggedFailure {
    at: Instant,
    /// The number of failures since.
    more: u64,
}

impl FailureLog {
    /// Reports a failed operation with its inode and process; now and then while it persists.
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

    /// Returns the number of unreported failures if this one is to be reported.
    fn count(&self, operation: &'static str, error: &Error, now: Instant) -> Option<u64> {
        let mut logged = self.0.lock();
        let of = logged.entry((operation, error.errno().raw_os_error()));
        let mut is_new = false;
        let logged = of.or_insert_with(|| {
            is_new = true;
            LoggedFailure { at: now, more: 0 }
        });
        if !is_new && now.duration_since(logged.at) < QUIET_TIME {
            logged.more += 1;
            return None;
        }
        logged.at = now;
        Some(std::mem::take(&mut logged.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_flood_is_counted_and_said_once_in_a_while() {
        let failures = FailureLog::default();
        let (full, broken) = (
            Error::os("write")(Errno::NOSPC),
            Error::os("read")(Errno::IO),
        );
        let start = Instant::now();
        assert_eq!(failures.count("write", &full, start), Some(0));
        for _ in 0..5 {
            assert_eq!(failures.count("write", &full, start + QUIET_TIME / 2), None);
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
        assert_eq!(failures.count("write", &full, start + QUIET_TIME), Some(5));
        assert_eq!(
            failures.count("write", &full, start + 3 * QUIET_TIME),
            Some(0)
        );
    }
}
