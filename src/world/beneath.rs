//! System calls on a descriptor and one path below it, which never lead out of the directory.
//!
//! Owns the resolution flags. It does not decide what the occupant may see, and holds no locks.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};

use super::granted_modes;
use crate::error::{Error, Result};
use crate::name::{Name, quoted};
use trumanfs_types::meta::Meta;

/// The resolution flags of every path below the root.
pub const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The fields requested from `statx`.
const STATX_FIELDS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Opens a path below a directory, never leaving it. Retries when a concurrent rename made the kernel unsure
/// (`EAGAIN`, openat2(2)).
///
/// # Errors
/// Any error from `openat2(2)`; `ENOENT` if a link, a mount or a way out is on the path.
pub fn open_beneath(
    from: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    loop {
        match rustix::fs::openat2(from, path, flags, mode, BENEATH) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            result => return result.map_err(Error::os_on("openat2", || quoted(path))),
        }
    }
}

/// Returns the attributes of an open descriptor.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn stat_fd(fd: BorrowedFd<'_>) -> Result<Meta> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let x = rustix::fs::statx(fd, c"", flags, STATX_FIELDS).map_err(Error::os("statx"))?;
    Ok(meta_of(&x))
}

/// Returns the attributes of an entry, without following it.
///
/// # Errors
/// Any error from `statx(2)`; `ENOENT` if another file system is mounted on it.
pub fn stat_at(fd: BorrowedFd<'_>, name: Name<'_>) -> Result<Meta> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let x = rustix::fs::statx(fd, name.bytes(), flags, STATX_FIELDS)
        .map_err(Error::os_on("statx", || quoted(name.bytes())))?;
    let meta = meta_of(&x);
    // Another file system mounted here is absent, as openat2 with RESOLVE_NO_XDEV would have it.
    if meta.mount_root {
        Err(Error::NotFound)
    } else {
        Ok(meta)
    }
}

/// Returns the attributes without the permission bits that an operator is granted at this moment.
fn meta_of(x: &Statx) -> Meta {
    let mut meta = Meta::from_statx(x);
    meta.mode = granted_modes::mode_of((meta.id.0, meta.id.1), meta.mode);
    meta
}
