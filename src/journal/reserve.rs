//! Disk space reserved beyond a journal's end, so that on a full disk essential lines can still be written.
//!
//! Owns the limits of its use. An occupant's records leave enough for an operator, who can make room (by an undo or a
//! purge); an operator's leave enough for lines that must be written in any case: aborts and the end of the session.
//! So a record is only written where the line that aborts it fits, too.

use std::os::fd::AsFd;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};

/// The priority of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePriority {
    /// A change in the home.
    Occupant,
    /// A change by an operator, who may make room.
    Operator,
    /// An abort of a written record, or the session's end.
    Mandatory,
}

impl LinePriority {
    /// Returns the number of bytes that must be left for higher priorities. 64 changes may be in progress, each of
    /// which takes some hundred bytes to abort.
    fn bytes_left(self) -> u64 {
        match self {
            LinePriority::Occupant => 96 << 10,
            LinePriority::Operator => 48 << 10,
            LinePriority::Mandatory => 0,
        }
    }
}

/// The space left for occupants when the disk becomes full: between half of this and all of it.
const AHEAD: u64 = 128 << 10;

/// The number of bytes written before space is requested again from a full disk.
const AGAIN: u64 = 4 << 10;

/// The space reserved for one journal.
#[derive(Debug, Default)]
pub(super) struct SpaceReserve {
    /// The offset up to which space is allocated.
    until: u64,
    /// True if the file system cannot reserve space (NFS): then only the write itself can find the disk full.
    cannot: bool,
    /// True if the disk was full at the last attempt; `again` is the length at which to try again.
    full: bool,
    again: u64,
}

impl SpaceReserve {
    /// Returns whether the disk was full at the last attempt.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Forgets the reserved space after a truncation, which may have freed it.
    pub(super) fn forget_reserved(&mut self) {
        self.until = 0;
    }

    /// Makes sure that there is room for a line that ends at an offset, and for the lines that must be written after
    /// it.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`: the line must not be written.
    pub(super) fn ensure_room(
        &mut self,
        file: impl AsFd,
        from: u64,
        end: u64,
        priority: LinePriority,
    ) -> Result<()> {
        if self.cannot || priority == LinePriority::Mandatory {
            return Ok(());
        }
        let enough = end + priority.bytes_left() <= self.until;
        let plenty = end + LinePriority::Occupant.bytes_left() + AHEAD / 2 <= self.until;
        if plenty || (enough && self.full && end < self.again) {
            return Ok(());
        }
        let until = end + LinePriority::Occupant.bytes_left() + AHEAD;
        let given = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, until - from);
        self.full = matches!(given, Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG));
        match given {
            Ok(()) => self.until = until,
            Err(errno) if self.full => {
                self.again = end + AGAIN;
                if !enough {
                    return Err(Error::os("write")(errno));
                }
            }
            Err(Errno::INTR | Errno::IO) => {}
            Err(_) => self.cannot = true,
        }
        Ok(())
    }
}
