//! The store under review, as the screen changes it: by the same calls of the client as `accept`, `reject`, `restore`
//! and `redo`, and so with the same conflicts.

use super::super::super::output::count;
use super::super::super::undo::conflict_lines;
use super::editor::EditedDraft;
use super::worker_messages::{ActionOutcome, ActionTarget, UndoableAction};
use crate::client::{Client, Review, UndoOptions, UndoQuery};
use crate::error::{Error, Result};
use crate::journal::RunId;
use crate::name::WorldPath;
use crate::operator::point::Point;
use crate::operator::undo::in_words;
use crate::operator::undo::restore::RestoreRequest;
use crate::operator::undo::{OnConflict, UndoReport, UndoRequest};

/// Nothing is forced here.
const UNDO_OPTIONS: UndoOptions = UndoOptions {
    on_conflict: OnConflict::Stop,
    dry_run: false,
};

/// The store that actions work on: the store itself, how it is named on a command line, and what was read of it.
#[derive(Debug)]
pub(super) struct ReviewedStore<'p, 'c> {
    pub(super) client: &'c Client,
    pub(super) target: &'p str,
    pub(super) review: &'p Review<'c>,
}

impl<'c> ReviewedStore<'_, 'c> {
    /// Accepts changes.
    ///
    /// # Errors
    /// As [`Client::accept`].
    pub(super) fn accept(&self, what: &ActionTarget) -> Result<ActionOutcome> {
        let accepted = match what {
            ActionTarget::Hunk(path, number, digest) => {
                self.is_as_seen(path, *number, digest)?;
                self.client.accept_hunks(self.review, path, &[*number])?
            }
            ActionTarget::Paths(paths) => {
                let paths = meant_paths(paths)?;
                self.client.accept_unflagged(self.review, paths)?
            }
            ActionTarget::Run(run) => self.client.accept_unflagged(&self.of_run(*run)?, &[])?,
        };
        let paths = match accepted.paths {
            0 => "the hunk".to_owned(),
            paths => count(paths, "path"),
        };
        let left = match accepted.flagged {
            0 => String::new(),
            flagged => format!(
                "; {} left, to be decided by itself",
                count(flagged, "flagged path")
            ),
        };
        Ok(ActionOutcome {
            message: format!(
                "accepted {paths} (operation {}): no file was changed{left}",
                accepted.record.seq
            ),
            accepted: true,
            ..ActionOutcome::default()
        })
    }

    /// Takes changes back.
    ///
    /// # Errors
    /// As [`Client::undo`].
    pub(super) fn reject(&self, what: &ActionTarget) -> Result<ActionOutcome> {
        let request = match what {
            ActionTarget::Hunk(path, number, digest) => {
                self.is_as_seen(path, *number, digest)?;
                let report = self
                    .client
                    .reject_hunks(self.review, path, &[*number], false)?;
                let mut outcome = self.outcome_of(&report);
                if report.stopped {
                    outcome.more.push(format!(
                        "Here nothing is forced. For the whole path, `trumanfs reject {}` takes --keep-both or --force.",
                        self.target
                    ));
                }
                return Ok(outcome);
            }
            ActionTarget::Paths(paths) => {
                let paths = meant_paths(paths)?;
                self.client
                    .reject_request(self.review, paths, UNDO_OPTIONS)?
            }
            ActionTarget::Run(run) => {
                self.client
                    .reject_request(&self.of_run(*run)?, &[], UNDO_OPTIONS)?
            }
        };
        self.undo_request(&request)
    }

    /// Puts a path back as it was at a point.
    ///
    /// # Errors
    /// As [`Client::restore`].
    pub(super) fn restore(&self, path: &WorldPath, at: &Point) -> Result<ActionOutcome> {
        let restored = self.client.restore(&RestoreRequest {
            path: path.clone(),
            at: Some(at.clone()),
            to: None,
            dry_run: false,
        })?;
        let mut more = restored.notes;
        more.extend(
            restored
                .failed
                .iter()
                .map(|error| format!("stopped half-way: {error}")),
        );
        let message = match (restored.same, more.is_empty()) {
            (true, _) => format!("nothing to do: {path} is as it was at {at}"),
            (false, true) => format!(
                "put {path} back as it was at {at}; u or `trumanfs redo {}` takes that back",
                self.target
            ),
            (false, false) => format!(
                "{path} was put back in part; u or `trumanfs redo {}` takes that back",
                self.target
            ),
        };
        Ok(ActionOutcome {
            message,
            more,
            undoable: restored.record.map(UndoableAction::Restored),
            ..ActionOutcome::default()
        })
    }

    /// Records an edited text. Where that fails, the draft stays, and is named.
    pub(super) fn edit(&self, edited: &EditedDraft) -> ActionOutcome {
        let path = &edited.request.path;
        match self.client.edit(&edited.request) {
            Ok(report) => {
                edited.remove();
                let run = report
                    .run
                    .map(|run| format!(" --run {run}"))
                    .unwrap_or_default();
                ActionOutcome {
                    message: format!(
                        "recorded your edit of {path} (operation {}); u or `trumanfs redo {}{run}` takes that back",
                        report.record.seq, self.target
                    ),
                    undoable: report.run.map(UndoableAction::Undone),
                    ..ActionOutcome::default()
                }
            }
            Err(error) => ActionOutcome {
                message: "your edit was not recorded".to_owned(),
                more: vec![
                    error.full_message(),
                    format!("The edited text is in {}", edited.draft.display()),
                ],
                ..ActionOutcome::default()
            },
        }
    }

    /// Takes back what was done here.
    ///
    /// # Errors
    /// As [`Client::undo`].
    pub(super) fn undo(&self, what: &UndoableAction) -> Result<ActionOutcome> {
        let request = match what {
            UndoableAction::Undone(run) => {
                let run = run.to_string();
                self.client.redo_request(Some(&run), &[], UNDO_OPTIONS)?.0
            }
            UndoableAction::Restored(record) => {
                let what = UndoQuery {
                    operations: vec![record.to_string()],
                    ..UndoQuery::default()
                };
                self.client.undo_request(&what, UNDO_OPTIONS)?
            }
        };
        let outcome = self.undo_request(&request)?;
        Ok(ActionOutcome {
            undid: outcome.undoable.is_some(),
            undoable: None,
            ..outcome
        })
    }

    /// Reviews a run, as far as its list was read: what it has done since was not seen.
    fn of_run(&self, run: RunId) -> Result<Review<'c>> {
        let scope = self.client.review_scope(Some(&run.to_string()), None)?;
        self.client.review_until(scope, self.review.until(), false)
    }

    /// Checks that a hunk is the one that was seen.
    fn is_as_seen(&self, path: &WorldPath, number: usize, digest: &str) -> Result<()> {
        let lines = self.review.lines_of(path)?;
        let at = number.checked_sub(1);
        match at.and_then(|at| lines.hunks().get(at)) {
            Some(hunk) if hunk.digest == digest => Ok(()),
            _ => Err(Error::Conflict {
                what: format!("{path}: its lines have changed meanwhile"),
                remedy: "Nothing was changed; look again.".to_owned(),
            }),
        }
    }

    fn undo_request(&self, request: &UndoRequest) -> Result<ActionOutcome> {
        Ok(self.outcome_of(&self.client.undo(request)?))
    }

    fn outcome_of(&self, report: &UndoReport) -> ActionOutcome {
        let mut more = report.notes.clone();
        if let Some(error) = &report.failed {
            more.push(format!(
                "stopped half-way: {error}\nThe same once more goes on; u takes back what was done."
            ));
        }
        more.extend(conflict_lines(report));
        if report.stopped
            && report
                .conflicts
                .iter()
                .all(|conflict| conflict.can_be_forced)
        {
            more.push(format!(
                "These are options of `trumanfs reject {}` and `trumanfs redo {}`; here nothing is forced.",
                self.target, self.target
            ));
        }
        ActionOutcome {
            message: self.result_sentence(report),
            more,
            undoable: report.run.map(UndoableAction::Undone),
            ..ActionOutcome::default()
        }
    }

    /// Says what came of an undo, and how to take it back.
    fn result_sentence(&self, report: &UndoReport) -> String {
        if report.stopped {
            let number = count(report.conflicts.len() as u64, "conflict");
            return format!("{number} in the way; nothing was changed");
        }
        match &report.run {
            None => "nothing to do: it is as it was".to_owned(),
            Some(run) => format!(
                "{}; u or `trumanfs redo {} --run {run}` takes that back",
                in_words(&report.steps),
                self.target
            ),
        }
    }
}

/// Returns the paths of a decision: none at all must not stand for everything.
fn meant_paths(paths: &[WorldPath]) -> Result<&[WorldPath]> {
    if paths.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(paths)
}
