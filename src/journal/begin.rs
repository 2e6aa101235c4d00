//! What a session says when it begins, beside who and where: which store it is, and how the session before it had ended.

use serde::{Deserialize, Serialize};

/// Which store it is, by its `.trumanfs`: no copy has the same inode with the same time of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The inode number.
    pub inode: u64,
    /// When the inode was made, in nanoseconds since 1970; 0 where the file system does not say.
    pub born: u64,
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
