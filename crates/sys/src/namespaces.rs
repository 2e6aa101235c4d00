//! Leaving the mount namespace of the host.

use rustix::io::{Errno, Result};

/// Gives this process a mount namespace of its own, with a user namespace where it is not root: only in its own may a
/// user clone mounts. The process must have one thread.
///
/// # Errors
/// Errors of unshare(2): `EPERM` where a user may have no user namespace.
pub fn leave_mounts() -> Result<()> {
    let flags = if rustix::process::geteuid().is_root() {
        libc::CLONE_NEWNS
    } else {
        libc::CLONE_NEWNS | libc::CLONE_NEWUSER
    };
    // SAFETY: takes a number and touches no memory; descriptors stay shared with nobody, as CLONE_FILES is not given.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}
