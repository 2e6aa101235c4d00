//! Extended attributes. For the occupant only the `user.` kind exists: the others belong to the system. An operator puts any
//! kind back.

use rustix::fs::XattrFlags;

use super::likeness::CAPABILITY;
use super::{Caller, Located, World};
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::Escaped;

/// The most that one value, or the list of names, can take (limits.h).
const XATTR_SIZE_MAX: usize = 64 * 1024;

impl World {
    /// Reads an extended attribute of the `user.` kind.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for other kinds; `ENODATA`.
    pub fn get_xattr(&self, located: &Located, name: &[u8]) -> Result<Vec<u8>> {
        check_xattr(name)?;
        self.read_xattr(located, name)
    }

    fn read_xattr(&self, located: &Located, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = vec![0; XATTR_SIZE_MAX];
        let path = self.proc_path(located);
        let length = rustix::fs::getxattr(path, name, &mut value).map_err(Error::os("getxattr"))?;
        value.truncate(length);
        Ok(value)
    }

    /// Lists extended attributes of the `user.` kind, each name with its NUL.
    ///
    /// # Errors
    /// What `listxattr(2)` says.
    pub fn list_xattr(&self, located: &Located) -> Result<Vec<u8>> {
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
    /// `EROFS`; `EOPNOTSUPP` for other kinds than `user.`; `EEXIST` and `ENODATA` as the flags say.
    pub fn set_xattr(
        &self,
        located: &Located,
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
    pub fn remove_xattr(&self, located: &Located, name: &[u8], caller: Caller) -> Result<()> {
        check_xattr(name)?;
        self.change_xattr(located, name, caller, |path| {
            rustix::fs::removexattr(path, name).map_err(Error::os("removexattr"))
        })
    }

    /// Puts an extended attribute of whatever kind back as it was, for an operator; `None` where there was none.
    ///
    /// # Errors
    /// `EROFS`; what `setxattr(2)` and `removexattr(2)` say, `EPERM` above all.
    pub fn put_xattr(
        &self,
        located: &Located,
        name: &[u8],
        value: Option<&[u8]>,
        caller: Caller,
    ) -> Result<()> {
        self.change_xattr(located, name, caller, |path| match value {
            Some(value) => rustix::fs::setxattr(path, name, value, XattrFlags::empty())
                .map_err(Error::os("setxattr")),
            None => rustix::fs::removexattr(path, name).map_err(Error::os("removexattr")),
        })
    }

    /// Records the capability of a program's file whose content or owner is about to change: the kernel takes it away then,
    /// and an undo gives it back.
    pub(super) fn note_capability(&self, located: &Located, caller: Caller) -> Result<()> {
        // A buffer of its own: this is asked for each file that is opened for writing.
        let mut value = [0; 64];
        let path = self.proc_path(located);
        let Ok(length) = rustix::fs::getxattr(path, CAPABILITY, &mut value) else {
            return Ok(());
        };
        let was = value.get(..length).unwrap_or_default().to_vec();
        let op = xattr_op(located, CAPABILITY, Some(Escaped(was)));
        self.journal.note(op, Some(&self.actor(caller))).map(drop)
    }

    fn change_xattr(
        &self,
        located: &Located,
        name: &[u8],
        caller: Caller,
        act: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        self.changeable(located, caller)?;
        let path = self.proc_path(located);
        let was = self.read_xattr(located, name).ok().map(Escaped);
        let op = xattr_op(located, name, was);
        let pending = self.journal.begin(op, &[], Some(&self.actor(caller)))?;
        pending.settle(act(&path))
    }

    /// The calls on extended attributes take no descriptor of the `O_PATH` kind, only a path.
    fn proc_path(&self, located: &Located) -> String {
        format!("/proc/self/fd/{}", self.root.by_proc(&located.node).1)
    }
}

/// Returns the record of a change of an extended attribute.
fn xattr_op(located: &Located, name: &[u8], was: Option<Escaped>) -> Op {
    Op::Xattr {
        path: located.path.clone(),
        ids: World::ids(located.node.meta().id),
        name: Escaped(name.to_vec()),
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
