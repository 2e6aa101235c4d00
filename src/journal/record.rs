//! What is written: one [`Record`] a line, and the closed list of operations ([`Op`]).
//!
//! Owns the journal's schema. A field that is added must be optional; a meaning that changes raises [`SCHEMA`], so that
//! a store written by an older release stays readable.

use serde::{Deserialize, Serialize};

use crate::name::{Escaped, WorldPath};

/// The number of the schema, the field `v` of each record.
pub const SCHEMA: u32 = 1;

/// Which inode: `[st_dev, st_ino]`.
pub type Ids = [u64; 2];

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The schema.
    pub v: u32,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// UTC, RFC 3339 with microseconds.
    pub time: String,
    /// What was about to be done.
    #[serde(flatten)]
    pub op: Op,
    /// Who did it; absent for what the daemon did by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor: Option<Actor>,
    /// SHA-256 (hex) of the line before, without its newline; 64 zeros for the first.
    pub prev: String,
}

/// The process that asked for a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Its process id (of the whole process, not of a thread), as the daemon sees it; 0 where it cannot.
    pub pid: u32,
    /// The user it acted as.
    pub uid: u32,
    /// The group it acted as.
    pub gid: u32,
    /// Its name (`/proc/pid/comm`); empty where it had ended before it could be read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Its program (`/proc/pid/exe`), escaped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exe: String,
}

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
    },
    /// The session ended cleanly.
    End,
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
    /// An earlier record's act did not happen.
    Abort {
        /// The number of that record.
        of: u64,
        /// Why.
        error: String,
    },
}

impl Op {
    /// Returns the word for the operation, as in the field `op`.
    pub fn word(&self) -> &'static str {
        match self {
            Op::Begin { .. } => "begin",
            Op::End => "end",
            Op::Create { .. } => "create",
            Op::Mkdir { .. } => "mkdir",
            Op::Mknod { .. } => "mknod",
            Op::Symlink { .. } => "symlink",
            Op::Link { .. } => "link",
            Op::Write { .. } => "write",
            Op::Truncate { .. } => "truncate",
            Op::Allocate { .. } => "allocate",
            Op::Attr { .. } => "attr",
            Op::Xattr { .. } => "xattr",
            Op::Unlink { .. } => "unlink",
            Op::Rmdir { .. } => "rmdir",
            Op::Gather { .. } => "gather",
            Op::Rename { .. } => "rename",
            Op::Exchange { .. } => "exchange",
            Op::Restore { .. } => "restore",
            Op::Abort { .. } => "abort",
        }
    }
}
