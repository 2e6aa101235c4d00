//! Disk space ahead of a journal's end, so that on a full disk what has to be recorded still can be.
//!
//! Owns who may use it up to where. What an occupant does leaves enough for an operator, who makes room (an undo, a purge);
//! an operator leaves enough for what must be written in any case: that a change was not made, and the session's end. So a
//! record is only written where the line that takes it back fits too.

use std::os::fd::AsFd;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};

/// For whom a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// Something in the home.
    Occupant,
    /// Whoever may make room.
    Operator,
    /// The truth of what has been written.
    Truth,
}

impl For {
    /// How much it leaves for the others. 64 changes may be under way, and each takes some hundred bytes to take back.
    fn leaves(self) -> u64 {
        match self {
            For::Occupant => 96 << 10,
            For::Operator => 48 << 10,
            For::Truth => 0,
        }
    }
}

/// How much is there for an occupant when the disk becomes full: from half of it to all.
const AHEAD: u64 = 128 << 10;

/// After how much more it is tried again whether the disk is still full.
const AGAIN: u64 = 4 << 10;

/// What has been reserved for one journal.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// Up to where the file system has given space.
    until: u64,
    /// Whether it cannot give any ahead (NFS): then a full disk is met by what is written.
    cannot: bool,
    /// Whether it had none when it was last asked, and from where on it is asked again.
    full: bool,
    again: u64,
}

impl Reserve {
    /// Returns whether the disk was full when it was last asked.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// What was reserved may be gone: the file was cut.
    pub(super) fn lost(&mut self) {
        self.until = 0;
    }

    /// Sees to it that a line that ends there can be written, and what must be written after it.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`: then the line must not be written.
    pub(super) fn has_room(
        &mut self,
        file: impl AsFd,
        from: u64,
        end: u64,
        whose: For,
    ) -> Result<()> {
        if self.cannot || whose == For::Truth {
            return Ok(());
        }
        let enough = end + whose.leaves() <= self.until;
        let plenty = end + For::Occupant.leaves() + AHEAD / 2 <= self.until;
        if plenty || (enough && self.full && end < self.again) {
            return Ok(());
        }
        let until = end + For::Occupant.leaves() + AHEAD;
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
