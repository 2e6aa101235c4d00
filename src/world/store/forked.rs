//! The origin of a fork, as recorded in the file `fork` in its state directory.
//!
//! Owns the format of that file. It is written when making the fork begins, once more when it is whole, and never
//! changed.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, Timespec, Timestamps};

use crate::error::{Error, Result};
use crate::journal::{FileTime, StoreId};
use crate::world::root::stat_fd;
use crate::world::store::layout::FORK;
use crate::world::store::state_files;

/// The schema of the file.
const SCHEMA: u32 = 1;

/// The maximum wait for a step of the file system's clock, in milliseconds: it makes a step at least every ten.
const MAX_CLOCK_WAIT_MS: u32 = 100;

const NOW: Timestamps = {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    Timestamps {
        last_access: now,
        last_modification: now,
    }
};

/// The longest such file, in bytes: a path may have 4096, each escaped as four characters.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// The method by which a fork got the contents of its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMethod {
    /// Files share their blocks with those of the origin (`FICLONE`).
    Cloned,
    /// Files are copies.
    Copied,
}

/// The origin of a fork, and the point at which the fork was made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ForkOrigin {
    v: u32,
    /// The path of the origin then, escaped.
    pub origin: String,
    /// The identity of the origin, wherever it has been moved to since.
    pub store: StoreId,
    /// The origin's newest record that the fork includes, as `SESSION:NUMBER`; absent if the origin had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// The time of making the fork, RFC 3339 in UTC.
    pub time: String,
    /// The method by which the contents were copied.
    pub means: ForkMethod,
    /// The time, by the clock of the fork's files, before anything of the origin was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<FileTime>,
    /// The time, by the same clock, after the last change of making the fork: its users made all later changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<FileTime>,
}

impl ForkOrigin {
    /// Creates the note of a fork that is made now.
    pub fn now(
        origin: String,
        store: StoreId,
        point: Option<String>,
        means: ForkMethod,
    ) -> ForkOrigin {
        let now = chrono::Utc::now();
        ForkOrigin {
            v: SCHEMA,
            origin,
            store,
            point,
            time: now.to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            means,
            began: None,
            done: None,
        }
    }

    /// Writes the note into a state directory that has none, and returns its file.
    ///
    /// # Errors
    /// `EEXIST`; any error from `openat2(2)` or `write(2)`.
    pub fn begin(&mut self, state: BorrowedFd<'_>) -> Result<File> {
        let file = state_files::make(state, FORK.as_bytes(), OFlags::WRONLY, 0o600)?;
        let made = stat_fd(file.as_fd())?.ctime;
        self.began = Some((made.sec, made.nsec));
        self.write(&file)?;
        Ok(file)
    }

    /// Writes into the note that the fork is whole. `last` is the node that was changed last in it: the clock of files
    /// goes in steps of some milliseconds, and the next step is waited for.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn finish(&mut self, file: &File, last: BorrowedFd<'_>) -> Result<()> {
        let last = stat_fd(last)?.ctime;
        for _ in 0..MAX_CLOCK_WAIT_MS {
            rustix::fs::futimens(file, &NOW).map_err(Error::os("futimens"))?;
            let now = stat_fd(file.as_fd())?.mtime;
            self.done = Some((now.sec, now.nsec));
            if now > last {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.write(file)
    }

    fn write(&self, file: &File) -> Result<()> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        // The text only gets longer.
        file.write_all_at(&text, 0)
            .map_err(|error| Error::io("write", &error))
    }
}

/// Reads the note of a store's origin; `None` if the store is no fork. `state` is its `.trumanfs`.
///
/// # Errors
/// [`Error::Damaged`] if the file cannot be parsed; [`Error::Refused`] if it is no plain file.
pub fn forked_from(state: BorrowedFd<'_>) -> Result<Option<ForkOrigin>> {
    let file = match state_files::open(state, FORK.as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => return Ok(None),
        file => file?,
    };
    let text = state_files::read(&file, FORK, MAX_NOTE_BYTES)?;
    let damaged = |why: &str| Error::Damaged(format!(".trumanfs/{FORK}: {why}"));
    let note: ForkOrigin =
        serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    match note.v {
        SCHEMA => Ok(Some(note)),
        v => Err(damaged(&format!("schema {v} is of a newer release"))),
    }
}
