//! Extended attributes. For the occupant only the `user.` namespace exists: the others belong to the system. An
//! operator's restore may set any.

use std::os::fd::AsFd;

use rustix::fs::XattrFlags;

use super::node_access::{READ_BITS, WRITE_BITS};
use super::open_state::NoOpenState;
use super::{Caller, LocatedNode, World};
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::EscapedBytes;
use crate::world::keep::likeness::CAPABILITY;
use trumanfs_types::xattr::XATTR_SIZE_MAX;

impl World {
    /// Reads an extended attribute of the `user.` namespace.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for other namespaces; `ENODATA`.
    pub fn get_xattr(&self, located: &LocatedNode, name: &[u8]) -> Result<Vec<u8>> {
        check_xattr(name)?;
        self.read_xattr(located, name)
    }

    /// Returns whether there is such an attribute, which needs no permission to read it.
    fn has_xattr(&self, located: &LocatedNode, name: &[u8]) -> Result<bool> {
        let names = self.list_xattr(located)?;
        Ok(names.split(|b| *b == 0).any(|other| other == name))
    }

    fn read_xattr(&self, located: &LocatedNode, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = vec![0; XATTR_SIZE_MAX];
        let path = self.proc_path(located);
        let length = rustix::fs::getxattr(path, name, &mut value).map_err(Error::os("getxattr"))?;
        value.truncate(length);
        Ok(value)
    }

    /// Lists the extended attributes of the `user.` namespace, each name with its NUL.
    ///
    /// # Errors
    /// Any error from `listxattr(2)`.
    pub fn list_xattr(&self, located: &LocatedNode) -> Result<Vec<u8>> {
        let mut buffer = vec![0; XATTR_SIZE_MAX];
        let path = self.proc_path(located);
        let length = rustix::fs::listxattr(path, &mut buffer).map_err(Error::os("listxattr"))?;
        let names = buffer.get(..length).unwrap_or_default();
        let user = names
            .split_inclusive(|b| *b == 0)
            .filter(|name| name.starts_with(b"user."));
        Ok(user.flatten().copied().collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EROFS`; `EOPNOTSUPP` outside `user.`; `EEXIST` and `ENODATA` as the flags require.
    pub fn set_xattr(
        &self,
        located: &LocatedNode,
        name: &[u8],
        value: &[u8],
        flags: u32,
        caller: Caller,
    ) -> Result<()> {
        let flags = XattrFlags::from_bits(flags).ok_or(Error::Invalid)?;
        check_xattr(name)?;
        self.change_xattr(located, name, caller, |path| {
            rustix::fs::setxattr(path, name, value, flags).map_err(Error::os("setxattr"))
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`World::set_xattr`].
    pub fn remove_xattr(&self, located: &LocatedNode, name: &[u8], caller: Caller) -> Result<()> {
        check_xattr(name)?;
        self.change_xattr(located, name, caller, |path| {
            rustix::fs::removexattr(path, name).map_err(Error::os("removexattr"))
        })
    }

    /// Restores an extended attribute of any namespace, for an operator, also where the file is closed to its own user;
    /// `None` removes it.
    ///
    /// # Errors
    /// `EROFS`; any error from `setxattr(2)` or `removexattr(2)`, mainly `EPERM`.
    pub fn put_xattr(
        &self,
        located: &LocatedNode,
        name: &[u8],
        value: Option<&[u8]>,
        caller: Caller,
    ) -> Result<()> {
        self.change_xattr(located, name, caller, |path| {
            let act = || match value {
                Some(value) => rustix::fs::setxattr(path, name, value, XattrFlags::empty())
                    .map_err(Error::os("setxattr")),
                None => rustix::fs::removexattr(path, name).map_err(Error::os("removexattr")),
            };
            match check_xattr(name) {
                Ok(()) => self.with_access(located, WRITE_BITS, act),
                Err(_) => act(),
            }
        })
    }

    /// Records the capabilities of a program file whose content or owner is about to change: the kernel then removes
    /// them, and an undo restores them.
    pub(super) fn note_capability(&self, located: &LocatedNode, caller: Caller) -> Result<()> {
        // A small buffer on the stack: this runs for every file opened for writing.
        let mut value = [0; 64];
        let path = self.proc_path(located);
        let Ok(length) = rustix::fs::getxattr(path, CAPABILITY, &mut value) else {
            return Ok(());
        };
        let was = value.get(..length).unwrap_or_default().to_vec();
        let op = xattr_op(located, CAPABILITY, Some(EscapedBytes(was)));
        self.journal.note(op, Some(&self.author(caller))).map(drop)
    }

    fn change_xattr(
        &self,
        located: &LocatedNode,
        name: &[u8],
        caller: Caller,
        act: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        self.expect_changeable(located, caller)?;
        self.expect_no_outside_name(located, &NoOpenState, caller)?;
        let path = self.proc_path(located);
        // A user who may write to the file may set an attribute, but only a reader can record its former value.
        let was = match self.with_access(located, READ_BITS, || self.read_xattr(located, name)) {
            Err(error) if error.is_denial() && self.has_xattr(located, name)? => return Err(error),
            was => was.ok().map(EscapedBytes),
        };
        let op = xattr_op(located, name, was);
        let pending = self.journal.begin(op, &[], Some(&self.author(caller)))?;
        pending.with_outcome(act(&path))
    }

    /// Carries out a call that needs permission bits of a file or directory that this process's user has closed to
    /// itself.
    fn with_access<T>(
        &self,
        located: &LocatedNode,
        of_file: u32,
        act: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let lender = self.root.lender();
        lender.with_access(located.node.as_fd(), of_file, act)
    }

    /// Returns a path of a node for the calls on extended attributes, which take no `O_PATH` descriptor.
    fn proc_path(&self, located: &LocatedNode) -> String {
        format!("/proc/self/fd/{}", self.root.by_proc(&located.node).1)
    }
}

/// Returns the record of a change of an extended attribute.
fn xattr_op(located: &LocatedNode, name: &[u8], was: Option<EscapedBytes>) -> Op {
    Op::Xattr {
        path: located.path.clone(),
        ids: World::ids(located.node.meta().id),
        name: EscapedBytes(name.to_vec()),
        was,
    }
}

fn check_xattr(name: &[u8]) -> Result<()> {
    if name.starts_with(b"user.") {
        Ok(())
    } else {
        Err(Error::Unsupported)
    }
}
