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

/// What a home was mounted with, as far as it says what exists, what can be changed and what is kept. Work on the store while nothing
/// is mounted goes by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSettings {
    /// Patterns of what does not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// Patterns of what cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<String>,
    /// Whether symlinks that stay inside exist.
    #[serde(default)]
    pub symlinks_inside: bool,
    /// Whether `.trash` is listed.
    #[serde(default)]
    pub list_trash: bool,
    /// Whether each record is on the disk before its act.
    #[serde(default)]
    pub durable: bool,
    /// What is kept of contents.
    pub keep: KeepSettings,
}

/// What is kept of contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepSettings {
    /// Whether contents are kept as well as removals.
    pub versions: bool,
    /// Files up to this size are copied when they are opened for writing, in bytes.
    pub copied_up_to: u64,
    /// The most that the versions of all sessions may take together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Whether the oldest make room at that limit.
    #[serde(default)]
    pub evict: bool,
}

/// The end of the previous session, which therefore cannot be cut off unnoticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// The session.
    pub session: String,
    /// The number of its last record; 0 where it had none.
    pub seq: u64,
    /// SHA-256 (hex) of its last line, without its newline; 64 zeros where it had none.
    pub hash: String,
}
