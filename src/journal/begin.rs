//! The parts of a session's `begin` record: the identity of the store, and how the previous session ended.

use serde::{Deserialize, Serialize};

use super::stamp::Stamp;

/// The identity of a store: its directory `.trumanfs`, which no copy of the store shares. It stays the same under
/// another path, mount or device number, and in an image or a snapshot of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreId {
    /// The directory's inode number.
    pub inode: u64,
    /// The directory's time of birth, where the file system has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<Stamp>,
    /// Otherwise the generation of its inode number (ext4, xfs), where the file system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The end of the previous session, which therefore cannot be cut off unnoticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// The session.
    pub session: String,
    /// The number of its last record; 0 where it had none.
    pub seq: u64,
    /// SHA-256 (hex) of its last line, without its newline; 64 zeros where it had none.
    pub hash: String,
}
