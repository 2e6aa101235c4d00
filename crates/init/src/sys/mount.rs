//! mount_setattr(2), and the loopback interface of a network namespace.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, Result};

/// `MOUNT_ATTR_*` of mount_setattr(2).
pub mod attr {
    /// Nothing below the mount can be changed.
    pub const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
    /// Set-user-id bits mean nothing.
    pub const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
    /// Devices are none.
    pub const NO_DEV: u64 = libc::MOUNT_ATTR_NODEV;
    /// No file can be executed.
    pub const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;
}

/// Sets attributes of a mount, and of all below it if `recursive`.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN over the mount's namespace; `EINVAL` if the descriptor is no mount's root.
pub fn set_attributes(mount: impl AsFd, attributes: u64, recursive: bool) -> Result<()> {
    let wanted = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: reads an empty text and a structure of the size that is given, both alive until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const wanted,
            size_of_val(&wanted),
        )
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Brings up `lo` in the network namespace of the calling process.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN over the namespace.
pub fn bring_up_loopback() -> Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: the structure is plain numbers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads the structure and changes nothing in this process.
    let done = unsafe {
        // C libraries do not agree on the type of a request.
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        )
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    // SAFETY: errno of the calling thread always has an address.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
