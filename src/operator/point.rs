//! The ways to name a session, an operation, or a point in time: the one place where they are parsed.
//!
//! Owns the grammar, which is described in `docs/OPERATORS.md`. Nothing is guessed: an ambiguous name is refused with
//! the candidates. A point is always a place in a journal ("just after that record"), or now; a time becomes the last
//! record not later than it. Finding a time or a number costs a few reads, finding a checkpoint's name reads the
//! journals.

mod ambiguity;
mod expired;
mod text;
mod typed_time;

use std::fmt;
use std::fs::File;
use std::io::BufReader;

use chrono::{DateTime, Utc};

use super::Store;
use crate::error::{Error, Result};
use crate::journal::{JournalReader, Op, seq_at, tail};
use crate::world::store::settle::{open_journal, sessions};
use ambiguity::is_ambiguous;

/// Returns when the day began in this machine's zone, as `today` means it.
pub(super) fn start_of_today(now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    typed_time::parse_short("today", now)
}

/// A record, by its session and number. It is written `SESSION:NUMBER`, in JSON too.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct Operation {
    /// The session's id.
    pub session: String,
    /// The record's number; 0 stands for the session's start, before its first record.
    pub seq: u64,
}

/// A past or present state of the store. It is written as an operation or `now`, in JSON too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Point {
    /// Just after a record (that of number 0: at the session's start).
    After(Operation),
    /// The store as it is, with all changes made behind the mount.
    Now,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.session, self.seq)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Now => f.write_str("now"),
            Point::After(operation) => operation.fmt(f),
        }
    }
}

impl Operation {
    /// Returns the start of a session.
    pub fn start_of(session: impl Into<String>) -> Operation {
        Operation {
            session: session.into(),
            seq: 0,
        }
    }
}

impl Point {
    /// Returns the point before all records.
    pub fn beginning() -> Point {
        Point::After(Operation::start_of(""))
    }

    /// Returns whether a record was written at or before this point.
    pub fn includes(&self, session: &str, seq: u64) -> bool {
        match self {
            Point::Now => true,
            Point::After(to) => (session, seq) <= (to.session.as_str(), to.seq),
        }
    }
}

/// Finds a session: its id, an unambiguous prefix of it, or `last`.
///
/// # Errors
/// [`Error::Missing`] where there is none; [`Error::Refused`], with the candidates, where it is ambiguous.
pub fn session(store: &Store, text: &str) -> Result<String> {
    let ids = sessions(store.state())?;
    if text == "last" {
        return last_mount(store, &ids);
    }
    match find_session(&ids, text)? {
        Some(id) => Ok(id.to_owned()),
        None => Err(expired::of_unknown(store, no_session(text), text)),
    }
}

/// Returns the ids of all sessions, the newest first.
///
/// # Errors
/// Those of reading the store's directory of sessions.
pub fn session_ids(store: &Store) -> Result<Vec<String>> {
    let mut ids = sessions(store.state())?;
    ids.reverse();
    Ok(ids)
}

/// Finds a record: `SESSION:SEQ`, or `SEQ` for one of the last session.
///
/// # Errors
/// [`Error::Missing`] where there is no such session or record; [`Error::Usage`] for a malformed operation.
pub fn operation(store: &Store, text: &str) -> Result<Operation> {
    let found = parse_operation(store, text)?.ok_or_else(|| {
        Error::usage(
            format!("{text:?} is not an operation"),
            "Give its number in the last session, or SESSION:NUMBER. `trumanfs log --all` shows the numbers.",
        )
    })?;
    match found.seq {
        0 => Err(Error::usage(
            format!("{text:?} is a session's start, not an operation"),
            "The first operation of a session has the number 1.",
        )),
        _ => Ok(found),
    }
}

/// Finds a point: `now`, a session (its start), an operation (just after it), a time, or a checkpoint's name.
///
/// # Errors
/// [`Error::Missing`] where there is none; [`Error::Refused`], with the candidates, where it is ambiguous.
pub fn point(store: &Store, text: &str) -> Result<Point> {
    let found = point_at(store, text, Utc::now());
    let found = found.map_err(|error| expired::of_unknown(store, error, text))?;
    expired::expect_point(store, &found)?;
    Ok(found)
}

