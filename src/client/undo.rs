//! Taking back: `undo`, `redo`, `restore`.

use std::fmt::Write;

use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::{Error, Result};
use crate::operator::point::{self, Operation, Point};
use crate::operator::run::{RunSummary, find};
use crate::operator::session;
use crate::operator::undo::restore::{RestoreReport, RestoreRequest, restore};
use crate::operator::undo::{
    LastUndo, OnConflict, UndoReport, UndoRequest, UndoScope, last_undo, perform,
};
use crate::world::Caller;

/// The session that stands for all of them.
pub const EVERY_SESSION: &str = "all";

/// A choice of what to undo, as it was typed. Each given field narrows it; operations stand alone.
#[derive(Debug, Clone, Default)]
pub struct UndoQuery {
    /// Operations, as NUMBER (of the last session) or SESSION:NUMBER.
    pub operations: Vec<String>,
    /// In this session; [`EVERY_SESSION`] for all.
    pub session: Option<String>,
    /// By this run; of an undo, all that it did.
    pub run: Option<String>,
    /// By this turn of a run, its number or `last`.
    pub turn: Option<String>,
    /// By this turn and all later ones of its run.
    pub to_turn: Option<String>,
    /// Since a time.
    pub since: Option<String>,
    /// Everything after a point.
    pub to: Option<String>,
    /// By this process.
    pub pid: Option<u32>,
    /// By this program.
    pub program: Option<String>,
    /// Operations that concern these paths.
    pub paths: Vec<String>,
}

/// Options of an undo.
#[derive(Debug, Clone, Copy)]
pub struct UndoOptions {
    /// The treatment of conflicts with later changes.
    pub on_conflict: OnConflict,
    /// True if nothing is changed.
    pub dry_run: bool,
}

impl UndoQuery {
    /// Returns the words for the record of the undo: what was given, with a space before each.
    pub(super) fn record_words(&self) -> String {
        let mut words = String::new();
        for operation in &self.operations {
            let _ = write!(words, " {operation}");
        }
        let pid = self.pid.map(|pid| pid.to_string());
        for (flag, value) in [
            ("--session", &self.session),
            ("--run", &self.run),
            ("--turn", &self.turn),
            ("--to-turn", &self.to_turn),
            ("--since", &self.since),
            ("--to", &self.to),
            ("--pid", &pid),
            ("--program", &self.program),
        ] {
            if let Some(value) = value {
                let _ = write!(words, " {flag} {value}");
            }
        }
        for path in &self.paths {
            let _ = write!(words, " --path {path}");
        }
        words
    }
}

impl Client {
    /// Finds out what is to be taken back: what was typed becomes points and sessions of this store.
    ///
    /// # Errors
    /// [`Error::Usage`] where nothing was given; [`Error::Conflict`] where a file was open for writing when a turn that is
    /// asked for began or ended; as [`point::point`], [`point::operation`] and [`point::session`].
    pub fn undo_request(&self, what: &UndoQuery, how: UndoOptions) -> Result<UndoRequest> {
        if what.turn.is_some() || what.to_turn.is_some() {
            return self.undo_request_for_turns(what, how);
        }
        let run = what.run.as_ref();
        let run = run.map(|text| find(&self.store, text)).transpose()?;
        // `last` and the beginning of an id may mean another run when the record is read.
        let named = UndoQuery {
            run: run.as_ref().map(|run| run.id.to_string()),
            ..what.clone()
        };
        let words = named.record_words();
        if words.is_empty() {
            return Err(Error::usage(
                "undo what?",
                "Give operations, or --session, --run, --since, --to, --pid, --program or --path. `trumanfs log` shows what was done.",
            ));
        }
        let request = |scope| UndoRequest {
            scope,
            on_conflict: how.on_conflict,
            dry_run: how.dry_run,
            what: format!("undo{words}"),
            joint: None,
        };
        if !what.operations.is_empty() {
            let operations = what.operations.iter();
            let operations = operations.map(|text| point::operation(&self.store, text));
            return Ok(request(UndoScope::Operations(
                operations.collect::<Result<_>>()?,
            )));
        }
        if let Some(run) = &run
            && !run.undos.is_empty()
        {
            if what.pid.is_some() || what.program.is_some() || !what.paths.is_empty() {
                return Err(Error::refused(
                    format!("the run {} is an undo, which is taken back whole", run.id),
                    "Leave --path, --pid and --program out.",
                ));
            }
            return Ok(request(UndoScope::Operations(run.undos.clone())));
        }
        let from = what.since.as_ref().or(what.to.as_ref());
        let from = from
            .map(|text| point::point(&self.store, text))
            .transpose()?;
        let from = from.or_else(|| run.as_ref().map(RunSummary::start));
        let is_everywhere = what.session.as_deref() == Some(EVERY_SESSION);
        let from = from.or_else(|| is_everywhere.then(Point::beginning));
        let session = match (&what.session, &from) {
            (Some(_), _) if is_everywhere => None,
            (Some(text), _) => Some(point::session(&self.store, text)?),
            // A process's number means something in one session only; a program is meant as it ran last.
            (None, None) => Some(match session::last_mounted(&self.store)? {
                Some(session) => session,
                None => point::session(&self.store, "last")?,
            }),
            (None, Some(_)) => None,
        };
        let start = session.clone().unwrap_or_default();
        Ok(request(UndoScope::Matching {
            from: from.unwrap_or_else(|| Point::After(Operation::start_of(start))),
            session,
            run: run.map(|run| run.id),
            turns: None,
            pid: what.pid,
            program: what.program.clone(),
            paths: what.paths.clone(),
        }))
    }

