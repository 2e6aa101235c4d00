//! The parts of a session's `begin` record: the identity of the store, and how the previous session ended.

use serde::{Deserialize, Serialize};

use super::stamp::FileTime;

/// The identity of a store: its directory `.trumanfs`, which no copy of the store shares. It stays the same under
/// another path, mount or device number, and in an image or a snapshot of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreId {
    /// The directory's inode number.
    pub inode: u64,
    /// The directory's time of birth, where the file system has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<FileTime>,
    /// Otherwise the generation of its inode number (ext4, xfs), where the file system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The settings of a mount that decide what exists, what can be changed and what is kept. Work on an unmounted store
/// uses those of the last mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSettings {
    /// The patterns of hidden paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// The patterns of read-only paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<String>,
    /// The patterns of what can be made again, so that its removal and its former contents are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<String>,
    /// True if symlinks that stay inside the store exist.
    #[serde(default)]
    pub symlinks_inside: bool,
    /// True if `.trash` is listed.
    #[serde(default)]
    pub list_trash: bool,
    /// True if each record is on the disk before its act.
    #[serde(default)]
    pub durable: bool,
    /// The settings for keeping former contents.
    pub keep: KeepSettings,
}

/// The settings for keeping former contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepSettings {
    /// True if contents are kept as well as removals.
    pub versions: bool,
    /// The size limit, in bytes, for copying files when they are opened for writing.
    pub copied_up_to: u64,
    /// The limit, in bytes, for the versions of all sessions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// True if the oldest versions are evicted at that limit.
    #[serde(default)]
    pub evict: bool,
}

/// The end of the previous session. Naming it makes a cut-off journal noticeable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// The session.
    pub session: String,
    /// The number of the session's last record; 0 if it had none.
    pub seq: u64,
    /// The SHA-256 (hex) of the session's last line, without the newline; 64 zeros if it had none.
    pub hash: String,
}
