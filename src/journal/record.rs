//! The content of a journal's line: one [`Record`].
//!
//! Owns the journal's schema, together with `op.rs`. A new field must be optional; a changed meaning raises
//! [`SCHEMA`], so that stores written by older releases stay readable.

use serde::{Deserialize, Serialize};

use super::op::Op;
use super::stamp::DirTime;
use trumanfs_types::origin::{Origin, UndoId};

/// The number of the schema, the field `v` of each record. Schema 2 added seals. Schema 3 added runs: a change refers
/// to its undo by its origin, no longer by its actor, so an older release would take an operator's changes for an
/// occupant's. Schema 4 added `accept`. Schema 5 has a checksum of the line before, where there was a SHA-256.
/// Schema 6 has a fixed form, room for fields that a reader does not know, and the origin `outside`.
pub const SCHEMA: u32 = 6;

/// The first schema with seals; an older journal gets none.
pub const SEALED: u32 = 2;

/// The first schema whose lines are only in the form that `encoder.rs` writes. Up to the one before, any JSON with the
/// same fields is valid.
pub(super) const FIXED_FORM: u32 = 6;

/// A record: one line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The schema.
    pub v: u32,
    /// The number of the record in the session, from 1.
    pub seq: u64,
    /// The time: UTC, RFC 3339 with microseconds.
    pub time: String,
    /// The operation about to happen.
    #[serde(flatten)]
    pub op: Op,
    /// The directories that the act changes: that of `path`, then that of `to`. Their inode numbers identify them even
    /// if they moved between the resolving of a path and the record; an undo restores their times. Then those that an
    /// exchange gives another parent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub at: Vec<DirTime>,
    /// The process that made the change; absent for the daemon's own changes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor: Option<Actor>,
    /// The origin; absent for a process without a run.
    #[serde(skip_serializing_if = "Origin::is_plain", default)]
    pub origin: Origin,
    /// The link to the line before, without its newline: XXH3 (16 hexadecimal digits), up to schema 4 SHA-256 (64);
    /// zeros for the first line.
    pub prev: String,
}

impl Record {
    /// Returns the undo that the record belongs to: its own record, and each of its changes.
    pub fn undo_id(&self) -> Option<UndoId> {
        match self.origin.run.filter(|_| self.origin.is_undo()) {
            Some(run) => Some(UndoId::Run(run)),
            None if matches!(self.op, Op::Undo { .. }) => Some(UndoId::Record(self.seq)),
            None => self.actor.as_ref()?.undo.map(UndoId::Record),
        }
    }

    /// Returns whether the operation can be undone by itself, as an undo can. Gathering belongs to a removal, and the
    /// others change nothing or delete for good.
    pub fn can_be_undone(&self) -> bool {
        !matches!(
            self.op,
            Op::Begin { .. }
                | Op::End { .. }
                | Op::Run { .. }
                | Op::Gather { .. }
                | Op::Checkpoint { .. }
                | Op::Accept { .. }
                | Op::Purge { .. }
                | Op::Evict { .. }
                | Op::Abort { .. }
        )
    }
}

/// The process that asked for a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The process id (not a thread's) in the daemon's PID namespace; 0 if the process has none there.
    pub pid: u32,
    /// The user that the process acted as.
    pub uid: u32,
    /// The group that the process acted as.
    pub gid: u32,
    /// The process's name (`/proc/pid/comm`); empty if the process ended before the name was read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// The process's program (`/proc/pid/exe`), escaped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exe: String,
    /// Up to schema 2, the undo that the change is part of: the number of its record in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
}
