//! A thread's credentials for the file system: fsuid, fsgid and the capabilities that go with them.
//!
//! setfsuid(2) is per thread in the kernel and glibc does not spread it over threads, which is what a daemon that acts
//! for several users needs.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// Puts the thread's file system identity back when dropped.
#[derive(Debug)]
#[must_use = "the identity lasts as long as this"]
pub struct Acting {
    uid: u32,
    gid: u32,
}

/// Makes the calling thread act on files as a user, for good: what is created belongs to them, and their permissions
/// decide. Of the capabilities, those about files are lost (setfsuid(2)); threads started later inherit all this.
///
/// # Errors
/// `EPERM` where the process may not change its identity.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> rustix::io::Result<()> {
    let groups: Vec<_> = groups
        .iter()
        .map(|g| rustix::fs::Gid::from_raw(*g))
        .collect();
    rustix::thread::set_thread_groups(&groups)?;
    set_fs_ids(uid, gid);
    if fs_ids() == (uid, gid) {
        // It would let the user have the blocks that are reserved for root, and more than their quota.
        lower(CapabilitySet::SYS_RESOURCE)
    } else {
        Err(rustix::io::Errno::PERM)
    }
}

/// Makes what the calling thread creates belong to a user, until the guard is dropped, while the thread keeps the
/// capability to pass every permission check: the kernel has made the checks already (`default_permissions`).
pub fn create_as(uid: u32, gid: u32) -> Acting {
    let (was_uid, was_gid) = fs_ids();
    let guard = Acting {
        uid: was_uid,
        gid: was_gid,
    };
    if (was_uid, was_gid) != (uid, gid) {
        set_fs_ids(uid, gid);
        raise(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER);
    }
    guard
}

impl Drop for Acting {
    fn drop(&mut self) {
        if fs_ids() != (self.uid, self.gid) {
            // Back to root: the kernel raises again what it had dropped.
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

/// Returns the thread's file system ids. The calls always return the former id; -1 is nobody, so nothing changes.
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
            println!("SKIPPED: changing the file system identity needs root");
            return;
        }
        {
            let _acting = create_as(12345, 54321);
            assert_eq!(fs_ids(), (12345, 54321));
        }
        assert_eq!(fs_ids(), before);
    }
}
