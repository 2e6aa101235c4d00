//! A file's attributes beside its mode: the flags of chattr(1), and its project id.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::IFlags;
use rustix::io::{Errno, Result};

/// `FS_IOC_FSGETXATTR` of linux/fs.h; rustix has neither.
const GET: libc::c_ulong = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`.
const SET: libc::c_ulong = 0x401c_5820;

/// The visible flags that a user can set; the others describe how the file system stores the file.
const SETTABLE: u32 = 0x2280_c4ff;
/// The same for the `fsx_xflags`: all but `FS_XFLAG_PREALLOC` and `FS_XFLAG_HASATTR`.
const SETTABLE_MORE: u32 = 0x7fff_fffd;

/// `struct fsxattr` of linux/fs.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Fsxattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

/// Copies the flags and the project id of one file to another, empty one. Returns `false` if that is not possible, or
/// if a flag would keep the file from being changed and deleted.
///
/// # Errors
/// Any error from setting them.
pub fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool> {
    let settable = |flags: IFlags| flags.bits() & SETTABLE;
    let fixed = IFlags::IMMUTABLE | IFlags::APPEND;
    if flags(from).is_ok_and(|wanted| wanted.intersects(fixed)) {
        return Ok(false);
    }
    if let (Ok(wanted), Ok(has)) = (rustix::fs::ioctl_getflags(from), flags(to))
        && settable(wanted) != settable(has)
    {
        let flags_then = settable(wanted) | has.bits() & !SETTABLE;
        rustix::fs::ioctl_setflags(to, IFlags::from_bits_retain(flags_then))?;
        // A file system silently ignores flags that it does not support.
        if settable(flags(to)?) != settable(wanted) {
            return Ok(false);
        }
    }
    let of_a_kind = |more: Fsxattr| Fsxattr {
        xflags: more.xflags & SETTABLE_MORE,
        nextents: 0,
        ..more
    };
    let (Ok(wanted), Ok(has)) = (get(from), get(to)) else {
        return Ok(true);
    };
    if of_a_kind(wanted) == of_a_kind(has) {
        return Ok(true);
    }
    set(to, &of_a_kind(wanted))?;
    Ok(of_a_kind(get(to)?) == of_a_kind(wanted))
}

fn flags(fd: BorrowedFd<'_>) -> Result<IFlags> {
    rustix::fs::ioctl_getflags(fd)
}

fn get(fd: BorrowedFd<'_>) -> Result<Fsxattr> {
    let mut more = Fsxattr::default();
    // SAFETY: the descriptor lives through the call, and the structure has the size that the kernel writes.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), GET as _, &raw mut more) })?;
    Ok(more)
}

fn set(fd: BorrowedFd<'_>, more: &Fsxattr) -> Result<()> {
    // SAFETY: the descriptor and the structure live through the call, which only reads the structure.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), SET as _, &raw const *more) })
}

fn check(rc: libc::c_int) -> Result<()> {
    if rc == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
