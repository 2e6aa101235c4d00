//! Access times of a home. They follow the store's mount, because the kernel or the daemon reads the store's own
//! files. An option that asks for something else is refused, and the mount table shows the real setting.

use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountAttrFlags, MountFlags};

use crate::error::{Error, Result};

/// The condition under which a read updates the access time (mount(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AccessTimes {
    /// Never.
    #[serde(rename = "noatime")]
    Never,
    /// If it is older than the last change, or than a day.
    #[serde(rename = "relatime")]
    Seldom,
    /// Always.
    #[serde(rename = "strictatime")]
    Always,
}

/// The requested or present handling of access times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct AccessTimeSetting {
    /// For all files; the store's own setting, if absent.
    pub times: Option<AccessTimes>,
    /// True if directories are excluded.
    pub not_of_directories: bool,
    /// True if access times must be updated at all (`atime`).
    pub some: bool,
}

impl AccessTimeSetting {
    /// Returns the setting of a store's mount.
    ///
    /// # Errors
    /// Any error from `statvfs(3)`.
    pub fn of_store(store: &Path) -> Result<AccessTimeSetting> {
        let flags = rustix::fs::statvfs(store)
            .map_err(Error::os("statvfs"))?
            .f_flag;
        let times = if flags.contains(StatVfsMountFlags::NOATIME) {
            AccessTimes::Never
        } else if flags.contains(StatVfsMountFlags::RELATIME) {
            AccessTimes::Seldom
        } else {
            AccessTimes::Always
        };
        Ok(AccessTimeSetting {
            times: Some(times),
            not_of_directories: times == AccessTimes::Never
                || flags.contains(StatVfsMountFlags::NODIRATIME),
            some: times != AccessTimes::Never,
        })
    }

    /// Checks a request against the store's setting.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the option that would have no effect.
    pub fn check(self, of_store: AccessTimeSetting, store: &Path) -> Result<()> {
        let word = match self.times {
            Some(times) if Some(times) != of_store.times => times.word(),
            _ if self.some && of_store.times == Some(AccessTimes::Never) => "atime",
            _ if self.not_of_directories && !of_store.not_of_directories => "nodiratime",
            _ => return Ok(()),
        };
        let words = match word {
            // Without `atime` the kernel would keep noatime.
            "relatime" => "atime,relatime",
            word => word,
        };
        let (shown, has) = (
            store.display(),
            of_store.times.map_or("", AccessTimes::word),
        );
        Err(Error::refused(
            format!(
                "-o {word}: access times are those of the store's files, and {shown} is mounted with {has}"
            ),
            format!(
                "Leave the option out, or give it to the store first: `mount --bind {shown} {shown}` and `mount -o remount,bind,{words} {shown}`."
            ),
        ))
    }

    /// Returns the attributes for fsmount(2).
    pub fn attributes(self) -> MountAttrFlags {
        let times = match self.times {
            Some(AccessTimes::Never) => MountAttrFlags::MOUNT_ATTR_NOATIME,
            Some(AccessTimes::Always) => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
            Some(AccessTimes::Seldom) | None => MountAttrFlags::MOUNT_ATTR_RELATIME,
        };
        match self.not_of_directories {
            true => times | MountAttrFlags::MOUNT_ATTR_NODIRATIME,
            false => times,
        }
    }

    /// Returns the flags for mount(2).
    pub fn flags(self) -> MountFlags {
        let flags = match self.times {
            Some(AccessTimes::Never) => MountFlags::NOATIME,
            Some(AccessTimes::Always) => MountFlags::STRICTATIME,
            Some(AccessTimes::Seldom) | None => MountFlags::RELATIME,
        };
        if self.not_of_directories {
            flags | MountFlags::NODIRATIME
        } else {
            flags
        }
    }
}

impl AccessTimes {
    /// Returns the name of the option in mount(8).
    pub fn word(self) -> &'static str {
        match self {
            AccessTimes::Never => "noatime",
            AccessTimes::Seldom => "relatime",
            AccessTimes::Always => "strictatime",
        }
    }
}
