//! The state before an operation, as records describe it: attributes, a replaced file, a former content.

use serde::{Deserialize, Serialize};

use super::ids::InodeNumbers;
use crate::name::EscapedBytes;

/// Attributes before a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerAttrs {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The time of last access: seconds and nanoseconds.
    pub atime: (i64, u32),
    /// The modification time: seconds and nanoseconds.
    pub mtime: (i64, u32),
}

/// A file replaced by a rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedFile {
    /// The file's inode.
    pub ids: InodeNumbers,
    /// The file's entry in the trash.
    pub trash: EscapedBytes,
}

/// The method by which a former content was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeepMethod {
    /// The inode itself moved to the versions, and a new one took its place.
    Moved,
    /// The version shares the file's blocks (`FICLONE`).
    Cloned,
    /// The version is a copy.
    Copied,
    /// The version has the blocks overwritten since, with a list of them; the others are still in the file.
    Blocks,
    /// Only an append follows: the size is enough.
    Length,
}

impl KeepMethod {
    const ALL: [KeepMethod; 5] = [
        KeepMethod::Moved,
        KeepMethod::Cloned,
        KeepMethod::Copied,
        KeepMethod::Blocks,
        KeepMethod::Length,
    ];

    /// Returns the method that a word in records stands for.
    pub(super) fn of_word(word: &str) -> Option<KeepMethod> {
        KeepMethod::ALL.into_iter().find(|how| how.word() == word)
    }

    /// Returns the method's word in records.
    pub fn word(self) -> &'static str {
        match self {
            KeepMethod::Moved => "moved",
            KeepMethod::Cloned => "cloned",
            KeepMethod::Copied => "copied",
            KeepMethod::Blocks => "blocks",
            KeepMethod::Length => "length",
        }
    }
}

/// A reference to a former content, which is a version of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRef {
    /// The method by which the content was kept.
    pub how: KeepMethod,
    /// The number of the version in its session; 0 for [`KeepMethod::Length`], which has no file.
    pub n: u64,
}
