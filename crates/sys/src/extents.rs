//! The extents of a file on disk (FS_IOC_FIEMAP, Documentation/filesystems/fiemap.rst).

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// The file has space, but no data (`FIEMAP_EXTENT_UNWRITTEN`).
const UNWRITTEN: u32 = 0x800;

/// Other files have it in common (`FIEMAP_EXTENT_SHARED`).
const SHARED: u32 = 0x2000;

/// The flags that keep a physical offset from saying which bytes an extent has: `FIEMAP_EXTENT_UNKNOWN`, `DELALLOC`,
/// `ENCODED`, `DATA_ENCRYPTED`, `NOT_ALIGNED`, `DATA_INLINE` and `DATA_TAIL`.
const ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;

/// The last extent of the file (`FIEMAP_EXTENT_LAST`).
const LAST: u32 = 1;

/// The number of extents requested at once.
const AT_ONCE: usize = 64;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct FileExtent {
    /// The offset in the file, in bytes.
    pub logical: u64,
    /// The offset on the device, in bytes.
    pub physical: u64,
    /// In bytes.
    pub length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

impl FileExtent {
    /// Returns an extent without flags other than sharing, as tests of what reads extents want it.
    pub fn new(logical: u64, physical: u64, length: u64, is_shared: bool) -> FileExtent {
        FileExtent {
            logical,
            physical,
            length,
            flags: if is_shared { SHARED } else { 0 },
            ..FileExtent::default()
        }
    }

    /// Returns the end of the extent in the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }

    /// Returns whether the extent has space but no data.
    #[must_use]
    pub fn is_unwritten(&self) -> bool {
        self.flags & UNWRITTEN != 0
    }

    /// Returns whether the file system shares the extent with another file, and all its bytes lie at its physical offset.
    ///
    /// Of others the physical offset may mean nothing: SMB reports that in the file (fs/smb/client/smb2ops.c).
    #[must_use]
    pub fn is_shared_in_place(&self) -> bool {
        self.flags & (SHARED | ELSEWHERE | UNWRITTEN) == SHARED
    }
}

/// `struct fiemap`, with space for some extents.
#[repr(C)]
#[derive(Debug)]
struct ExtentBuffer {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FileExtent; AT_ONCE],
}

/// When to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentSync {
    /// As it is: data not yet written back may have no extent, or still that of what they replace.
    Now,
    /// After all data have been written out (`FIEMAP_FLAG_SYNC`).
    WrittenOut,
}

/// Returns the extents of a file between two offsets; the first and the last may reach beyond them.
///
/// # Errors
/// `ENOTTY` and `EOPNOTSUPP` if the file system does not support it; `EIO`, `ENOSPC` from writing out.
pub fn extents(
    fd: BorrowedFd<'_>,
    (from, to): (u64, u64),
    look: ExtentSync,
) -> Result<Vec<FileExtent>> {
    const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
    const FIEMAP_FLAG_SYNC: u32 = 1;
    let mut found: Vec<FileExtent> = Vec::new();
    let mut at = from;
    while at < to {
        let mut answer = ExtentBuffer {
            start: at,
            length: to - at,
            flags: match look {
                ExtentSync::WrittenOut if at == from => FIEMAP_FLAG_SYNC,
                _ => 0,
            },
            mapped: 0,
            count: AT_ONCE as u32,
            reserved: 0,
            extents: [FileExtent::default(); AT_ONCE],
        };
        // SAFETY: the descriptor lives through the call, which writes at most `count` extents after the header.
        let rc = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP, &raw mut answer) };
        if rc != 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        let mapped = usize::try_from(answer.mapped).unwrap_or(0).min(AT_ONCE);
        let extents = answer.extents.get(..mapped).unwrap_or_default();
        found.extend(extents);
        match extents.last() {
            Some(last) if last.flags & LAST == 0 && last.end() > at => at = last.end(),
            _ => break,
        }
    }
    Ok(found)
}
