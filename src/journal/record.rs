//! What is written: one [`Record`] a line.
//!
//! With `op.rs` it owns the journal's schema. A field that is added must be optional; a meaning that changes raises
//! [`SCHEMA`], so that a store written by an older release stays readable.

use serde::{Deserialize, Serialize};

use super::op::Op;

/// The number of the schema, the field `v` of each record.
pub const SCHEMA: u32 = 1;

/// Which inode: `[st_dev, st_ino]`.
pub type Ids = [u64; 2];

/// A time of a file: seconds since 1970 and nanoseconds.
pub type Stamp = (i64, u32);

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
    /// When the directories that the act changes had last changed: that of `path`, then that of `to`. An undo puts them
    /// back.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub at: Vec<Stamp>,
    /// Who did it; absent for what the daemon did by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor: Option<Actor>,
    /// SHA-256 (hex) of the line before, without its newline; 64 zeros for the first.
    pub prev: String,
}

/// What a record has beside its operation.
#[derive(Deserialize)]
struct Frame<'a> {
    v: u32,
    seq: u64,
    time: String,
    #[serde(default)]
    at: Vec<Stamp>,
    #[serde(default)]
    actor: Option<Actor>,
    #[serde(borrow)]
    prev: std::borrow::Cow<'a, str>,
}

impl Record {
    /// Parses a line. The same as by its `Deserialize`, but reading the line twice is half the work of what serde does for
    /// a flattened enum with a tag: it keeps every field aside, and then once more.
    ///
    /// # Errors
    /// What is wrong with a line that is no record.
    pub fn parse(line: &[u8]) -> serde_json::Result<Record> {
        let frame: Frame<'_> = serde_json::from_slice(line)?;
        Ok(Record {
            v: frame.v,
            seq: frame.seq,
            time: frame.time,
            op: serde_json::from_slice(line)?,
            at: frame.at,
            actor: frame.actor,
            prev: frame.prev.into_owned(),
        })
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
