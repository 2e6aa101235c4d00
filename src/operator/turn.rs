//! Turns: what an agent did about one prompt of its user each, from a mark in its run to the next one there.
//!
//! A mark is the occupant's word. So a turn is never taken for all that there is: [`summaries`] says what of a run
//! belongs to which turn, and what to none.

use std::collections::HashMap;

use super::Store;
use super::past::ReverseRecords;
use super::point::Operation;
use super::run::{self, RunSummary};
use super::undo::TurnRange;
use crate::error::{Error, Result};
use crate::journal::{Op, Record, RecordHeader, RunId, TurnMark};
use crate::name::WorldPath;

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTurn {
    /// Its mark.
    pub mark: TurnMark,
    /// The run that it is a part of.
    pub run: RunId,
    /// The record of the mark.
    pub begin: Operation,
    /// The record of the run's next mark, if there is one, and that mark.
    pub next: Option<(Operation, TurnMark)>,
}

/// A file that a run had open for writing when a turn began or ended: what was written through that is one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFile {
    /// The file's path then; nothing stands for further ones.
    pub path: Option<WorldPath>,
    /// The turn.
    pub turn: u32,
    /// True if its change belongs to an earlier turn, false if later turns' writes belong to this one.
    pub is_earlier: bool,
}

impl RunTurn {
    /// Returns the run as if it were this turn alone: from its mark to its last record.
    ///
    /// # Errors
    /// As [`run::find`].
    pub fn to_run(&self, store: &Store) -> Result<RunSummary> {
        let run = run::find(store, &self.run.to_string())?;
        Ok(RunSummary {
            first: self.begin.clone(),
            last: self
                .next
                .as_ref()
                .map_or(run.last, |(next, _)| next.clone()),
            ..run
        })
    }

    /// Returns its part of the run's records.
    pub fn range(&self) -> TurnRange {
        TurnRange {
            run: self.run,
            begin: self.begin.clone(),
            next: self.next.as_ref().map(|(next, _)| next.clone()),
        }
    }
}

/// The changes of a run in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSummary {
    /// The turn's mark and its record; nothing before the first turn.
    pub mark: Option<(TurnMark, Operation)>,
    /// The number of its changes.
    pub changes: u64,
}

/// Finds a turn by its number or `last`: of the conversation of the newest mark, or of a run's newest mark.
///
/// # Errors
/// [`Error::Usage`] for another text; [`Error::Missing`] where there is none; [`Error::Damaged`] where a journal cannot be
/// read.
pub fn find(store: &Store, run: Option<RunId>, text: &str) -> Result<RunTurn> {
    let mut found = find_since(store, run, text)?;
    found.pop().ok_or_else(|| missing(None, text))
}

/// Finds a turn, as [`find`], and the later ones of its conversation, of which it is the last.
///
/// # Errors
/// As [`find`].
pub fn find_since(store: &Store, run: Option<RunId>, text: &str) -> Result<Vec<RunTurn>> {
    let number = match text {
        "last" => None,
        _ => Some(number_of(text)?),
    };
    let mut records = ReverseRecords::open_unchecked(store)?;
    // The newest mark that was seen of each run.
    let mut next: HashMap<RunId, (Operation, TurnMark)> = HashMap::new();
    let mut found: Vec<RunTurn> = Vec::new();
    while let Some((session, record)) = records.next_where(is_mark)? {
        let seq = record.seq;
        let Some((mark, id)) = mark_of(record) else {
            continue;
        };
        let begin = Operation {
            session: session.to_string(),
            seq,
        };
        let turn = RunTurn {
            next: next.insert(id, (begin.clone(), mark.clone())),
            mark,
            run: id,
            begin,
        };
        let is_asked = match found.first() {
            Some(newest) => are_together(newest, &turn),
            None => run.is_none_or(|run| run == id),
        };
        if !is_asked {
            continue;
        }
        let turn_number = turn.mark.turn;
        found.push(turn);
        if number.is_none_or(|number| number == turn_number) {
            return Ok(found);
        }
        if number.is_some_and(|number| number > turn_number) {
            break;
        }
    }
    Err(missing(found.first(), text))
}

