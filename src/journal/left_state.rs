//! The states in which the home left files: by them a reader finds what somebody else changed since.
//!
//! Owns the form of a stamp in a seal. A stamp is taken when a file is closed, waits in memory for the next seal, and
//! is compared for equality only: the order of changes is that of the records. The states that an unknown writer left
//! have the same form, in a list of their own.

use serde::{Deserialize, Serialize};

use super::ids::InodeNumbers;
use super::stamp::FileTime;
use crate::name::WorldPath;
use trumanfs_types::origin::RunId;

/// A stamp: the state that a file was left in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftState {
    /// The session that `seq` and `n` belong to; absent if that is the journal's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The last record about the file before it was left; of a new file, the one that made it.
    pub seq: u64,
    /// The inode.
    pub ids: InodeNumbers,
    /// The inode's time of birth, in nanoseconds since 1970; 0 where the file system has none.
    pub born: u64,
    /// The size in bytes.
    pub size: u64,
    /// The modification time.
    pub mtime: FileTime,
    /// The permission bits, where no record has changed the file since the one that the stamp follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// The time of the last change of the inode.
    pub ctime: FileTime,
    /// True if the file was only just made: it may have been written to since, and the stamp tells which inode it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made: bool,
    /// True if it may have been written to since, through a map that has outlived its descriptor: what an earlier stamp
    /// after the same record says is not known to hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mapped: bool,
    /// The plain SHA-256 (hex) of the content, where it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The number of the version that holds this content as a whole, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Of a git index, the SHA-256 (hex) of its entries. Such a stamp follows no record: `seq` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<String>,
    /// Of a state that the home did not leave: the unknown writer who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Box<UnknownWriter>>,
}

/// Somebody who changed a file directly in the store while a run worked there that no wall kept from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownWriter {
    /// The run.
    pub during: RunId,
    /// The path of the file when the change was found.
    pub file: WorldPath,
    /// True if nothing was there any more. The state means nothing then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl LeftState {
    /// Returns whether two stamps of a file are of one content.
    pub(super) fn has_content_of(&self, other: &LeftState) -> bool {
        (self.born, self.size, self.mtime) == (other.born, other.size, other.mtime)
    }

    /// Returns the stamp of the file with another size and modification time.
    pub(super) fn with_content(&self, size: u64, mtime: FileTime) -> LeftState {
        let is_same = (size, mtime) == (self.size, self.mtime);
        LeftState {
            size,
            mtime,
            sha256: self.sha256.clone().filter(|_| is_same),
            n: self.n.filter(|_| is_same),
            ..self.clone()
        }
    }

    /// Returns the stamp with the device number given for 0, which stands for the store's own.
    pub fn with_device(mut self, device: u64) -> LeftState {
        if self.ids[0] == 0 {
            self.ids[0] = device;
        }
        self
    }
}
