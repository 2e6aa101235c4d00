//! Reuse of an open directory or store by a later operation, and a directory's reference in a record.

use std::os::fd::AsFd;

use super::Id;
use super::root::{Dir, Root, stat_fd};
use crate::error::{Error, Result};
use crate::journal::DirTime;

impl Root {
    /// Opens the store, which must be the directory to which its path led before.
    ///
    /// # Errors
    /// As [`Root::open`]; [`Error::Refused`] if the path leads to another directory by now.
    pub fn open_expecting(path: &std::path::Path, id: Id) -> Result<Root> {
        let root = Root::open_store(path)?;
        if root.id() == id {
            return Ok(root);
        }
        Err(Error::refused(
            format!(
                "{} was replaced by another directory while it was opened",
                path.display()
            ),
            "Nothing was done there. Look who can rename it (`ls -ld` on it and on what it lies in), and give the command once more.",
        ))
    }

    /// Duplicates the root for changes with its user's own rights: without an operator's access, and with its directory
    /// made usable.
    ///
    /// # Errors
    /// As [`Root::from_fd`] and [`Root::made_usable`].
    pub fn duplicate_for_changes(&self) -> Result<Root> {
        let fd = rustix::io::fcntl_dupfd_cloexec(self, 0).map_err(Error::os("fcntl"))?;
        let hidden = self.hidden.as_deref().cloned();
        let root = Root::from_fd(fd)?.hiding(hidden);
        match &self.elsewhere {
            Some(place) => root.with_state_in(place.clone())?,
            None => root,
        }
        .made_usable()
    }
}

impl Dir {
    /// Duplicates the directory for another operation, which then does not resolve it again.
    #[must_use]
    pub fn duplicate(&self) -> Dir {
        Dir {
            fd: self.fd.clone(),
            path: self.path.clone(),
            id: self.id,
            reach: self.reach.clone(),
            elsewhere: self.elsewhere.clone(),
        }
    }

    /// Returns the directory as a record refers to it: its mtime before the operation, and its inode number. Call this
    /// before the operation changes the directory, under the lock of names: while a file is emptied, its directory has
    /// another time for a moment.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn dir_time(&self) -> Result<DirTime> {
        let mtime = stat_fd(self.as_fd())?.mtime;
        Ok((mtime.sec, mtime.nsec, self.id.1))
    }

    /// Returns this directory and another one, which may be the same, as [`Dir::dir_time`] does.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn dir_times(&self, other: &Dir) -> Result<[DirTime; 2]> {
        let time = self.dir_time()?;
        let is_same = self.id == other.id;
        Ok([time, if is_same { time } else { other.dir_time()? }])
    }
}
