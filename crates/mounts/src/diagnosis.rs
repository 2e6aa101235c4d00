//! Finds out why a home could not be mounted or unmounted.
//!
//! A failed step says little: EPERM of `mount(2)` has five causes, and fusermount3 exits with 1 for all of its own. The
//! rest is read from the process and from the machine, only after a step has failed. Nothing is refused for what is read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::obstacle::{CONTAINER_OPTIONS, DEVICE, MountObstacle};
use trumanfs_types::error::{Error, Result, reason};

/// The program that mounts for ordinary users.
const HELPER: &str = "fusermount3";

/// A step of mounting that failed, with what it failed with.
#[derive(Debug, Clone, Copy)]
pub enum FailedStep<'a> {
    /// Opening /dev/fuse.
    Device(Errno),
    /// `mount(2)`, as root.
    Mount(Errno),
    /// Starting fusermount3.
    HelperStart(Errno),
    /// fusermount3 mounted nothing, with this on its standard error.
    Helper(&'a str),
    /// fusermount3 unmounted nothing, with this on its standard error.
    HelperUnmount(&'a str),
}

/// Finds the cause of a failed step.
pub fn find_obstacle(failed: FailedStep<'_>) -> MountObstacle {
    diagnose(failed, &SystemFacts::read())
}

/// Returns the kernel's release, as `uname -r` prints it.
pub fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Checks that the kernel has the youngest system call that homes cannot do without: openat2(2), of Linux 5.6.
///
/// # Errors
/// [`Error::Refused`] where it is older, or a filter of system calls does not know the call.
pub fn check_kernel() -> Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(
        CWD,
        "/",
        flags,
        rustix::fs::Mode::empty(),
        rustix::fs::ResolveFlags::empty(),
    );
    match opened {
        Err(errno @ (Errno::NOSYS | Errno::PERM)) => Err(Error::refused(
            format!(
                "openat2(2) does not work on this kernel ({}): {}",
                kernel_release(),
                reason(&errno.into())
            ),
            format!(
                "Homes need Linux 5.6 or newer, and in a container a filter of system calls that knows openat2: start it \
                 with {CONTAINER_OPTIONS}."
            ),
        )),
        _ => Ok(()),
    }
}

/// Makes the error of a /dev/fuse that cannot be opened.
pub fn device_error(errno: Errno) -> Error {
    find_obstacle(FailedStep::Device(errno)).error(format!(
        "{DEVICE} cannot be opened: {}",
        reason(&errno.into())
    ))
}

/// Facts about this process and machine, read once a step has failed.
#[derive(Debug, Default, Clone)]
struct SystemFacts {
    is_root: bool,
    /// The kernel knows the file system `fuse`.
    has_fuse: bool,
    no_new_privs: bool,
    /// CAP_SYS_ADMIN is among the capabilities that the one who mounts has: root its own, fusermount3 the bounding set.
    has_capability: bool,
    /// `mount(2)` is answered with EPERM before the kernel looks at its arguments.
    is_filtered: bool,
    in_user_namespace: bool,
    /// The errno of opening /dev/fuse.
    device: Option<Errno>,
    /// The mode of /dev/fuse.
    device_mode: Option<u32>,
    device_is_nodev: bool,
    helper: Option<HelperFile>,
}

/// fusermount3, as it is found.
#[derive(Debug, Default, Clone)]
struct HelperFile {
    path: PathBuf,
    is_setuid_root: bool,
    is_nosuid: bool,
}

/// The bit of CAP_SYS_ADMIN (capabilities(7)).
const CAP_SYS_ADMIN: u64 = 1 << 21;

