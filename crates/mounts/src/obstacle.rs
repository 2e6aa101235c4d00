//! Why this machine does not let a home be mounted or unmounted: the one table from causes to remedies.

use std::fmt;
use std::path::PathBuf;

use trumanfs_types::error::Error;

/// The options that a container needs for homes and sandboxes, for every user in it: one line for docker and podman.
pub const CONTAINER_OPTIONS: &str =
    "--device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined";

/// The device through which the kernel sends the requests of a home.
pub(super) const DEVICE: &str = "/dev/fuse";

/// A cause for which no home can be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountObstacle {
    /// The kernel has no FUSE.
    NoModule,
    /// There is no /dev/fuse, although the kernel has FUSE.
    NoDevice,
    /// The mode of /dev/fuse keeps this user out.
    DeviceMode(u32),
    /// The device file lies where device files are none.
    DeviceNodev,
    /// The list of devices of a container or of a service lacks it.
    DeviceList,
    /// There is no fusermount3.
    NoHelper,
    /// fusermount3 is not set-uid root.
    HelperNotSetuid(PathBuf),
    /// fusermount3 lies where set-uid bits are ignored.
    HelperNosuid(PathBuf),
    /// The process can gain no rights.
    NoNewPrivileges,
    /// The process cannot have CAP_SYS_ADMIN.
    NoCapability,
    /// A filter of system calls refuses `mount(2)`.
    SystemCallFilter,
    /// The user namespace owns no mount namespace.
    UserNamespace,
    /// A security module refuses.
    SecurityModule,
    /// The user may not write to the directory of the home.
    HomeNotWritable,
    /// The home lies on a file system on which fusermount3 mounts nothing.
    HomeFileSystem,
    /// `--allow-other` is not permitted to ordinary users.
    AllowOther,
    /// There are too many FUSE file systems.
    TooMany,
    /// fusermount3 has no table of mounts to look into.
    NoMountTable,
    /// Another user has mounted the home.
    MountOfAnother,
    /// None of those.
    Unknown,
}

impl MountObstacle {
    /// Describes the cause, where a failed step's own words do not.
    fn cause(&self) -> Option<String> {
        Some(match self {
            Self::NoModule => "the kernel has no FUSE".to_owned(),
            Self::DeviceMode(mode) => format!("{DEVICE} has mode {mode:04o}"),
            Self::DeviceNodev => format!("{DEVICE} lies on a file system that is mounted nodev"),
            Self::DeviceList => format!("the list of permitted devices lacks {DEVICE}"),
            Self::HelperNotSetuid(path) => format!("{} is not set-uid root", path.display()),
            Self::HelperNosuid(path) => format!(
                "{} lies on a file system that is mounted nosuid",
                path.display()
            ),
            Self::NoNewPrivileges => "this process was started with no_new_privs".to_owned(),
            Self::NoCapability => "this process cannot have CAP_SYS_ADMIN".to_owned(),
            Self::SystemCallFilter => "a filter of system calls refuses mount(2)".to_owned(),
            Self::UserNamespace => {
                "this user namespace has no mount namespace of its own".to_owned()
            }
            Self::SecurityModule => "a security module (AppArmor, SELinux) refuses it".to_owned(),
            Self::NoMountTable => "there is no /etc/mtab".to_owned(),
            Self::NoDevice
            | Self::NoHelper
            | Self::HomeNotWritable
            | Self::HomeFileSystem
            | Self::AllowOther
            | Self::TooMany
            | Self::MountOfAnother
            | Self::Unknown => return None,
        })
    }

    /// Says how the cause is removed.
    pub fn remedy(&self) -> String {
        let container = format!("in a container, start it with {CONTAINER_OPTIONS}");
        match self {
            Self::NoModule => format!(
                "load the module with `modprobe fuse`, on the host if this is a container; {container}"
            ),
            Self::NoDevice => format!(
                "{container}; elsewhere make the device: `mknod -m 666 {DEVICE} c 10 229`, as root"
            ),
            Self::DeviceMode(_) => format!(
                "let users open it: `chmod 666 {DEVICE}`, as root (udev's default mode), or mount as root"
            ),
            Self::DeviceNodev | Self::DeviceList => {
                format!("{container}; a device file made by mknod is not enough")
            }
            Self::NoHelper => {
                "mounting without being root needs fusermount3: install the package fuse3"
                    .to_owned()
            }
            Self::HelperNotSetuid(path) => format!(
                "reinstall the package fuse3, or `chown root {0} && chmod u+s {0}`, as root of the machine",
                path.display()
            ),
            Self::HelperNosuid(_) => {
                "install fuse3 where set-uid programs work, or mount as root".to_owned()
            }
            Self::NoNewPrivileges => {
                "fusermount3 cannot become root here: start trumanfs outside of the sandbox, without NoNewPrivileges= in \
                 its unit, without `--security-opt no-new-privileges` in a container; or mount as root"
                    .to_owned()
            }
            Self::NoCapability => format!("mounting needs CAP_SYS_ADMIN: {container}"),
            Self::SystemCallFilter => format!(
                "{container}; in a service, allow @mount in SystemCallFilter="
            ),
            Self::UserNamespace => {
                "give it one: `unshare --user --map-root-user --mount`".to_owned()
            }
            Self::SecurityModule => format!(
                "the kernel's log names the rule; {container}. Where AppArmor confines fusermount3, use a home below your \
                 own directory, or allow the place in /etc/apparmor.d/local/fusermount3"
            ),
            Self::HomeNotWritable => {
                "give a home directory that is yours, or mount as root".to_owned()
            }
            Self::HomeFileSystem => "use a home on a disk's file system or in memory".to_owned(),
            Self::AllowOther => {
                "add the line user_allow_other to /etc/fuse.conf, or mount as root".to_owned()
            }
            Self::TooMany => {
                "unmount some (`trumanfs status` lists homes), or raise mount_max in /etc/fuse.conf"
                    .to_owned()
            }
            Self::NoMountTable => {
                "fusermount3 unmounts by it: `ln -s /proc/self/mounts /etc/mtab`, as root".to_owned()
            }
            Self::MountOfAnother => {
                "only root and whoever mounted a home may unmount it".to_owned()
            }
            Self::Unknown => "`trumanfs doctor` tries each step of mounting".to_owned(),
        }
    }

    /// Makes the error of a failed attempt, of which `what` says what failed, on which path, and the reason given.
    pub fn error(&self, what: impl fmt::Display) -> Error {
        let what = match self.cause() {
            Some(cause) => format!("{what} ({cause})"),
            None => what.to_string(),
        };
        let mut remedy = self.remedy();
        if let Some(first) = remedy.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Error::refused(what, format!("{remedy}."))
    }
}
