//! Likeness of a new inode to the inode whose place it takes. Besides mode, owner and content, they must share all
//! extended attributes including system labels, the flags of chattr(1) and the project id. If two inodes cannot be made
//! alike, the caller keeps the old one in place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::root::Node;
use trumanfs_types::xattr::xattrs;

/// A program file's capabilities: any change of its content removes them (`file_remove_privs`).
pub const CAPABILITY: &[u8] = b"security.capability";

/// Makes a new file like another, which is open as `open`. Its capabilities go, as with any change of content. Returns
/// `false` if something cannot be copied.
///
/// # Errors
/// `ENOSPC`, `EDQUOT`; any error from reading.
pub(in crate::world) fn make_alike(
    from: &Node,
    open: BorrowedFd<'_>,
    to: &OwnedFd,
) -> Result<bool> {
    let (mut wanted, has) = (xattrs(from.as_fd())?, xattrs(to.as_fd())?);
    wanted.remove(CAPABILITY);
    // The system may have put labels of its own on the new file.
    for name in has.keys().filter(|name| !wanted.contains_key(*name)) {
        if rustix::fs::fremovexattr(to, name.as_slice()).is_err() {
            return Ok(false);
        }
    }
    for (name, value) in &wanted {
        if has.get(name) == Some(value) {
            continue;
        }
        match rustix::fs::fsetxattr(to, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                return Err(Error::os("fsetxattr")(errno));
            }
            Err(_) => return Ok(false),
        }
    }
    Ok(crate::sys::fileattr::copy(open, to.as_fd()).unwrap_or(false))
}
