//! A thread's file system credentials: fsuid, fsgid and the related capabilities.
//!
//! setfsuid(2) applies to one thread, and glibc does not spread it to others, which suits a daemon that acts for
//! several users.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// A guard that restores the thread's former file system identity when dropped.
#[derive(Debug)]
#[must_use = "the identity lasts as long as this"]
pub struct IdentityGuard {
    uid: u32,
    gid: u32,
}

/// Makes the calling thread act on files as a user, permanently: new files belong to the user, and the user's
/// permissions apply. The capabilities for files are lost (setfsuid(2)); threads started later inherit all this.
///
/// # Errors
/// `EPERM` if the process may not change its identity.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> rustix::io::Result<()> {
    let groups: Vec<_> = groups
        .iter()
        .map(|g| rustix::fs::Gid::from_raw(*g))
        .collect();
    rustix::thread::set_thread_groups(&groups)?;
    set_fs_ids(uid, gid);
    if fs_ids() == (uid, gid) {
        // CAP_SYS_RESOURCE would let the user exceed quotas and use the blocks reserved for root.
        lower(CapabilitySet::SYS_RESOURCE)
    } else {
        Err(rustix::io::Errno::PERM)
    }
}

/// Makes new files of the calling thread belong to a user until the guard is dropped. The thread keeps the capability
/// to pass every permission check: the kernel has already made the checks (`default_permissions`).
pub fn create_as(uid: u32, gid: u32) -> IdentityGuard {
    let (was_uid, was_gid) = fs_ids();
    let guard = IdentityGuard {
        uid: was_uid,
        gid: was_gid,
    };
    if (was_uid, was_gid) != (uid, gid) {
        set_fs_ids(uid, gid);
        raise(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER);
    }
    guard
}

impl Drop for IdentityGuard {
    fn drop(&mut self) {
        if fs_ids() != (self.uid, self.gid) {
            // On the way back to root, the kernel restores the capabilities that it had dropped.
            set_fs_ids(self.uid, self.gid);
        }
    }
}

fn lower(unwanted: CapabilitySet) -> rustix::io::Result<()> {
    let sets = rustix::thread::capabilities(None)?;
    let effective = sets.effective - unwanted;
    rustix::thread::set_capabilities(None, CapabilitySets { effective, ..sets })
}

fn raise(wanted: CapabilitySet) {
    if let Ok(sets) = rustix::thread::capabilities(None) {
        let effective = sets.effective | (wanted & sets.permitted);
        let _ = rustix::thread::set_capabilities(None, CapabilitySets { effective, ..sets });
    }
}

fn set_fs_ids(uid: u32, gid: u32) {
    // SAFETY: setfsgid takes one integer and touches no memory. It goes first: without CAP_SETUID it would fail later.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
}

/// Returns the thread's file system ids. The calls always return the former id, and -1 is not a user, so nothing
/// changes.
fn fs_ids() -> (u32, u32) {
    // SAFETY: takes one integer and touches no memory.
    let uid = unsafe { libc::syscall(libc::SYS_setfsuid, u32::MAX) };
    // SAFETY: as above.
    let gid = unsafe { libc::syscall(libc::SYS_setfsgid, u32::MAX) };
    (uid as u32, gid as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acting_ends_with_the_guard() {
        let before = fs_ids();
        if before.0 != 0 {
            crate::need::skip!("root", "needs root to change the file system identity");
        }
        {
            let _acting = create_as(12345, 54321);
            assert_eq!(fs_ids(), (12345, 54321));
        }
        assert_eq!(fs_ids(), before);
    }
}
