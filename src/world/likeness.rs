//! What a new inode must share with the one whose place it takes, besides mode, owner and content: all extended
//! attributes including system labels, the flags of chattr(1), the project id. Decides what counts as alike; where two
//! inodes cannot be made alike, the caller keeps the old one in place.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::root::Node;
use crate::error::{Error, Result};

/// A program file's capabilities: any change of its content removes them (`file_remove_privs`).
pub const CAPABILITY: &[u8] = b"security.capability";

/// The largest size of one value or of the list of names (limits.h).
const XATTR_SIZE_MAX: usize = 64 * 1024;

/// Extended attributes by name.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads all extended attributes of a file that this thread can see.
///
/// # Errors
/// Any error from `listxattr(2)` or `getxattr(2)`.
pub fn xattrs(file: BorrowedFd<'_>) -> Result<Xattrs> {
    // The calls on descriptors do not accept `O_PATH` descriptors.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let names = match whole(|buffer| rustix::fs::listxattr(&path, buffer)) {
        // The file system has none, or none for this type of file.
        Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(Xattrs::new()),
        names => names.map_err(Error::os("listxattr"))?,
    };
    let mut found = Xattrs::new();
    for name in names.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        match whole(|buffer| rustix::fs::getxattr(&path, name, buffer)) {
            Ok(value) => found.insert(name.to_vec(), value),
            Err(Errno::NODATA) => None,
            Err(errno) => return Err(Error::os("getxattr")(errno)),
        };
    }
    Ok(found)
}

/// Reads a value that is usually small.
fn whole(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut few = [0; 1024];
    match read(&mut few) {
        Err(Errno::RANGE) => {}
        length => return length.map(|length| few.get(..length).unwrap_or_default().to_vec()),
    }
    let mut many = vec![0; XATTR_SIZE_MAX];
    let length = read(&mut many)?;
    many.truncate(length);
    Ok(many)
}

/// Makes a new file like another, which is open as `open`. Its capabilities go, as with any change of content. Returns
/// `false` if something cannot be copied.
///
/// # Errors
/// `ENOSPC`, `EDQUOT`; any error from reading.
pub(super) fn make_alike(from: &Node, open: BorrowedFd<'_>, to: &OwnedFd) -> Result<bool> {
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
