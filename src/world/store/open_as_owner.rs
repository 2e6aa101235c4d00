//! Opening of nodes that a store's owner has closed to itself: the store's own directory, and files.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::node_access::{BitGrant, READ_BITS, WRITE_BITS};
use crate::world::root::{Node, Root};

impl Root {
    /// Returns the root with its directory usable as long as it lives, also where the directory's owner, this process's
    /// user, has closed it to itself.
    ///
    /// # Errors
    /// Any error from `fcntl(2)`.
    pub fn made_usable(mut self) -> Result<Root> {
        let search = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW;
        if rustix::fs::accessat(self.as_fd(), ".", Access::EXEC_OK, search) == Err(Errno::ACCESS) {
            let fd =
                rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0).map_err(Error::os("fcntl"))?;
            // If the bits cannot be granted, the next step reports that.
            self.usable = BitGrant::of(&self.lender, fd).ok().flatten().map(Arc::new);
        }
        Ok(self)
    }

    /// Ends the grant of [`Root::made_usable`].
    pub fn end_use(&self) {
        if let Some(grant) = &self.usable {
            grant.end();
        }
        self.lender.close();
    }

    /// Opens a file for reading even if its mode forbids that to its own owner: the bits are lent for that long.
    ///
    /// # Errors
    /// `EACCES` if the file belongs to another user and may not be read. Nothing of it may then be destroyed.
    pub fn open_to_read(&self, node: &Node) -> Result<OwnedFd> {
        // Only the owner may use O_NOATIME.
        match self.open_owned(node, OFlags::RDONLY | OFlags::NOATIME, READ_BITS) {
            Err(error) if error.errno() == Errno::PERM => {
                self.open_owned(node, OFlags::RDONLY, READ_BITS)
            }
            opened => opened,
        }
    }

    /// Opens a file for an operator to write to, even if its mode forbids that to its own owner.
    ///
    /// # Errors
    /// As [`Root::open_to_read`].
    pub(in crate::world) fn open_to_replace(&self, node: &Node) -> Result<OwnedFd> {
        self.open_owned(node, OFlags::RDWR, WRITE_BITS)
    }

    fn open_owned(&self, node: &Node, flags: OFlags, bits: u32) -> Result<OwnedFd> {
        let open = || self.reopen(node, flags);
        self.lender.with_access(node.as_fd(), bits, open)
    }
}
