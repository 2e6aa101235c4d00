//! Rules about files for one program and all that it starts (landlock(7)): what is not listed cannot be opened.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};

/// `LANDLOCK_ACCESS_FS_*` of linux/landlock.h.
pub mod access {
    /// Executing files.
    pub const EXECUTE: u64 = 1;
    /// Opening files for writing.
    pub const WRITE_FILE: u64 = 1 << 1;
    /// Opening files for reading.
    pub const READ_FILE: u64 = 1 << 2;
    /// Listing directories.
    pub const READ_DIR: u64 = 1 << 3;
    /// Truncating files, by a path too.
    pub const TRUNCATE: u64 = 1 << 14;
    /// ioctl(2) on devices (ABI 5).
    pub const IOCTL_DEV: u64 = 1 << 15;
    /// All rights that a file itself can have, and not only a directory.
    pub const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
    /// Everything that ABI 3 knows.
    pub const ALL_OF_ABI_3: u64 = (1 << 15) - 1;
}

/// The first ABI by which truncate(2) can be refused (Linux 6.2): without that, any file that the user may write to could
/// be emptied.
pub const NEEDED_ABI: u32 = 3;

/// `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: libc::c_uint = 1;
/// `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: libc::c_int = 1;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL` (ABI 6).
const SCOPES: u64 = 3;

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathRule {
    allowed_access: u64,
    parent_fd: i32,
}

/// Returns the ABI of the kernel; 0 where it has no Landlock, or does not use it.
#[must_use]
pub fn abi() -> u32 {
    let nothing = std::ptr::null::<RulesetAttributes>();
    // SAFETY: asks for a number; nothing is read or written.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}

/// Rules that are being put together.
#[derive(Debug)]
pub struct Ruleset {
    fd: OwnedFd,
    handled: u64,
}

impl Ruleset {
    /// Begins with nothing allowed. From ABI 6 on, processes outside cannot be signalled either, nor connected to by
    /// abstract sockets.
    ///
    /// # Errors
    /// `ENOSYS`, `EOPNOTSUPP`: no Landlock, or an ABI before [`NEEDED_ABI`].
    pub fn new() -> Result<Ruleset> {
        let abi = abi();
        if abi < NEEDED_ABI {
            return Err(Errno::OPNOTSUPP);
        }
        let handled = match abi {
            ..5 => access::ALL_OF_ABI_3,
            _ => access::ALL_OF_ABI_3 | access::IOCTL_DEV,
        };
        let wanted = RulesetAttributes {
            handled_access_fs: handled,
            handled_access_net: 0,
            scoped: if abi < 6 { 0 } else { SCOPES },
        };
        // An older kernel takes a shorter structure.
        let len = match abi {
            ..4 => 8_usize,
            4..6 => 16,
            _ => size_of_val(&wanted),
        };
        // SAFETY: the kernel reads `len` bytes of a local variable.
        let fd =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const wanted, len, 0) };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the descriptor was made just now, for us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Ruleset { fd, handled })
    }

    /// Allows these rights on what is open, and on all below it.
    ///
    /// # Errors
    /// `EINVAL` for rights that a file cannot have.
    pub fn allow(&self, at: impl AsFd, rights: u64) -> Result<()> {
        let rule = PathRule {
            allowed_access: rights & self.handled,
            parent_fd: at.as_fd().as_raw_fd(),
        };
        let fd = self.fd.as_raw_fd();
        // SAFETY: the kernel reads a local variable, which has the layout of its structure.
        let done = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                fd,
                PATH_BENEATH,
                &raw const rule,
                0,
            )
        };
        if done == 0 { Ok(()) } else { Err(last_errno()) }
    }
}

impl AsFd for Ruleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Has rules hold for the calling thread and all that it starts. Needs NoNewPrivs.
pub(super) fn restrict(ruleset: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes numbers.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

fn last_errno() -> Errno {
    // SAFETY: errno of the calling thread always has an address.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
