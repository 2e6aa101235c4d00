//! Leaving the mount namespace of the host.

use std::path::Path;

use rustix::io::{Errno, Result};

/// The user namespace that comes with a mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespace {
    /// Only the own user and group have numbers in it, the same as outside.
    OfOwnIds,
    /// None for root; for others one without numbers, which suffices to clone mounts.
    IfNeeded,
}

/// Gives this process a mount namespace of its own, and a user namespace: only in its own may a user mount or clone
/// mounts. The process must have one thread.
///
/// # Errors
/// Errors of unshare(2): `EPERM` where a user may have no user namespace; of write(2) to the maps of
/// user_namespaces(7).
pub fn leave_mounts(with: UserNamespace) -> Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let flags = match with {
        UserNamespace::IfNeeded if uid.is_root() => libc::CLONE_NEWNS,
        _ => libc::CLONE_NEWNS | libc::CLONE_NEWUSER,
    };
    // SAFETY: takes a number and touches no memory; descriptors stay shared with nobody, as CLONE_FILES is not given.
    if unsafe { libc::unshare(flags) } != 0 {
        return Err(last_error());
    }
    if with == UserNamespace::OfOwnIds {
        let (uid, gid) = (uid.as_raw(), gid.as_raw());
        let write = |name: &str, text: String| {
            let path = Path::new("/proc/self").join(name);
            std::fs::write(path, text).map_err(|error| errno_of(&error))
        };
        // The map of groups is for those who have given up setgroups(2).
        write("setgroups", "deny".to_owned())?;
        write("uid_map", format!("{uid} {uid} 1"))?;
        write("gid_map", format!("{gid} {gid} 1"))?;
    }
    Ok(())
}

fn last_error() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::PERM)
}
