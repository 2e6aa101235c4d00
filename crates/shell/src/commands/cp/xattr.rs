//! Extended attributes that a move between file systems takes along.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use trumanfs_types::error::{Error, Result};
use trumanfs_types::xattr::xattrs;

/// The prefix of the attributes that belong to a file's owner; others belong to the system.
const USER: &[u8] = b"user.";

/// Copies the attributes `user.*` of one file to another. Missing support in either file system is not an error, as
/// with mv(1).
///
/// # Errors
/// Those of fsetxattr(2), such as `ENOSPC`, and any error from reading.
pub(super) fn copy_user_xattrs(from: &File, to: &File) -> Result<()> {
    let found = xattrs(from.as_fd())?;
    for (name, value) in found.iter().filter(|(name, _)| name.starts_with(USER)) {
        match rustix::fs::fsetxattr(to, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(errno) => return Err(Error::os("fsetxattr")(errno)),
        }
    }
    Ok(())
}