/// As [`point`], with the current time as an argument.
///
/// # Errors
/// As [`point`].
pub fn point_at(store: &Store, text: &str, now: DateTime<Utc>) -> Result<Point> {
    if text == "now" {
        return Ok(Point::Now);
    }
    let ids = sessions(store.state())?;
    if text == "last" {
        return Ok(Point::After(Operation::start_of(last_mount(store, &ids)?)));
    }
    // An older checkpoint may be called `5m` or `today`.
    if typed_time::parse_short(text, now).is_some()
        && let Some(found) = checkpoint(store, &ids, text)?
    {
        return Ok(Point::After(found));
    }
    if let Some(time) = typed_time::parse(text, now) {
        return Ok(Point::After(at_time(store, &ids, time)?));
    }
    // Eight or more digits are the date at the start of a session's id, unless an operation has that number.
    let date = text.len() >= 8 && ids.iter().any(|id| id.starts_with(text));
    match parse_operation(store, text) {
        Ok(Some(operation)) => return Ok(Point::After(operation)),
        Ok(None) => {}
        Err(Error::Missing { .. }) if date => {}
        Err(error) => return Err(error),
    }
    // A full name takes precedence over a prefix of another.
    if let Some(found) = checkpoint(store, &ids, text)? {
        return Ok(Point::After(found));
    }
    match find_session(&ids, text)? {
        Some(id) => Ok(Point::After(Operation::start_of(id))),
        None => Err(Error::Missing {
            what: format!("{text:?} is neither a session, nor an operation, a time or a checkpoint of this store"),
            remedy: "Give `now`, a session or `last`, SESSION:NUMBER, a time as \"2026-11-22 10:15\", 30m (ago) or yesterday, or a \
                     checkpoint's name. `trumanfs session list` and `trumanfs checkpoint list` name what there is."
                .to_owned(),
        }),
    }
}

/// Finds two points: `A..B`, `A..` (until now) or `..B` (from the start of the last session).
///
/// # Errors
/// As [`point`]; [`Error::Usage`] where there are no two dots, or where the first point is later than the second.
pub fn range(store: &Store, text: &str) -> Result<(Point, Point)> {
    let (from, to) = text.split_once("..").ok_or_else(|| {
        Error::usage(
            format!("{text:?} is not a range"),
            "Give two points with two dots between them, such as last..now.",
        )
    })?;
    let named = |text: &str, absent| point(store, if text.is_empty() { absent } else { text });
    let (from, to) = (named(from, "last")?, named(to, "now")?);
    if from > to {
        return Err(Error::usage(
            format!("{text:?} ends before it begins"),
            format!("{from} is later than {to}: name the earlier one first."),
        ));
    }
    Ok((from, to))
}

/// Returns whether a checkpoint's name could be read as something else.
pub fn is_taken(name: &str) -> bool {
    let like_a_session = name.len() >= 8 && name.bytes().take(8).all(|b| b.is_ascii_digit());
    name.is_empty()
        || matches!(name, "now" | "last")
        || name.contains("..")
        || name.contains(':')
        || name.starts_with(['-', '+'])
        || name.bytes().all(|b| b.is_ascii_digit())
        || like_a_session
        || typed_time::parse(name, DateTime::UNIX_EPOCH).is_some()
}

/// Returns the newest session that was a mount: an operator's work on an unmounted store is a session, too, but is
/// not meant by `last`. Where the store was never mounted, returns the newest of all.
fn last_mount(store: &Store, ids: &[String]) -> Result<String> {
    let by_hand = |id: &&String| {
        let first = journal(store, id)
            .ok()
            .and_then(|file| JournalReader::new(BufReader::new(file)).next_record().ok());
        let begin = first.flatten().map(|record| record.op);
        matches!(begin, Some(Op::Begin { home: None, .. }))
    };
    let mounted = ids.iter().rev().find(|id| !by_hand(id));
    mounted
        .or(ids.last())
        .cloned()
        .ok_or_else(|| Error::Missing {
            what: "the store has no sessions".to_owned(),
            remedy: "A session begins when the store is mounted.".to_owned(),
        })
}

