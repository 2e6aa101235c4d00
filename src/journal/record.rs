//! What is written: one [`Record`] a line.
//!
//! With `op.rs` it owns the journal's schema. A field that is added must be optional; a meaning that changes raises
//! [`SCHEMA`], so that a store written by an older release stays readable.

use serde::{Deserialize, Serialize};

use super::op::Op;
use super::origin::{Origin, UndoId};
use super::stamp::At;

/// The number of the schema, the field `v` of each record. Since 2 there are seals. Since 3 there are runs: a change says by its
/// origin, and not in its actor, which undo it belongs to, so an older release would take an operator's changes for an
/// occupant's.
pub const SCHEMA: u32 = 3;

/// The first schema with seals; a journal of an older one gets none.
pub const SEALED: u32 = 2;

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
    /// The directories that the act changes: that of `path`, then that of `to`. By their numbers they are known where a
    /// directory moved between the resolving of a path and the record; their times are put back by an undo.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub at: Vec<At>,
    /// Who did it; absent for what the daemon did by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor: Option<Actor>,
    /// What it is the doing of; absent for a process without a run.
    #[serde(skip_serializing_if = "Origin::is_plain", default)]
    pub origin: Origin,
    /// SHA-256 (hex) of the line before, without its newline; 64 zeros for the first.
    pub prev: String,
}

impl Record {
    /// Returns which undo it belongs to: the record of the undo itself, and each change of it.
    pub fn undo_id(&self) -> Option<UndoId> {
        match self.origin.run.filter(|_| self.origin.is_undo()) {
            Some(run) => Some(UndoId::Run(run)),
            None if matches!(self.op, Op::Undo { .. }) => Some(UndoId::Record(self.seq)),
            None => self.actor.as_ref()?.undo.map(UndoId::Record),
        }
    }

    /// Returns whether the operation can be undone by itself, an undo among them. What gathers belongs to a removal, and
    /// the rest changes nothing or deletes for good.
    pub fn can_be_undone(&self) -> bool {
        !matches!(
            self.op,
            Op::Begin { .. }
                | Op::End
                | Op::Run { .. }
                | Op::Gather { .. }
                | Op::Checkpoint { .. }
                | Op::Purge { .. }
                | Op::Evict { .. }
                | Op::Abort { .. }
        )
    }
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
    /// Up to schema 2: the record of the undo that this change is a part of, by its number in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
}