impl SystemFacts {
    fn read() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name).map(str::trim))
        };
        let capabilities = field(if is_root { "CapEff:" } else { "CapBnd:" });
        let capabilities = capabilities.and_then(|text| u64::from_str_radix(text, 16).ok());
        let systems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let device = std::fs::metadata(DEVICE).ok();
        Self {
            is_root,
            has_fuse: systems.lines().any(|line| line.ends_with("\tfuse")),
            no_new_privs: field("NoNewPrivs:") == Some("1"),
            has_capability: capabilities.is_none_or(|bits| bits & CAP_SYS_ADMIN != 0),
            is_filtered: is_mount_filtered(),
            in_user_namespace: in_user_namespace(),
            device: open_device().err(),
            device_mode: device.map(|meta| meta.mode() & 0o7777),
            device_is_nodev: has_mount_flag(Path::new(DEVICE), StatVfsMountFlags::NODEV),
            helper: find_helper(),
        }
    }
}

/// Opens /dev/fuse as a mount does.
///
/// # Errors
/// What the kernel says.
pub fn open_device() -> rustix::io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(DEVICE, flags, rustix::fs::Mode::empty())
}

/// Returns whether this process is in another user namespace than the machine's first.
pub(super) fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns whether `mount(2)` never reaches the kernel's own checks: these find first that an empty path is none.
fn is_mount_filtered() -> bool {
    let mounted = rustix::mount::mount("none", "", "none", MountFlags::empty(), None);
    mounted == Err(Errno::PERM)
}

fn has_mount_flag(path: &Path, flag: StatVfsMountFlags) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|stat| stat.f_flag.contains(flag))
}

fn find_helper() -> Option<HelperFile> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path)
        .map(|dir| dir.join(HELPER))
        .find(|file| file.is_file())?;
    let meta = std::fs::metadata(&path).ok()?;
    Some(HelperFile {
        is_setuid_root: meta.uid() == 0 && meta.mode() & 0o4000 != 0 || has_capabilities(&path),
        is_nosuid: has_mount_flag(&path, StatVfsMountFlags::NOSUID),
        path,
    })
}

/// Returns whether a program has capabilities of its own, as some distributions give them to fusermount3.
fn has_capabilities(path: &Path) -> bool {
    rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64]).is_ok()
}

/// Finds the cause in what is known.
fn diagnose(failed: FailedStep<'_>, facts: &SystemFacts) -> MountObstacle {
    match failed {
        FailedStep::Device(errno) => device_obstacle(errno, facts),
        FailedStep::Mount(Errno::NODEV) => MountObstacle::NoModule,
        FailedStep::Mount(Errno::ACCESS) => MountObstacle::SecurityModule,
        FailedStep::Mount(Errno::PERM) => mount_obstacle(facts),
        FailedStep::Mount(_) => MountObstacle::Unknown,
        FailedStep::HelperStart(Errno::NOENT) => MountObstacle::NoHelper,
        FailedStep::HelperStart(_) => MountObstacle::Unknown,
        FailedStep::Helper(complaint) => helper_obstacle(complaint, facts),
        // Only mounting takes the device.
        FailedStep::HelperUnmount(complaint) => {
            let facts = SystemFacts {
                device: None,
                ..facts.clone()
            };
            helper_obstacle(complaint, &facts)
        }
    }
}

fn device_obstacle(errno: Errno, facts: &SystemFacts) -> MountObstacle {
    match errno {
        Errno::NOENT if facts.has_fuse => MountObstacle::NoDevice,
        Errno::NOENT | Errno::NODEV | Errno::NXIO => MountObstacle::NoModule,
        Errno::ACCESS if facts.device_is_nodev => MountObstacle::DeviceNodev,
        Errno::ACCESS => match facts.device_mode {
            Some(mode) if !facts.is_root && mode & 0o006 != 0o006 => {
                MountObstacle::DeviceMode(mode)
            }
            _ => MountObstacle::SecurityModule,
        },
        Errno::PERM => MountObstacle::DeviceList,
        _ => MountObstacle::Unknown,
    }
}

/// The causes of EPERM of `mount(2)`.
fn mount_obstacle(facts: &SystemFacts) -> MountObstacle {
    if !facts.has_capability {
        MountObstacle::NoCapability
    } else if facts.is_filtered {
        MountObstacle::SystemCallFilter
    } else if facts.in_user_namespace {
        MountObstacle::UserNamespace
    } else {
        MountObstacle::SecurityModule
    }
}

