//! The entries of a directory, each inspected and opened by its name, beneath the directory and through no link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::root::{Dir, Node, open_beneath, stat_at, stat_fd};
use crate::error::Result;
use crate::name::Name;
use crate::world::store::layout::is_own_name;
use trumanfs_types::meta::Meta;

impl Dir {
    /// Returns the attributes of one entry, without following it.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn stat(&self, name: Name<'_>) -> Result<Meta> {
        let fd = self.place_of(name);
        self.reach.with_access(fd, || stat_at(fd, name))
    }

    /// Resolves one entry, without following it.
    ///
    /// # Errors
    /// Any error from `openat2(2)`.
    pub fn node(&self, name: Name<'_>) -> Result<Node> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Node::from_fd(self.open(name, flags)?)
    }

    /// Returns the directory that has an entry: this one, but for the store's own directories that lie elsewhere.
    fn place_of(&self, name: Name<'_>) -> BorrowedFd<'_> {
        match &self.elsewhere {
            Some(place) if is_own_name(name.bytes()) => place.fd.as_fd(),
            _ => self.fd.as_fd(),
        }
    }

    fn open(&self, name: Name<'_>, flags: OFlags) -> Result<OwnedFd> {
        let fd = self.place_of(name);
        let open = || open_beneath(fd, name.bytes(), flags, Mode::empty());
        self.reach.with_access(fd, open)
    }

    /// Resolves a directory that is an entry of this one.
    ///
    /// # Errors
    /// Any error from `openat2(2)`; `ENOTDIR` if it is not a directory.
    pub fn child(&self, name: Name<'_>) -> Result<Dir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.open(name, flags)?;
        let meta = stat_fd(fd.as_fd())?;
        Ok(Dir {
            fd: Arc::new(fd),
            path: self.path.join(name),
            id: meta.id,
            reach: self.reach.clone(),
            elsewhere: None,
        })
    }
}
