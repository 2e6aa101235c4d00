//! What a new inode has in common with the one whose place it takes, beside mode, owner and content: extended attributes of
//! every kind, labels of the system too, the flags of chattr(1), the project. Decides what counts as alike; where two cannot
//! be made so, the caller keeps the old inode in its place.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::root::Node;
use crate::error::{Error, Result};

/// The rights that a program's file gives: a change of its content takes them away, whoever makes it (`file_remove_privs`).
pub const CAPABILITY: &[u8] = b"security.capability";

/// The most that one value, or the list of names, can take (limits.h).
const XATTR_SIZE_MAX: usize = 64 * 1024;

/// Extended attributes by name.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads all extended attributes that a file has on the disk, as far as this thread can see them.
///
/// # Errors
/// What `listxattr(2)` and `getxattr(2)` say.
pub fn xattrs(file: BorrowedFd<'_>) -> Result<Xattrs> {
    // A descriptor of the `O_PATH` kind is taken by none of the calls on descriptors.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let names = match whole(|buffer| rustix::fs::listxattr(&path, buffer)) {
        // The file system has none, or not for this kind of thing.
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

/// Reads what takes little room mostly.
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

/// Makes a new file like another, which `open` has open; its capability goes, as a change of content takes it. `false` where
/// something cannot be given to it.
///
/// # Errors
/// `ENOSPC`, `EDQUOT`; what reading says.
pub(super) fn make_alike(from: &Node, open: BorrowedFd<'_>, to: &OwnedFd) -> Result<bool> {
    let (mut wanted, has) = (xattrs(from.as_fd())?, xattrs(to.as_fd())?);
    wanted.remove(CAPABILITY);
    // The system labels a new file by its own rules.
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
