//! /proc of a sandbox: that of its PID namespace, read-only, with nothing of the machine that programs have no use for.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::mount::MountAttrFlags;

use crate::error::{Step, StepFailure};
use crate::mounts::{attach_own, clone, file_system, write};

/// Names shown beside processes: what programs read to find out what they run on, and what is their own. Whatever else
/// a kernel has there tells of the machine: its devices, interrupts, keys, timers, configuration, modules.
const SHOWN_NAMES: [&str; 20] = [
    "cgroups",
    "cpuinfo",
    "devices",
    "filesystems",
    "loadavg",
    "meminfo",
    "misc",
    "mounts",
    "net",
    "self",
    "stat",
    "swaps",
    "sys",
    "sysvipc",
    "thread-self",
    "tty",
    "uptime",
    "version",
    "version_signature",
    "vmstat",
];

/// Returns true for an entry of /proc that is a process or is shown.
#[must_use]
pub fn is_shown(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit()) || SHOWN_NAMES.contains(&name)
}

/// The place, in the root, and beneath what is mounted there a file and a directory without content.
const PROC: &str = "proc";
const EMPTY: &str = "proc/file";
const EMPTY_DIR: &str = "proc/dir";

/// Mounts this PID namespace's /proc, all of it read-only: much in it belongs to root without asking for a capability,
/// and a home's owner may be root.
pub(crate) fn mount(root: &OwnedFd) -> std::result::Result<(), StepFailure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let failed = |about: &'static str| move |errno| StepFailure::new(Step::Proc, about, errno);
    write(root, Path::new(EMPTY), b"")
        .and_then(|()| rustix::fs::mkdirat(root, EMPTY_DIR, Mode::from_raw_mode(0o555)))
        .map_err(failed("what covers parts of it"))?;
    let proc = file_system("proc", &[], attributes).map_err(failed(""))?;
    let covers = hiding_mounts(root, &proc).map_err(failed("what covers parts of it"))?;
    attach_own(root, &proc, Path::new(PROC)).map_err(failed(""))?;
    for (name, cover) in covers {
        attach_own(root, &cover, &Path::new(PROC).join(name)).map_err(failed("a part of it"))?;
    }
    Ok(())
}

/// Returns what is to be hidden, with what is mounted there.
fn hiding_mounts(root: &OwnedFd, proc: &OwnedFd) -> Result<Vec<(String, OwnedFd)>> {
    let mut covers = Vec::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = rustix::fs::openat(proc, ".", flags, Mode::empty())?;
    for entry in rustix::fs::Dir::new(listing)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            return Err(Errno::ILSEQ);
        };
        if matches!(name, "." | "..") || is_shown(name) {
            continue;
        }
        let empty = match entry.file_type() {
            FileType::Directory => EMPTY_DIR,
            FileType::RegularFile => EMPTY,
            // A link leads to what is hidden or shown by itself.
            _ => continue,
        };
        covers.push((name.to_owned(), clone(root, empty, false)?));
    }
    Ok(covers)
}
