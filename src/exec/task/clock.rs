//! The time of leases: Unix seconds, which never go back.
//!
//! The latest time that was seen is kept in the state directory, so a clock that is set back does not revive a lease. Other
//! executors may write it, between two turns at the ledger; within a turn it is the caller's alone.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::failure::is_full;
use super::host_files;
use super::ledger::LedgerGuard;
use super::quota::MAX_NUMBER;
use crate::error::{Error, Result};

/// The file in the state directory.
const FILE: &str = "clock";

/// In builds with `debug_assertions`, the variable that is the clock.
pub const VARIABLE: &str = "TRUMANFS_TEST_NOW";

/// Returns what the system's clock says, in Unix seconds; before 1970 it is 0.
pub fn now() -> u64 {
    if cfg!(debug_assertions)
        && let Some(text) = std::env::var_os(VARIABLE)
    {
        // What is no number is 1970: no lease is valid then.
        return text
            .to_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A clock that does not go back.
#[derive(Debug)]
pub struct ExecutorClock {
    file: PathBuf,
    latest: Mutex<LatestTime>,
}

/// The latest time that this process has seen.
#[derive(Debug, Default)]
struct LatestTime {
    time: u64,
    /// True if the latest time is not on disk because the disk is full.
    is_unkept: bool,
}

impl ExecutorClock {
    /// Opens the clock of a state directory.
    ///
    /// # Errors
    /// The latest time cannot be read.
    pub fn open(state_dir: &Path) -> Result<ExecutorClock> {
        let file = state_dir.join(FILE);
        let time = read(&file)?;
        let latest = Mutex::new(LatestTime {
            time,
            is_unkept: false,
        });
        Ok(ExecutorClock { file, latest })
    }

    /// Sets the latest time, for an operator who knows better.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn set(&self, _turn: &LedgerGuard<'_>, time: u64) -> Result<()> {
        keep(&self.file, time)?;
        self.latest.lock().time = time;
        Ok(())
    }

    /// Returns the latest time that was seen, without looking at the system's clock.
    pub(super) fn latest(&self, _turn: &LedgerGuard<'_>) -> u64 {
        self.latest.lock().time
    }

    /// Returns the time: the system's, or the latest one seen where that is later. A later one is on disk when this
    /// returns; that is at most one write a second. Where the disk is full it is not: see [`ExecutorClock::is_kept`].
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(super) fn now(&self, _turn: &LedgerGuard<'_>) -> Result<u64> {
        self.no_earlier(now())
    }

    fn no_earlier(&self, system: u64) -> Result<u64> {
        let mut latest = self.latest.lock();
        latest.time = read(&self.file)?.max(latest.time);
        if system > latest.time || latest.is_unkept {
            latest.time = system.max(latest.time);
            let kept = keep(&self.file, latest.time);
            latest.is_unkept = kept.as_ref().is_err_and(is_full);
            if !latest.is_unkept {
                kept?;
            }
        }
        Ok(latest.time)
    }

    /// Returns whether the latest time is on disk. While it is not, no lease may be used: it would be valid again after the clock
    /// was set back.
    pub(super) fn is_kept(&self) -> bool {
        !self.latest.lock().is_unkept
    }
}

fn keep(file: &Path, time: u64) -> Result<()> {
    host_files::replace(file, 0o600, format!("{time}\n").as_bytes())
}

/// Reads the latest time that was seen; 0 where none was.
fn read(file: &Path) -> Result<u64> {
    match host_files::read(file, 64) {
        Ok(text) => time(&text).ok_or_else(|| {
            Error::refused(
                format!("{}: not a number of seconds", file.display()),
                "It is the latest time that was seen. Make sure that the system's clock is right, then remove it.",
            )
        }),
        Err(Error::Missing { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

fn time(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
    let time = text.parse().ok()?;
    (time <= MAX_NUMBER).then_some(time)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back_not_even_with_a_new_process() {
        let dir = tempfile::tempdir().unwrap();
        let open = || ExecutorClock::open(dir.path()).unwrap();
        let clock = open();
        assert_eq!(clock.no_earlier(100), Ok(100));
        assert_eq!(clock.no_earlier(50), Ok(100));
        assert_eq!(clock.no_earlier(101), Ok(101));
        assert_eq!(open().no_earlier(0), Ok(101));
        assert_eq!(open().no_earlier(102), Ok(102));
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 1, "the clock, and nothing of writing it");
    }

    #[test]
    fn time_that_another_process_has_seen_counts() {
        let dir = tempfile::tempdir().unwrap();
        let clocks = [(); 2].map(|()| ExecutorClock::open(dir.path()).unwrap());
        assert_eq!(clocks[0].no_earlier(100), Ok(100));
        assert_eq!(clocks[1].no_earlier(1000), Ok(1000));
        assert_eq!(clocks[0].no_earlier(101), Ok(1000));
        assert_eq!(
            ExecutorClock::open(dir.path()).unwrap().no_earlier(0),
            Ok(1000)
        );
    }

    #[test]
    fn the_same_second_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let clock = ExecutorClock::open(dir.path()).unwrap();
        clock.no_earlier(100).unwrap();
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        clock.no_earlier(100).unwrap();
        clock.no_earlier(99).unwrap();
        assert!(!dir.path().join(FILE).exists());
        clock.no_earlier(101).unwrap();
        assert!(dir.path().join(FILE).exists());
    }

    #[test]
    fn a_clock_that_cannot_be_read_is_no_clock() {
        let dir = tempfile::tempdir().unwrap();
        for text in [
            "",
            "x\n",
            "100",
            "-1\n",
            "99999999999999999999\n",
            "9007199254740992\n",
            &"1".repeat(100),
        ] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            assert!(ExecutorClock::open(dir.path()).is_err(), "{text:?}");
        }
        std::fs::write(dir.path().join(FILE), "9007199254740991\n").unwrap();
        assert!(ExecutorClock::open(dir.path()).is_ok());
    }
}
