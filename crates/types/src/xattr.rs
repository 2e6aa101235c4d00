//! Extended attributes (xattr(7)), read whole.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::error::{Error, Result};

/// The largest size of one value or of the list of names, in bytes (limits.h).
pub const XATTR_SIZE_MAX: usize = 64 * 1024;

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
