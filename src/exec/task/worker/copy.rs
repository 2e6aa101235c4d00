//! A copy of a file with its holes, its mode and its times.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, SeekFrom, Timespec, Timestamps};
use rustix::io::Errno;

use super::super::failpoint;
use super::super::failure_reason::FailureReason;
use super::source_guard::{SourceGuard, changed};
use super::worker_failure::{WorkerFailure, os};
use crate::world::Meta;

/// The number of bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// The bits of a mode that a copy keeps: set-user-id, set-group-id and sticky bits are stripped.
const KEPT_MODE: u32 = 0o777;

/// The data that an operation may still copy, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyBudget(pub(super) Option<u64>);

impl CopyBudget {
    /// Returns how much of a length may be copied.
    fn at_most(&self, length: usize, shown: &str) -> Result<usize, WorkerFailure> {
        match self
            .0
            .map(|left| usize::try_from(left).unwrap_or(usize::MAX))
        {
            Some(0) => Err(used_up(shown)),
            left => Ok(left.unwrap_or(length).min(length)),
        }
    }

    fn take(&mut self, bytes: u64, shown: &str) -> Result<(), WorkerFailure> {
        let Some(left) = &mut self.0 else {
            return Ok(());
        };
        match left.checked_sub(bytes) {
            Some(less) => {
                *left = less;
                Ok(())
            }
            None => Err(used_up(shown)),
        }
    }
}

fn used_up(shown: &str) -> WorkerFailure {
    WorkerFailure {
        reason: FailureReason::QuotaIo,
        has_acted: false,
        message: format!("{shown}: the copy needs more than the quota's io_bytes"),
    }
}

/// A file that is copied.
pub(super) struct CopySource<'s> {
    pub(super) file: &'s OwnedFd,
    pub(super) meta: &'s Meta,
    pub(super) shown: &'s str,
    pub(super) guard: SourceGuard<'s>,
}

/// Copies the content of a file to an empty one, and waits until it is on disk. Whether the file was changed meanwhile is for
/// the caller to see, at the end.
pub(super) fn fill(
    from: &CopySource<'_>,
    to: &OwnedFd,
    budget: &mut CopyBudget,
) -> Result<(), WorkerFailure> {
    let (source, meta, shown) = (from.file, from.meta, from.shown);
    match rustix::fs::ioctl_ficlone(to, source) {
        Ok(()) => {
            // A reflink counts with its length.
            budget.take(meta.size, shown)?;
            failpoint::reach_in_worker("mid_data");
        }
        Err(_) => ranges(from, to, budget)?,
    }
    let mode = Mode::from_raw_mode(meta.permissions() & KEPT_MODE);
    rustix::fs::fchmod(to, mode).map_err(os(shown, "fchmod"))?;
    let time = |time: crate::world::Time| Timespec {
        tv_sec: time.sec,
        tv_nsec: i64::from(time.nsec),
    };
    let times = Timestamps {
        last_access: time(meta.atime),
        last_modification: time(meta.mtime),
    };
    rustix::fs::futimens(to, &times).map_err(os(shown, "futimens"))?;
    rustix::fs::fsync(to).map_err(os(shown, "fsync"))
}

/// Copies the data of a file, and leaves its holes out.
fn ranges(
    from: &CopySource<'_>,
    to: &OwnedFd,
    budget: &mut CopyBudget,
) -> Result<(), WorkerFailure> {
    let (source, size, shown) = (from.file, from.meta.size, from.shown);
    rustix::fs::ftruncate(to, size).map_err(os(shown, "ftruncate"))?;
    let mut at = 0;
    while at < size {
        let (start, end) = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            // Nothing but a hole up to the end.
            Err(Errno::NXIO) => break,
            // This file system does not say where there are holes.
            Err(_) => (at, size),
            Ok(start) => {
                let end = rustix::fs::seek(source, SeekFrom::Hole(start));
                (start, end.map_err(os(shown, "lseek"))?.min(size))
            }
        };
        at = start;
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let length = budget.at_most(length, shown)?;
            from.guard.check()?;
            let copied = piece(source, to, at, length).map_err(os(shown, "copy_file_range"))?;
            if copied == 0 {
                return Err(changed(shown));
            }
            budget.take(copied as u64, shown)?;
            at += copied as u64;
            failpoint::reach_in_worker("mid_data");
        }
    }
    Ok(())
}

/// Copies a piece. Returns how long it was; 0 at the end of the file.
fn piece(source: &OwnedFd, to: &OwnedFd, at: u64, length: usize) -> Result<usize, Errno> {
    let (mut from_at, mut to_at) = (at, at);
    match rustix::fs::copy_file_range(source, Some(&mut from_at), to, Some(&mut to_at), length) {
        // Of another file system, or of one that cannot.
        Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => {}
        copied => return copied,
    }
    let mut chunk = vec![0; length.min(256 << 10)];
    let read = rustix::io::pread(source, &mut chunk, at)?;
    let mut rest = chunk.get(..read).unwrap_or_default();
    let mut place = at;
    while !rest.is_empty() {
        let written = rustix::io::pwrite(to, rest, place)?;
        if written == 0 {
            return Err(Errno::IO);
        }
        rest = rest.get(written..).unwrap_or_default();
        place += written as u64;
    }
    Ok(read)
}
