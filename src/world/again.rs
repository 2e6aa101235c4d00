//! A directory that one operation has found and a later one uses, and what a record says of it.

use std::os::fd::AsFd;

use super::root::{Dir, stat_fd};
use crate::error::Result;
use crate::journal::At;

impl Dir {
    /// Returns the directory for another operation, which does not resolve it again.
    #[must_use]
    pub fn again(&self) -> Dir {
        Dir {
            fd: self.fd.clone(),
            path: self.path.clone(),
            id: self.id,
            mtime: None,
            reach: self.reach,
        }
    }

    /// Returns the directory as a record refers to it: its mtime before the operation, and its inode number. To be asked before
    /// the operation changes it.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn changed(&self) -> Result<At> {
        let mtime = match self.mtime {
            Some(mtime) => mtime,
            None => stat_fd(self.as_fd())?.mtime,
        };
        Ok((mtime.sec, mtime.nsec, self.id.1))
    }
}
