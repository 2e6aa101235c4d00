//! The daemon's privileges: the protection of its own process, the owner it acts for, and the privilege that
//! passthrough takes.

use rustix::fs::{Mode, OFlags};

use super::preflight::PreflightResult;
use crate::error::{Error, Result};

/// Tests, on a short-lived thread, whether the daemon can act for the owner and the owner can enter the store.
pub(super) fn try_owner(checked: &PreflightResult) -> Result<()> {
    let Some(owner) = checked.owner.clone() else {
        return Ok(());
    };
    // By descriptor, like the daemon itself: the directories above the store may be closed to the owner.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let shown = checked.store.display().to_string();
    let store = rustix::fs::open(&checked.store, flags | OFlags::PATH, Mode::empty())
        .map_err(Error::os("open"))?;
    let tried = std::thread::spawn(move || {
        crate::sys::creds::become_user(owner.uid, owner.gid, &owner.groups)
            .map_err(Error::os("setfsuid"))?;
        let opened = rustix::fs::openat(&store, ".", flags, Mode::empty());
        opened.map(drop).map_err(|errno| {
            Error::refused(
                format!(
                    "--owner {}: {shown}: {}",
                    owner.uid,
                    Error::os("open")(errno)
                ),
                "Give the store to that user (chown).",
            )
        })
    });
    tried
        .join()
        .unwrap_or_else(|_| Err(Error::refused("the owner could not be tried", "")))
}

/// Protects the daemon's memory from other processes, clears the umask, and raises the limit of open files to the
/// maximum.
pub(super) fn harden() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior, umask};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    umask(rustix::fs::Mode::empty());
    crate::operator::past::raise_open_file_limit();
}

/// Returns whether backing files can be registered, which takes CAP_SYS_ADMIN in the first user namespace
/// (fuse/backing.c).
pub(super) fn may_pass_through() -> bool {
    use rustix::thread::CapabilitySet;
    let capable = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    let first = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let first: Vec<&str> = first.split_whitespace().collect();
    capable && first == ["0", "0", "4294967295"]
}
