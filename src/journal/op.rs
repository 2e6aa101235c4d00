//! The closed list of operations, each with the values needed to undo it.

use serde::{Deserialize, Serialize};

use super::begin::{MountSettings, SessionEnd, StoreId};
use super::former::{FormerAttrs, ReplacedFile, VersionRef};
use super::history_cut::HistoryCut;
use super::ids::InodeNumbers;
use super::stamp::{FileTime, is_zero};
use super::volatile_loss::VolatileLoss;
use crate::name::{EscapedBytes, WorldPath};
use trumanfs_types::origin::RunId;
use trumanfs_types::turn_mark::TurnMark;

/// An operation: every kind of change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Op {
    /// A session began.
    Begin {
        /// The session's id.
        session: String,
        /// The release of trumanfs.
        version: String,
        /// The host name.
        host: String,
        /// The machine's boot id.
        boot: String,
        /// The home; absent where the store was not mounted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<EscapedBytes>,
        /// The end of the previous session; absent for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<SessionEnd>,
        /// The identity of the store; absent in records of an earlier release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        store: Option<StoreId>,
        /// In a copied store, the newest session that was recorded in the original.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copied: Option<String>,
        /// The settings of the store's last mount; absent if no session names them, and in records of an earlier
        /// release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mounted: Option<Box<MountSettings>>,
    },
    /// The session ended.
    End {
        /// True if its daemon had died, and the next one settled the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        settled: bool,
    },
    /// A run is about to change something: the records that it causes follow, each with its origin.
    Run {
        /// The command: a line of the shell, or the words of a program; only its beginning if it is very long.
        command: EscapedBytes,
        /// The full length in bytes, where only the beginning is recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
        /// The working directory at its start.
        cwd: WorldPath,
        /// The paths of the other stores that the run works in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<EscapedBytes>,
    },
    /// A regular file was created.
    Create {
        /// Its path.
        path: WorldPath,
        /// Permission bits asked for, without those in `dropped`.
        mode: u32,
        /// Set-user-id and set-group-id bits that were asked for and not given, because an executor asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<u32>,
    },
    /// A directory was created.
    Mkdir {
        /// Its path.
        path: WorldPath,
        /// Permission bits asked for.
        mode: u32,
    },
    /// A FIFO, socket or regular file was created by mknod(2).
    Mknod {
        /// Its path.
        path: WorldPath,
        /// Type and permission bits asked for, without those in `dropped`.
        mode: u32,
        /// The bits not given, as in [`Op::Create`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<u32>,
    },
    /// A symlink was created.
    Symlink {
        /// Its path.
        path: WorldPath,
        /// Its target.
        target: EscapedBytes,
    },
    /// A hard link was created.
    Link {
        /// The new name.
        path: WorldPath,
        /// The path by which the file was known.
        from: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
    },
    /// A file was opened for writing (the writes themselves do not pass through the daemon).
    Write {
        /// Its path.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// Its size before, in bytes.
        size: u64,
        /// Its modification time before.
        #[serde(default, skip_serializing_if = "is_zero")]
        mtime: FileTime,
        /// Its permission bits before, where writing clears some (set-user-id, set-group-id).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Its content before; absent where it was empty, or where contents are not kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<VersionRef>,
    },
    /// A file was truncated or extended.
    Truncate {
        /// Its path.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// Its size before, in bytes.
        size: u64,
        /// Its size after, in bytes.
        to: u64,
        /// Its modification time before.
        #[serde(default, skip_serializing_if = "is_zero")]
        mtime: FileTime,
        /// Its permission bits before, where truncating clears some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Its content before; absent where an earlier record of the same open file has it, or nothing was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<VersionRef>,
        /// The inode that took its place ([`KeepMethod::Moved`](super::former::KeepMethod::Moved)).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new: Option<InodeNumbers>,
    },
    /// An operator replaced a file's content.
    Content {
        /// Its path.
        path: WorldPath,
        /// Its inode before.
        ids: InodeNumbers,
        /// Its size before, in bytes.
        size: u64,
        /// Its size after, in bytes.
        to: u64,
        /// Its modification time before.
        mtime: FileTime,
        /// Its content before; absent where it was empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<VersionRef>,
        /// The inode that took its place ([`KeepMethod::Moved`](super::former::KeepMethod::Moved)).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new: Option<InodeNumbers>,
    },
    /// Space was reserved, or a range punched or zeroed (fallocate(2)).
    Allocate {
        /// Its path.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// The flags of the call.
        mode: u32,
        /// Start and length in bytes.
        range: (u64, u64),
        /// Its size before, in bytes.
        #[serde(default)]
        size: u64,
        /// Its modification time before.
        #[serde(default, skip_serializing_if = "is_zero")]
        mtime: FileTime,
        /// Its content before; absent where an earlier record of the same open file has it, or nothing was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<VersionRef>,
    },
    /// Permission bits, owner, group or times changed.
    Attr {
        /// Its path.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// The attributes before.
        was: FormerAttrs,
        /// The new permission bits, if they were set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// The new owner, if it was set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// The new group, if it was set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gid: Option<u32>,
        /// True if the times were set.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        times: bool,
    },
    /// An extended attribute was set or removed.
    Xattr {
        /// Its path.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// The attribute's name.
        name: EscapedBytes,
        /// Its value before; absent where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<EscapedBytes>,
    },
    /// A file (anything but a directory) was removed.
    Unlink {
        /// Its path before.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// Its entry in the trash.
        trash: EscapedBytes,
    },
    /// A directory was removed.
    Rmdir {
        /// Its path before.
        path: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// Its entry in the trash.
        trash: EscapedBytes,
    },
    /// The files that a process removed from a directory before the directory itself were gathered under its entry.
    Gather {
        /// The directory's path before.
        path: WorldPath,
        /// The directory's entry in the trash.
        trash: EscapedBytes,
        /// The entries that moved into it, under their former names.
        entries: Vec<EscapedBytes>,
        /// The former names that are truncated in the entries' own names: the entry and the full name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<(EscapedBytes, EscapedBytes)>,
    },
    /// A file or directory was moved.
    Rename {
        /// Its path before.
        path: WorldPath,
        /// Its path after.
        to: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// The file that it replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<ReplacedFile>,
    },
    /// Two files or directories were exchanged (RENAME_EXCHANGE).
    Exchange {
        /// The first path.
        path: WorldPath,
        /// The second path.
        to: WorldPath,
        /// The inode at `path` before.
        ids: InodeNumbers,
        /// The inode at `to` before.
        other: InodeNumbers,
    },
    /// A file or directory was restored from the trash.
    Restore {
        /// Its path in the trash, from the root of the store.
        path: WorldPath,
        /// Its path after.
        to: WorldPath,
        /// Its inode.
        ids: InodeNumbers,
        /// The file that it replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<ReplacedFile>,
    },
    /// An operator named this point, or the program of a run marked it.
    Checkpoint {
        /// The name that an operator gave; empty in a mark.
        name: String,
        /// The turn that begins here, in a mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<TurnMark>,
    },
    /// An operator undid something. The changes of the undo have the same run in their origin.
    Undo {
        /// The command in words.
        what: String,
        /// The records that were undone: session and range of numbers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        of: Vec<(String, u64, u64)>,
        /// True if an undo was undone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redo: bool,
        /// The paths of the other stores in which the same was undone, by a run of the same id.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<EscapedBytes>,
    },
    /// An operator accepted changes: a review lists them no more.
    Accept {
        /// The command in words.
        what: String,
        /// The run whose changes these are; absent if the changes may be of any run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// The accepted records: session and range of numbers.
        of: Vec<(String, u64, u64)>,
        /// The accepted hunks: path, and SHA-256 (hex) of the changed lines, each after its sign.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hunks: Vec<(WorldPath, String)>,
    },
    /// Entries of the trash were deleted for good, by an operator or as volatile.
    Purge {
        /// The entries.
        entries: Vec<EscapedBytes>,
        /// The volatile things, by directory; empty if an operator deleted them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volatile: Vec<VolatileLoss>,
        /// The cut, if the history before a place has expired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expired: Option<Box<HistoryCut>>,
    },
    /// Versions were deleted for good, to make room (`--keep-evict`) or by an operator; or never kept, as volatile.
    Evict {
        /// The versions: session and number.
        versions: Vec<(String, u64)>,
        /// The volatile things, by directory; else empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volatile: Vec<VolatileLoss>,
    },
    /// An earlier record's act did not happen.
    Abort {
        /// The number of that record.
        of: u64,
        /// The reason.
        error: String,
    },
}

macro_rules! words {
    ($($op:ident $word:literal)*) => {
        /// The words for all operations, as in the field `op`.
        pub const WORDS: &[&str] = &[$($word),*];

        /// The first word of the record of a merge, among those of undos.
pub const MERGE: &str = "merge";

impl Op {
    /// Returns whether the operation is the record of a merge, which undoes no record.
    pub fn is_merge(&self) -> bool {
        let Op::Undo { what, of, redo, .. } = self else {
            return false;
        };
        let first = what.split(' ').next();
        of.is_empty() && !redo && first == Some(MERGE)
    }

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
    Accept "accept"
    Purge "purge"
    Evict "evict"
    Abort "abort"
}