/// Returns the files whose changes some of these turns share with others of their runs.
pub fn shared_files(turns: &[RunTurn]) -> Vec<SharedFile> {
    let mut found = Vec::new();
    for turn in turns {
        let mut add = |mark: &TurnMark, is_earlier| {
            let paths = mark.written.iter().cloned().map(Some);
            let others = mark.others.then_some(None);
            found.extend(paths.chain(others).map(|path| SharedFile {
                path,
                turn: turn.mark.turn,
                is_earlier,
            }));
        };
        let follows = |one: &RunTurn, other: &RunTurn| {
            let next = one.next.as_ref();
            next.is_some_and(|(next, _)| *next == other.begin)
        };
        if !turns.iter().any(|before| follows(before, turn)) {
            add(&turn.mark, true);
        }
        if let Some((_, next)) = &turn.next
            && !turns.iter().any(|after| follows(turn, after))
        {
            add(next, false);
        }
    }
    found
}

/// Returns whether two turns are of one conversation.
fn are_together(one: &RunTurn, other: &RunTurn) -> bool {
    let conversations = (&one.mark.conversation, &other.mark.conversation);
    match conversations {
        (None, None) => one.run == other.run,
        (one, other) => one == other,
    }
}

fn number_of(text: &str) -> Result<u32> {
    text.parse().map_err(|_| {
        Error::usage(
            format!("{text:?} is no turn"),
            "Give its number, or `last`. `trumanfs log` shows the turns.",
        )
    })
}

fn missing(newest: Option<&RunTurn>, text: &str) -> Error {
    let (what, remedy) = match newest {
        None => (
            "no turn was marked".to_owned(),
            "Agents with a profile that has hooks mark turns; others can with `trumanfs mark`.",
        ),
        Some(newest) => (
            format!(
                "there is no turn {text}: the newest is {} of the run {}",
                newest.mark.turn, newest.run
            ),
            "`trumanfs log` shows the turns; --run names another run.",
        ),
    };
    Error::Missing {
        what,
        remedy: remedy.to_owned(),
    }
}

/// Returns the number of the last turn of a conversation; 0 where it has none.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn last_number(store: &Store, conversation: &str) -> Result<u32> {
    let of_it = |header: &RecordHeader<'_>| {
        let mark = header.turn_mark();
        mark.is_some_and(|mark| mark.conversation.as_deref() == Some(conversation))
    };
    let mut records = ReverseRecords::open_unchecked(store)?;
    let last = records.next_where(of_it)?;
    let last = last.and_then(|(_, record)| mark_of(record));
    Ok(last.map_or(0, |(mark, _)| mark.turn))
}

/// Counts the changes of a run in each of its turns, the newest first, and last those before the first turn.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn summaries(store: &Store, run: RunId) -> Result<Vec<TurnSummary>> {
    let mut found = Vec::new();
    let mut records = ReverseRecords::open_unchecked(store)?;
    let mut changes = 0;
    while let Some((session, record)) =
        records.next_where(|header| header.origin().run == Some(run))?
    {
        let begin = Operation {
            session: session.to_string(),
            seq: record.seq,
        };
        match record.op {
            Op::Run { .. } => break,
            Op::Gather { .. } => {}
            Op::Checkpoint { mark, .. } => found.push(TurnSummary {
                mark: mark.map(|mark| (mark, begin)),
                changes: std::mem::take(&mut changes),
            }),
            _ => changes += 1,
        }
    }
    found.push(TurnSummary {
        mark: None,
        changes,
    });
    Ok(found)
}

fn is_mark(header: &RecordHeader<'_>) -> bool {
    header.turn_mark().is_some()
}

fn mark_of(record: Record) -> Option<(TurnMark, RunId)> {
    match record.op {
        Op::Checkpoint { mark, .. } => Some((mark?, record.origin.run?)),
        _ => None,
    }
}