fn no_session(text: &str) -> Error {
    Error::Missing {
        what: format!("no session is called {text:?}"),
        remedy: "`trumanfs session list` names them; a unique beginning, or `last`, will do."
            .to_owned(),
    }
}

fn find_session<'a>(ids: &'a [String], text: &str) -> Result<Option<&'a str>> {
    let mut found = ids
        .iter()
        .filter(|id| !text.is_empty() && id.starts_with(text));
    let Some(first) = found.next() else {
        return Ok(None);
    };
    let others: Vec<&str> = found.map(String::as_str).collect();
    if others.is_empty() || first == text {
        return Ok(Some(first));
    }
    const MAX_NAMED_CANDIDATES: usize = 5;
    let mut names: Vec<&str> = vec![first];
    names.extend(others.iter().take(MAX_NAMED_CANDIDATES - 1));
    let more = match (others.len() + 1).saturating_sub(MAX_NAMED_CANDIDATES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::refused(
        format!(
            "{text:?} could be any of {} sessions: {}{more}",
            others.len() + 1,
            names.join(", ")
        ),
        "Give more of its id.",
    ))
}

/// Parses `SESSION:SEQ` or `SEQ`; `None` for any other form.
fn parse_operation(store: &Store, text: &str) -> Result<Option<Operation>> {
    let number = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<u64>().ok())
            .flatten()
    };
    let (session_text, seq) = match text.rsplit_once(':') {
        Some((session, seq)) => (session, number(seq)),
        None => ("last", number(text)),
    };
    let Some(seq) = seq else {
        return Ok(None);
    };
    let session = session(store, session_text)?;
    if seq > 0 {
        let last = tail(&journal(store, &session)?)?.map_or(0, |tail| tail.record.seq);
        if seq > last {
            return Err(Error::Missing {
                what: format!("session {session} has no operation {seq}: its last one is {last}"),
                remedy: "`trumanfs log --all` shows the numbers; SESSION:NUMBER names one of another session."
                    .to_owned(),
            });
        }
    }
    Ok(Some(Operation { session, seq }))
}

/// Finds the last record not later than a time; for a time before all records, the start of the first session.
fn at_time(store: &Store, ids: &[String], time: DateTime<Utc>) -> Result<Operation> {
    for id in ids.iter().rev() {
        let seq = match journal(store, id) {
            Ok(file) => seq_at(&file, time)?,
            // The daemon was killed before the session began: it has no records.
            Err(Error::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        if let Some(seq) = seq {
            let found = Operation {
                session: id.clone(),
                seq,
            };
            if is_ambiguous(store, ids, (id, seq), time)? {
                let time = time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
                log::warn!(
                    "the clock was set back in this store: {time} is taken for the state after operation {found}; `trumanfs log --all` shows the order"
                );
            }
            return Ok(found);
        }
    }
    let first = ids.first().map(std::slice::from_ref).unwrap_or_default();
    Ok(Operation::start_of(last_mount(store, first)?))
}

/// Finds the newest checkpoint with a name.
fn checkpoint(store: &Store, ids: &[String], text: &str) -> Result<Option<Operation>> {
    for id in ids.iter().rev() {
        let file = match journal(store, id) {
            Err(Error::Missing { .. }) => continue,
            file => file?,
        };
        let mut reader = JournalReader::new(BufReader::with_capacity(1 << 17, file));
        let mut found = None;
        loop {
            match reader.next_where(|header| header.op == "checkpoint") {
                Ok(Some(record)) => {
                    if matches!(&record.op, Op::Checkpoint { name, mark: None } if name == text) {
                        found = Some(record.seq);
                    }
                }
                Ok(None) => break,
                // What follows cannot be trusted; what was found before can.
                Err(Error::Damaged(what)) => {
                    log::warn!("session {id}: {what}");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(seq) = found {
            return Ok(Some(Operation {
                session: id.clone(),
                seq,
            }));
        }
    }
    Ok(None)
}

fn journal(store: &Store, session: &str) -> Result<File> {
    open_journal(store.state(), session).map_err(|error| match error {
        Error::NotFound => Error::Missing {
            what: format!("session {session} has no journal"),
            remedy: "Its daemon was killed before it began, or somebody removed it.".to_owned(),
        },
        error => error,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
