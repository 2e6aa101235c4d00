//! The scope of a review: a run, a turn of one, a session, or everything since the last mount.

use crate::error::Result;
use crate::journal::RunId;
use crate::operator::Store;
use crate::operator::past::ReverseRecords;
use crate::operator::point::{Operation, Point, session};
use crate::operator::run::{RunSummary, find};
use crate::operator::turn::{self, RunTurn};

/// The records that a review is about. An operator's undos are never among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewScope {
    /// The point that the records come after.
    pub from: Point,
    /// The only session to review, if any.
    pub session: Option<String>,
    /// The only run to review, if any.
    pub run: Option<RunSummary>,
    /// The only turn of that run to review, if any.
    pub turn: Option<RunTurn>,
}

impl ReviewScope {
    /// Finds the scope that an operator typed: a run, else a session; without both, everything since the last mount.
    ///
    /// # Errors
    /// As [`find`] and [`session`].
    pub fn find(store: &Store, run: Option<&str>, only: Option<&str>) -> Result<ReviewScope> {
        if let Some(run) = run {
            let run = find(store, run)?;
            return Ok(ReviewScope {
                from: run.start(),
                session: None,
                run: Some(run),
                turn: None,
            });
        }
        let id = session(store, only.unwrap_or("last"))?;
        Ok(ReviewScope {
            from: Point::After(Operation::start_of(id.clone())),
            session: only.map(|_| id),
            run: None,
            turn: None,
        })
    }

    /// Finds the scope of a turn, of the newest conversation or of that of a run, both as they were typed.
    ///
    /// # Errors
    /// As [`turn::find`] and [`find`].
    pub fn of_turn(store: &Store, run: Option<&str>, text: &str) -> Result<ReviewScope> {
        let run = run.map(|run| find(store, run)).transpose()?;
        let turn = turn::find(store, run.map(|run| run.id), text)?;
        let run = turn.to_run(store)?;
        Ok(ReviewScope {
            from: run.start(),
            session: None,
            run: Some(run),
            turn: Some(turn),
        })
    }

    /// Returns whether a record of a run is one of the turn, where only that is reviewed.
    pub(super) fn is_in_turn(&self, session: &str, seq: u64) -> bool {
        self.turn
            .as_ref()
            .is_none_or(|turn| turn.range().includes(session, seq))
    }

    /// Returns the run's id.
    pub fn run_id(&self) -> Option<RunId> {
        self.run.as_ref().map(|run| run.id)
    }

    /// Returns the scope in words, for people: `run 4k2m…`, `session 2026…`, `everything since the last mount`.
    pub fn title(&self) -> String {
        match (&self.run, &self.session) {
            (None, None) => "everything since the last mount".to_owned(),
            _ => self.words(),
        }
    }

    /// Returns the scope in words, for a record: `run 4k2m…`, `session 2026…`, `2026…..`.
    pub fn words(&self) -> String {
        match (&self.run, &self.session) {
            (Some(run), _) => match &self.turn {
                Some(turn) => format!("run {} turn {}", run.id, turn.mark.turn),
                None => format!("run {}", run.id),
            },
            (None, Some(session)) => format!("session {session}"),
            (None, None) => format!("everything since {}", self.from),
        }
    }
}

/// Returns the newest record of a store.
///
/// # Errors
/// [`Error::Damaged`](crate::error::Error::Damaged) where the journal cannot be read.
pub fn newest(store: &Store) -> Result<Option<Operation>> {
    let mut records = ReverseRecords::open_unchecked(store)?;
    let newest = records.next_where(|_| true)?;
    Ok(newest.map(|(session, record)| Operation {
        session: session.to_string(),
        seq: record.seq,
    }))
}
