//! Extended attributes that a move between file systems takes along.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use trumanfs_types::error::{Error, Result};
use trumanfs_types::xattr::xattrs;

/// The kind that belongs to a file's owner, as others belong to the system.
const USER: &[u8] = b"user.";

/// Gives a file the attributes `user.*` of another. Where the file system of either has none, that is none's fault, as with
/// mv(1).
///
/// # Errors
/// What `fsetxattr(2)` says, `ENOSPC` for one, and any error from reading.
pub(super) fn take_along(from: &File, to: &File) -> Result<()> {
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
