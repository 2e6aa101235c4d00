//! When a home's access times change: as the store's mount has it, because it is the store's files that are read, by the kernel or
//! by the daemon. An option that asks for something else is refused, and the mount table shows what holds.

use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountFlags;

use crate::error::{Error, Result};

/// When a look at something changes its access time (mount(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AccessTimes {
    /// Never.
    #[serde(rename = "noatime")]
    Never,
    /// Where it is older than the last change, or than a day.
    #[serde(rename = "relatime")]
    Seldom,
    /// Always.
    #[serde(rename = "strictatime")]
    Always,
}

/// What is asked for, or what holds, of access times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Access {
    /// For everything; what the store has, where nothing is said.
    pub times: Option<AccessTimes>,
    /// Whether those of directories do not change.
    pub not_of_directories: bool,
    /// Whether they shall change at all (`atime`).
    pub some: bool,
}

impl Access {
    /// Returns what holds in a store.
    ///
    /// # Errors
    /// Any error from `statvfs(3)`.
    pub fn of_store(store: &Path) -> Result<Access> {
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
        Ok(Access {
            times: Some(times),
            not_of_directories: times == AccessTimes::Never
                || flags.contains(StatVfsMountFlags::NODIRATIME),
            some: times != AccessTimes::Never,
        })
    }

    /// Checks a wish against what holds in the store.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the option that would have no effect.
    pub fn check(self, of_store: Access, store: &Path) -> Result<()> {
        let word = match self.times {
            Some(times) if Some(times) != of_store.times => times.word(),
            _ if self.some && of_store.times == Some(AccessTimes::Never) => "atime",
            _ if self.not_of_directories && !of_store.not_of_directories => "nodiratime",
            _ => return Ok(()),
        };
        let words = match word {
            // Else the kernel lets noatime stand.
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

    /// Returns what mount(2) is told.
    pub fn flags(self) -> MountFlags {
        let flags = match self.times {
            Some(AccessTimes::Never) => MountFlags::NOATIME,
            Some(AccessTimes::Always) => MountFlags::STRICTATIME,
            Some(AccessTimes::Seldom) | None => MountFlags::RELATIME,
        };
        match self.not_of_directories {
            true => flags | MountFlags::NODIRATIME,
            false => flags,
        }
    }
}

impl AccessTimes {
    /// Returns the word for it, as mount(8) has it.
    pub fn word(self) -> &'static str {
        match self {
            AccessTimes::Never => "noatime",
            AccessTimes::Seldom => "relatime",
            AccessTimes::Always => "strictatime",
        }
    }
}
