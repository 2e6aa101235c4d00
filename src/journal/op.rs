//! The closed list of operations, with what it takes to take each back.

use serde::{Deserialize, Serialize};

use super::begin::{After, StoreId};
use super::ids::Ids;
use super::stamp::{Stamp, is_zero};
use crate::name::{Escaped, WorldPath};

/// Attributes before a change, so that they can be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Was {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access: seconds and nanoseconds.
    pub atime: (i64, u32),
    /// Last change of content: seconds and nanoseconds.
    pub mtime: (i64, u32),
}

/// What a rename replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Which inode it was.
    pub ids: Ids,
    /// The entry of the trash that it became.
    pub trash: Escaped,
}

/// How a former content was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The inode itself moved to the versions, and a new one took its place.
    Moved,
    /// The version shares the file's blocks (`FICLONE`).
    Cloned,
    /// The version is a copy.
    Copied,
    /// The version has the blocks that were overwritten since, and a list of them; the others are still in the file.
    Blocks,
    /// Only appending follows: the size says it all.
    Length,
}

/// A former content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// How it was kept.
    pub how: How,
    /// Its number among the session's versions; 0 for [`How::Length`], which has no file.
    pub n: u64,
}

/// Every change there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Op {
    /// A session began.
    Begin {
        /// Its id.
        session: String,
        /// The release that wrote it.
        version: String,
        /// The machine.
        host: String,
        /// The machine's boot id.
        boot: String,
        /// The home; absent where the store was worked on unmounted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<Escaped>,
        /// How the session before had ended; absent for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<After>,
        /// Where it is recorded; absent in records of an earlier release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        store: Option<StoreId>,
        /// In a copied store: the newest of the sessions that were recorded in the original.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copied: Option<String>,
    },
    /// The session ended cleanly.
    End,
    /// A run begins to change something: the records that it causes follow, each with its origin.
    Run {
        /// What was asked for: the line of the shell, or the words of a program; its beginning, where it is very long.
        command: Escaped,
        /// How long the whole is in bytes, where only its beginning is here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
        /// The directory in which it began.
        cwd: WorldPath,
    },
    /// A regular file came to be.
    Create {
        /// Its path.
        path: WorldPath,
        /// Permission bits asked for.
        mode: u32,
    },
    /// A directory came to be.
    Mkdir {
        /// Its path.
        path: WorldPath,
        /// Permission bits asked for.
        mode: u32,
    },
    /// A FIFO, socket or regular file came to be by mknod(2).
    Mknod {
        /// Its path.
        path: WorldPath,
        /// Type and permission bits asked for.
        mode: u32,
    },
    /// A symlink came to be.
    Symlink {
        /// Its path.
        path: WorldPath,
        /// What it says.
        target: Escaped,
    },
    /// A further name for a file.
    Link {
        /// The new name.
        path: WorldPath,
        /// Where the file was known.
        from: WorldPath,
        /// Which file.
        ids: Ids,
    },
    /// A file was opened for writing (what is then written passes the daemon by).
    Write {
        /// Its path.
        path: WorldPath,
        /// Which file.
        ids: Ids,
        /// Its size before, in bytes.
        size: u64,
        /// Its last change of content before.
        #[serde(default, skip_serializing_if = "is_zero")]
        mtime: Stamp,
        /// Its permission bits before, where writing takes some away (set-user-id and the like).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Its content before; absent where there was none, or where contents are not kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
    },
    /// A file was cut or extended.
    Truncate {
        /// Its path.
        path: WorldPath,
        /// Which file.
        ids: Ids,
        /// Its size before, in bytes.
        size: u64,
        /// Its size after, in bytes.
        to: u64,
        /// Its last change of content before.
        #[serde(default, skip_serializing_if = "is_zero")]
        mtime: Stamp,
        /// Its permission bits before, where cutting takes some away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Its content before; absent where an earlier record of the same open file has it, or nothing was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
        /// The inode that took its place ([`How::Moved`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new: Option<Ids>,
    },
    /// An operator put another content in a file's place.
    Content {
        /// Its path.
        path: WorldPath,
        /// Which file it was.
        ids: Ids,
        /// Its size before, in bytes.
        size: u64,
        /// Its size after, in bytes.
        to: u64,
        /// Its last change of content before.
        mtime: Stamp,
        /// Its content before; absent where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
        /// The inode that took its place ([`How::Moved`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new: Option<Ids>,
    },
    /// Space was reserved, or a range punched or zeroed (fallocate(2)).
    Allocate {
        /// Its path.
        path: WorldPath,
        /// Which file.
        ids: Ids,
        /// The flags of the call.
        mode: u32,
        /// Start and length in bytes.
        range: (u64, u64),
        /// Its size before, in bytes.
        #[serde(default)]
        size: u64,
        /// Its last change of content before.
        #[serde(default, skip_serializing_if = "is_zero")]
        mtime: Stamp,
        /// Its content before; absent where an earlier record of the same open file has it, or nothing was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
    },
    /// Permission bits, owner, group or times changed.
    Attr {
        /// Its path.
        path: WorldPath,
        /// Which inode.
        ids: Ids,
        /// What they were.
        was: Was,
        /// The permission bits asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// The owner asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// The group asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gid: Option<u32>,
        /// Whether the times were set.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        times: bool,
    },
    /// An extended attribute was set or removed.
    Xattr {
        /// Its path.
        path: WorldPath,
        /// Which inode.
        ids: Ids,
        /// The attribute.
        name: Escaped,
        /// Its former value; absent where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<Escaped>,
    },
    /// A file (or what is not a directory) was removed.
    Unlink {
        /// Where it was.
        path: WorldPath,
        /// Which inode.
        ids: Ids,
        /// The entry of the trash that it became.
        trash: Escaped,
    },
    /// A directory was removed.
    Rmdir {
        /// Where it was.
        path: WorldPath,
        /// Which inode.
        ids: Ids,
        /// The entry of the trash that it became.
        trash: Escaped,
    },
    /// What one process had removed from a directory before the directory itself was gathered under its entry.
    Gather {
        /// Where the directory was.
        path: WorldPath,
        /// The directory's entry in the trash.
        trash: Escaped,
        /// The entries that moved into it, under their former names.
        entries: Vec<Escaped>,
        /// The former names that the entries' own names do not say whole: the entry and the name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<(Escaped, Escaped)>,
    },
    /// A thing moved.
    Rename {
        /// Where it was.
        path: WorldPath,
        /// Where it went.
        to: WorldPath,
        /// Which inode.
        ids: Ids,
        /// What stood there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<Replaced>,
    },
    /// Two things changed places (RENAME_EXCHANGE).
    Exchange {
        /// The one.
        path: WorldPath,
        /// The other.
        to: WorldPath,
        /// Which inode stood at `path`.
        ids: Ids,
        /// Which inode stood at `to`.
        other: Ids,
    },
    /// Something came back from the trash.
    Restore {
        /// Where in the trash it was, as a path from the root of the store.
        path: WorldPath,
        /// Where it went.
        to: WorldPath,
        /// Which inode.
        ids: Ids,
        /// What stood there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<Replaced>,
    },
    /// A name was given to this point.
    Checkpoint {
        /// The name.
        name: String,
    },
    /// An operator took something back. The changes that belong to it have the same run in their origin.
    Undo {
        /// What was asked for, in the words of the command.
        what: String,
        /// The session of the records that were taken back, where it is not this one, and their numbers, as ranges.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        of: Vec<(String, u64, u64)>,
        /// Whether it took an undo back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redo: bool,
    },
    /// An operator deleted entries of the trash for good.
    Purge {
        /// The entries.
        entries: Vec<Escaped>,
    },
    /// Versions were deleted for good, to make room (`--keep-evict`) or by an operator: session and number.
    Evict {
        /// The versions.
        versions: Vec<(String, u64)>,
    },
    /// An earlier record's act did not happen.
    Abort {
        /// The number of that record.
        of: u64,
        /// Why.
        error: String,
    },
}

macro_rules! words {
    ($($op:ident $word:literal)*) => {
        /// The words for all operations, as in the field `op`.
        pub const WORDS: &[&str] = &[$($word),*];

        impl Op {
            /// Returns the word for the operation, as in the field `op`.
            pub fn word(&self) -> &'static str {
                match self {
                    $(Op::$op { .. } => $word,)*
                }
            }
        }
    };
}

words! {
    Begin "begin"
    End "end"
    Run "run"
    Create "create"
    Mkdir "mkdir"
    Mknod "mknod"
    Symlink "symlink"
    Link "link"
    Write "write"
    Truncate "truncate"
    Allocate "allocate"
    Attr "attr"
    Xattr "xattr"
    Unlink "unlink"
    Rmdir "rmdir"
    Gather "gather"
    Rename "rename"
    Exchange "exchange"
    Restore "restore"
    Content "content"
    Checkpoint "checkpoint"
    Undo "undo"
    Purge "purge"
    Evict "evict"
    Abort "abort"
}
