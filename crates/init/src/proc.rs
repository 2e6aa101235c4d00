//! /proc of a sandbox: that of its PID namespace, or the container's where no other can be mounted; read-only, with
//! nothing of the machine that programs have no use for.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
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

/// The owner of the `/proc` that a sandbox shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcOwner {
    /// The sandbox: its own processes are in it.
    Sandbox = 0,
    /// The container around: its processes are in it, and closed.
    Container = 1,
}

impl ProcOwner {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Sandbox, Self::Container]
            .into_iter()
            .find(|owner| *owner as u8 == number)
    }
}

/// The place, in the root, and beneath what is mounted there a file and a directory without content.
const PROC: &str = "proc";
const EMPTY: &str = "proc/file";
const EMPTY_DIR: &str = "proc/dir";

/// Mounts this PID namespace's /proc, all of it read-only: much in it belongs to root without asking for a capability,
/// and a home's owner may be root. Where parts of /proc are covered, as in most containers, the kernel refuses a new one
/// (mount_too_revealing): then the one that is there is shown if it may be.
pub(crate) fn mount(
    root: &OwnedFd,
    may_share: bool,
) -> std::result::Result<ProcOwner, StepFailure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let failed = |about: &'static str| move |errno| StepFailure::new(Step::Proc, about, errno);
    write(root, Path::new(EMPTY), b"")
        .and_then(|()| rustix::fs::mkdirat(root, EMPTY_DIR, Mode::from_raw_mode(0o555)))
        .map_err(failed("what covers parts of it"))?;
    let (proc, owner) = match file_system("proc", &[], attributes) {
        Err(Errno::PERM) if may_share => (
            clone(CWD, "/proc", true).map_err(failed("the container's"))?,
            ProcOwner::Container,
        ),
        made => (made.map_err(failed(""))?, ProcOwner::Sandbox),
    };
    let covers = hiding_mounts(root, &proc).map_err(failed("what covers parts of it"))?;
    attach_own(root, &proc, Path::new(PROC)).map_err(failed(""))?;
    for (name, cover) in covers {
        attach_own(root, &cover, &Path::new(PROC).join(name)).map_err(failed("a part of it"))?;
    }
    Ok(owner)
}

/// Checks, as the program that is to run, that what other processes have open, where they work and their memory are closed
/// to it. The kernel asks for CAP_SYS_PTRACE in their user namespace (ptrace(2), access mode checking).
pub(crate) fn expect_closed() -> std::result::Result<(), StepFailure> {
    let failed = |errno| StepFailure::new(Step::Proc, "the container's", errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::openat(CWD, "/proc", flags, Mode::empty()).map_err(failed)?;
    let own = rustix::fs::readlinkat(&proc, "self", Vec::new()).map_err(failed)?;
    for entry in rustix::fs::Dir::read_from(&proc).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_other = name.to_bytes().iter().all(u8::is_ascii_digit) && name != own.as_c_str();
        let Ok(name) = name.to_str() else { continue };
        if is_other && let Some(open) = open_part(&proc, name) {
            let why =
                format!("the container's, in which /proc/{name}/{open} is open to the program");
            return Err(StepFailure::refused(Step::Proc, why));
        }
    }
    Ok(())
}

/// Returns a part of a process that can be looked into.
fn open_part(proc: &OwnedFd, process: &str) -> Option<&'static str> {
    let at = |part: &str| format!("{process}/{part}");
    let is_link = |part: &str| rustix::fs::readlinkat(proc, at(part), Vec::new()).is_ok();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let can_open = |part: &str| rustix::fs::openat(proc, at(part), flags, Mode::empty()).is_ok();
    let has_descriptor = || {
        // The numbers may be listed; what they are is asked for.
        let opened = rustix::fs::openat(proc, at("fd"), flags, Mode::empty());
        let listed = opened.and_then(rustix::fs::Dir::new);
        listed.is_ok_and(|mut listed| {
            listed.any(|entry| {
                entry.is_ok_and(|entry| {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    is_link(&format!("fd/{name}"))
                })
            })
        })
    };
    if is_link("root") {
        Some("root")
    } else if is_link("cwd") {
        Some("cwd")
    } else if can_open("environ") {
        Some("environ")
    } else if can_open("mem") {
        Some("mem")
    } else {
        has_descriptor().then_some("fd")
    }
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