    /// Finds out what `redo` takes back: the last undo or restore, or the one that was this run. Which one that is, is
    /// settled here, so that a redo that stopped half-way can be named when it is asked for again. `skipped`: those of
    /// which nothing is left.
    ///
    /// # Errors
    /// As [`last_undo`] and [`find`]; [`Error::Refused`] for a run that is no undo.
    pub fn redo_request(
        &self,
        run: Option<&str>,
        skipped: &[Operation],
        how: UndoOptions,
    ) -> Result<(UndoRequest, LastUndo)> {
        let (operations, last) = match run.filter(|text| *text != "last") {
            Some(text) => self.undo_of_run(text)?,
            None => {
                let last = last_undo(&self.store, skipped)?;
                // Of an undo that was made in two attempts, both.
                let run = last.run.map(|run| find(&self.store, &run.to_string()));
                let mut undos = match run.transpose()?.filter(|run| !run.undos.is_empty()) {
                    Some(run) => run.undos,
                    None => vec![last.operation.clone()],
                };
                // Those that were skipped are taken back along with it, so that they are not found again.
                undos.extend(skipped.iter().cloned());
                (undos, last)
            }
        };
        let request = UndoRequest {
            scope: UndoScope::Operations(operations),
            on_conflict: how.on_conflict,
            dry_run: how.dry_run,
            what: format!("redo: takes back {} ({})", last.operation, last.what),
            joint: None,
        };
        Ok((request, last))
    }

    fn undo_of_run(&self, text: &str) -> Result<(Vec<Operation>, LastUndo)> {
        let run = find(&self.store, text)?;
        match (run.undos.last().cloned(), run.command) {
            (Some(operation), Some(what)) => {
                let run_id = Some(run.id);
                let last = LastUndo {
                    operation,
                    run: run_id,
                    what,
                };
                Ok((run.undos, last))
            }
            _ => Err(Error::refused(
                format!("the run {} is no undo and no restore", run.id),
                format!(
                    "Nothing was changed. `trumanfs undo TARGET --run {}` takes back what it did.",
                    run.id
                ),
            )),
        }
    }

    /// Takes operations back.
    ///
    /// # Errors
    /// As [`perform()`]; as [`Client::open`] where the store cannot be had.
    pub fn undo(&self, request: &UndoRequest) -> Result<UndoReport> {
        if request.dry_run {
            self.seal();
            return perform(&self.store, request, None, Caller::myself());
        }
        self.try_dry_in_copy(|| {
            let dry = UndoRequest {
                dry_run: true,
                ..request.clone()
            };
            perform(&self.store, &dry, None, Caller::myself()).map(drop)
        })?;
        self.make_change(
            &ControlRequest::Undo(request.clone()),
            |answer| match answer {
                ControlAnswer::Undone(report) => Some(*report),
                _ => None,
            },
            |store, backend| perform(store, request, Some(backend), Caller::myself()),
        )
    }

    /// Puts a file or a tree back as it was.
    ///
    /// # Errors
    /// As [`restore`]; as [`Client::open`] where the store cannot be had.
    pub fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport> {
        if request.dry_run {
            self.seal();
            return restore(&self.store, request, None, Caller::myself());
        }
        self.try_dry_in_copy(|| restore(&self.store, request, None, Caller::myself()).map(drop))?;
        self.make_change(
            &ControlRequest::Restore(request.clone()),
            |answer| match answer {
                ControlAnswer::Restored(restored) => Some(restored),
                _ => None,
            },
            |store, backend| restore(store, request, Some(backend), Caller::myself()),
        )
    }

    /// In a copy of a store, much cannot be told. That is found out before a session begins in it: one that begins
    /// makes it a store of its own.
    fn try_dry_in_copy(&self, dry: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.store.served_by()?.is_none() && self.store.copy_origin()?.is_some() {
            dry()
        } else {
            Ok(())
        }
    }
}