/// The causes for which fusermount3 mounts nothing. First those that it names itself.
fn helper_obstacle(complaint: &str, facts: &SystemFacts) -> MountObstacle {
    for (words, obstacle) in [
        ("user_allow_other", MountObstacle::AllowOther),
        ("mount_max", MountObstacle::TooMany),
        (
            "no write access to mountpoint",
            MountObstacle::HomeNotWritable,
        ),
        (
            "mounting over filesystem type",
            MountObstacle::HomeFileSystem,
        ),
        ("failed to open /etc/mtab", MountObstacle::NoMountTable),
        ("not found in /etc/mtab", MountObstacle::MountOfAnother),
    ] {
        if complaint.contains(words) {
            return obstacle;
        }
    }
    if let Some(errno) = facts.device {
        return device_obstacle(errno, facts);
    }
    if facts.no_new_privs {
        return MountObstacle::NoNewPrivileges;
    }
    match &facts.helper {
        None => return MountObstacle::NoHelper,
        Some(helper) if !helper.is_setuid_root => {
            return MountObstacle::HelperNotSetuid(helper.path.clone());
        }
        Some(helper) if helper.is_nosuid => {
            return MountObstacle::HelperNosuid(helper.path.clone());
        }
        Some(_) => {}
    }
    if complaint.contains("No such device") {
        MountObstacle::NoModule
    } else if complaint.contains("Permission denied") {
        MountObstacle::SecurityModule
    } else if complaint.contains("not permitted") {
        mount_obstacle(facts)
    } else {
        MountObstacle::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The causes that few machines have; tests/sandbox/mount_obstacles.rs makes the others.
    #[test]
    fn cause_is_found_in_what_failed_and_in_the_facts() {
        let user = SystemFacts {
            has_fuse: true,
            has_capability: true,
            helper: Some(HelperFile {
                is_setuid_root: true,
                ..HelperFile::default()
            }),
            ..SystemFacts::default()
        };
        let root = SystemFacts {
            is_root: true,
            ..user.clone()
        };
        let refused = "fusermount3: mount failed: Permission denied";
        for (failed, facts, obstacle) in [
            (
                FailedStep::Mount(Errno::ACCESS),
                &root,
                MountObstacle::SecurityModule,
            ),
            (
                FailedStep::Mount(Errno::PERM),
                &root,
                MountObstacle::SecurityModule,
            ),
            (
                FailedStep::Mount(Errno::NODEV),
                &root,
                MountObstacle::NoModule,
            ),
            (
                FailedStep::Mount(Errno::NOMEM),
                &root,
                MountObstacle::Unknown,
            ),
            (
                FailedStep::Device(Errno::ACCESS),
                &root,
                MountObstacle::SecurityModule,
            ),
            (
                FailedStep::Device(Errno::MFILE),
                &root,
                MountObstacle::Unknown,
            ),
            (
                FailedStep::Helper(refused),
                &user,
                MountObstacle::SecurityModule,
            ),
            (
                FailedStep::Helper(
                    "fusermount3: mounting over filesystem type 0x9fa0 is forbidden",
                ),
                &user,
                MountObstacle::HomeFileSystem,
            ),
            (
                FailedStep::HelperUnmount("fusermount3: entry for /h not found in /etc/mtab"),
                &user,
                MountObstacle::MountOfAnother,
            ),
            (
                FailedStep::HelperStart(Errno::ACCESS),
                &user,
                MountObstacle::Unknown,
            ),
        ] {
            assert_eq!(diagnose(failed, facts), obstacle, "{failed:?}");
            let error = obstacle.error("cannot mount /h").to_string();
            assert!(
                error.ends_with('.') && !error.contains("package fuse3"),
                "{error}"
            );
        }
    }
}
