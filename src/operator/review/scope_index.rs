//! The first pass of a review, over the headers of records: the authors and times of changes, and the accepted records.
//!
//! Owns the meaning of *accepted*: a record is accepted if an `accept` names it by its number, and by its run where it
//! names one. So later changes are not accepted, and neither an undo nor a redo changes what is accepted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::DateTime;

use super::scope::ReviewScope;
use crate::error::Result;
use crate::journal::{Op, OriginKind, RecordHeader, RunId};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::ReverseRecords;
use crate::operator::point::{Operation, Point};

/// The author of a change: a program, perhaps of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ChangeAuthor {
    /// The run; absent for a process that belongs to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The kind of executor.
    pub kind: OriginKind,
    /// The program's name; empty where it is unknown.
    pub program: String,
}

/// A record of the scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopeRecord {
    session: u32,
    pub(super) seq: u64,
    /// Microseconds since 1970.
    pub(super) time: i64,
    /// Its number in [`ScopeIndex::who`].
    pub(super) who: u32,
    pub(super) accepted: bool,
    /// True if the record removed a directory.
    pub(super) is_rmdir: bool,
}

/// The records that an `accept` names.
#[derive(Debug)]
struct AcceptedRanges {
    run: Option<RunId>,
    of: Vec<(String, u64, u64)>,
}

/// The result of the first pass over the records.
#[derive(Debug, Default)]
pub(super) struct ScopeIndex {
    pub(super) who: Vec<ChangeAuthor>,
    /// The commands of the runs, escaped.
    pub(super) commands: HashMap<RunId, String>,
    /// The newest first.
    pub(super) records: Vec<ScopeRecord>,
    sessions: Vec<Arc<str>>,
    /// The digests of accepted hunks, by path.
    accepted_hunks: HashMap<WorldPath, Vec<String>>,
    /// The newest record of the store.
    pub(super) newest: Option<Operation>,
}

impl ScopeIndex {
    /// Reads the records of a scope, up to a point.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read.
    pub(super) fn read(store: &Store, scope: &ReviewScope, until: &Point) -> Result<ScopeIndex> {
        let mut seen = ScopeIndex::default();
        let mut numbers: HashMap<ChangeAuthor, u32> = HashMap::new();
        let mut parts: Vec<AcceptedRanges> = Vec::new();
        let mut records = ReverseRecords::open_unchecked(store)?;
        loop {
            // `accept` records are parsed, and the first record before the scope ends the pass.
            let next = records.next_where_in(|session, header| {
                if scope.from.includes(session, header.seq) || header.op == "accept" {
                    return true;
                }
                seen.note(scope, until, (session, header), &parts, &mut numbers);
                false
            })?;
            let Some((session, record)) = next else {
                break;
            };
            if scope.from.includes(&session, record.seq) {
                break;
            }
            if let Op::Accept { run, of, hunks, .. } = record.op {
                parts.push(AcceptedRanges { run, of });
                for (path, digest) in hunks {
                    seen.accepted_hunks.entry(path).or_default().push(digest);
                }
            }
        }
        Ok(seen)
    }

    fn note(
        &mut self,
        scope: &ReviewScope,
        until: &Point,
        (session, header): (&str, &RecordHeader<'_>),
        parts: &[AcceptedRanges],
        numbers: &mut HashMap<ChangeAuthor, u32>,
    ) {
        if !until.includes(session, header.seq) {
            return;
        }
        if self.newest.is_none() {
            self.newest = Some(Operation {
                session: session.to_owned(),
                seq: header.seq,
            });
        }
        if scope.session.as_deref().is_some_and(|only| only != session) {
            return;
        }
        let origin = header.origin();
        let is_wanted = scope.run_id().is_none_or(|run| origin.run == Some(run));
        if !is_wanted || !scope.is_in_turn(session, header.seq) || origin.is_undo() {
            return;
        }
        if header.op == "run" {
            if let Some((run, command)) = origin.run.zip(header.command()) {
                self.commands.insert(run, command.into_owned());
            }
            return;
        }
        if !changes(&header.op) {
            return;
        }
        let who = ChangeAuthor {
            run: origin.run,
            kind: origin.kind,
            program: program(header),
        };
        let number = match numbers.get(&who) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.who.len()).unwrap_or(u32::MAX);
                self.who.push(who.clone());
                numbers.insert(who, number);
                number
            }
        };
        if self.sessions.last().is_none_or(|last| **last != *session) {
            self.sessions.push(session.into());
        }
        let time = DateTime::parse_from_rfc3339(&header.time);
        let covers = |part: &AcceptedRanges| {
            let in_part = |(of, from, to): &(String, u64, u64)| {
                of == session && (*from..=*to).contains(&header.seq)
            };
            part.run.is_none_or(|run| origin.run == Some(run)) && part.of.iter().any(in_part)
        };
        self.records.push(ScopeRecord {
            session: u32::try_from(self.sessions.len() - 1).unwrap_or(u32::MAX),
            seq: header.seq,
            time: time.map_or(0, |time| time.timestamp_micros()),
            who: number,
            accepted: parts.iter().any(covers),
            is_rmdir: header.op == "rmdir",
        });
    }

    /// Returns whether single hunks were accepted.
    pub(super) fn has_accepted_hunks(&self) -> bool {
        !self.accepted_hunks.is_empty()
    }

    /// Returns the digests of the accepted hunks of a path.
    pub(super) fn accepted_hunks(&self, path: &WorldPath) -> &[String] {
        let digests = self.accepted_hunks.get(path);
        digests.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a record by its place.
    pub(super) fn record(&self, place: u32) -> Option<&ScopeRecord> {
        let place = usize::try_from(place).ok()?;
        self.records.get(place)
    }

    /// Returns the point before the oldest record that is wanted; `None` where there is none.
    pub(super) fn start(&self, all: bool) -> Option<Point> {
        let oldest = self
            .records
            .iter()
            .rev()
            .find(|record| all || !record.accepted)?;
        let mut before = self.operation(oldest);
        before.seq = before.seq.saturating_sub(1);
        Some(Point::After(before))
    }

    /// Returns a record's session and number.
    pub(super) fn operation(&self, record: &ScopeRecord) -> Operation {
        let session = usize::try_from(record.session).ok();
        let session = session.and_then(|at| self.sessions.get(at));
        Operation {
            session: session.map(ToString::to_string).unwrap_or_default(),
            seq: record.seq,
        }
    }

    /// Returns the place of a record among [`ScopeIndex::records`].
    pub(super) fn find(&self, session: &str, seq: u64) -> Option<u32> {
        let session = self.sessions.iter().position(|known| **known == *session)?;
        let session = u32::try_from(session).ok()?;
        // The newest come first, and so do their sessions.
        let key = |record: &ScopeRecord| (record.session, Reverse(record.seq));
        let place = self
            .records
            .binary_search_by_key(&(session, Reverse(seq)), key);
        place.ok().and_then(|place| u32::try_from(place).ok())
    }
}

/// Returns whether records of an operation change something in the home. Gathering changes only the trash.
fn changes(op: &str) -> bool {
    !matches!(
        op,
        "begin" | "end" | "gather" | "checkpoint" | "undo" | "accept" | "purge" | "evict" | "abort"
    )
}

/// Returns the name of the program that made a change.
fn program(header: &RecordHeader<'_>) -> String {
    match header.comm() {
        comm if comm.is_empty() => header
            .exe()
            .rsplit('/')
            .next()
            .map(str::to_owned)
            .unwrap_or_default(),
        comm => comm.into_owned(),
    }
}
