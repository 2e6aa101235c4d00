//! Attributes to set, as one SETATTR of FUSE, chmod(2), chown(2) or utimensat(2) has them.

use crate::meta::Time;

/// A time to set (utimensat(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Keeps the present time (`UTIME_OMIT`).
    #[default]
    Keep,
    /// The time of the call (`UTIME_NOW`); needs only write permission.
    Now,
    /// This time.
    To(Time),
}

/// Attributes to set together, as in one SETATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttrs {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: SetTime,
    /// Last change of content.
    pub mtime: SetTime,
}

impl SetAttrs {
    /// Returns whether a time is to be set.
    pub fn sets_times(&self) -> bool {
        (self.atime, self.mtime) != (SetTime::Keep, SetTime::Keep)
    }
}
