//! Comparison of two processes, and the name of one.

use rustix::io::{Errno, Result};

/// `KCMP_VM` of linux/kcmp.h: compares address spaces.
const VM: libc::c_int = 1;

/// Returns whether two processes share their address space, as a child of vfork(2) and its parent do until the child
/// runs another program.
///
/// # Errors
/// `ENOSYS` if the kernel lacks kcmp(2); `ESRCH`; `EPERM` if one of them may not be inspected.
pub fn share_memory(one: u32, other: u32) -> Result<bool> {
    // SAFETY: takes numbers and touches no memory.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, VM, 0, 0) } {
        0 => Ok(true),
        1.. => Ok(false),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Returns what a process calls itself.
pub fn name(process: u32) -> Option<String> {
    let comm = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(comm.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_shares_its_memory_with_itself_and_not_with_its_parent() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        match share_memory(own, own) {
            Err(Errno::NOSYS | Errno::PERM) => {
                crate::need::skip!("kernel", "kcmp(2) is not offered")
            }
            shared => assert_eq!(shared, Ok(true)),
        }
        match share_memory(own, parent) {
            Err(Errno::PERM) => crate::need::skip!("root", "the parent is somebody else's process"),
            shared => assert_eq!(shared, Ok(false)),
        }
    }
}
