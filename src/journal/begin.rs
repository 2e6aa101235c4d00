//! What a session says when it begins, beside who and where: which store it is, and how the session before it had ended.

use serde::{Deserialize, Serialize};

use super::stamp::Stamp;

/// The place where a session was recorded: the directory `.trumanfs` of its store, which no copy of the store has. It stays
/// the same under another path, mount or device number, and in an image or a snapshot of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreId {
    /// The directory's inode number.
    pub inode: u64,
    /// When it was made, where the file system knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<Stamp>,
    /// Else how often its inode number had been used before (ext4, xfs), where the file system says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// How a session had ended when the next one began: nobody can cut its end off unnoticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// The session.
    pub session: String,
    /// The number of its last record; 0 where it had none.
    pub seq: u64,
    /// SHA-256 (hex) of its last line, without its newline; 64 zeros where it had none.
    pub hash: String,
}
