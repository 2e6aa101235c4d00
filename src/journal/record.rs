//! What is written: one [`Record`] a line.
//!
//! With `op.rs` it owns the journal's schema. A field that is added must be optional; a meaning that changes raises
//! [`SCHEMA`], so that a store written by an older release stays readable.

use serde::{Deserialize, Serialize};

use super::fast_parse;
use super::op::Op;

/// The number of the schema, the field `v` of each record. Since 2 there are seals.
pub const SCHEMA: u32 = 2;

/// The first schema with seals; a journal of an older one gets none.
pub const SEALED: u32 = 2;

/// A time of a file: seconds since 1970 and nanoseconds.
pub type Stamp = (i64, u32);

/// A record of an earlier release says nothing of the time.
pub(super) fn is_zero(stamp: &Stamp) -> bool {
    *stamp == (0, 0)
}

/// A directory that an act changes: when it had last changed (seconds and nanoseconds), and its inode number.
pub type At = (i64, u32, u64);

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
    /// SHA-256 (hex) of the line before, without its newline; 64 zeros for the first.
    pub prev: String,
}

impl Record {
    /// Parses a line. The same as by its `Deserialize`, but serde keeps every field of a flattened enum with a tag aside,
    /// twice, before it knows what to make of them; lines that stand as they are usually written are spared that.
    ///
    /// # Errors
    /// What is wrong with a line that is no record.
    pub fn parse(line: &[u8]) -> serde_json::Result<Record> {
        match fast_parse::record(line, true) {
            Some(record) => Ok(record),
            None => serde_json::from_slice(line),
        }
    }

    /// As [`Record::parse`], for whoever wants to know what was done and nothing else: `time`, `actor` and `prev` are left
    /// empty. They are most of the memory that a record takes.
    ///
    /// # Errors
    /// As [`Record::parse`].
    pub fn parse_act(line: &[u8]) -> serde_json::Result<Record> {
        match fast_parse::record(line, false) {
            Some(record) => Ok(record),
            None => serde_json::from_slice(line).map(|record: Record| Record {
                time: String::new(),
                actor: None,
                prev: String::new(),
                ..record
            }),
        }
    }

    /// Returns whether the operation can be undone by itself, an undo among them. What gathers belongs to a removal, and
    /// the rest changes nothing or deletes for good.
    pub fn can_be_undone(&self) -> bool {
        !matches!(
            self.op,
            Op::Begin { .. }
                | Op::End
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
    /// The record of the undo that this change is a part of, by its number in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
}
