//! Reviewing: what nobody has accepted yet, accepting it, taking it back.

use super::target::Client;
use super::undo::UndoOptions;
use super::undo_turns::expect_whole;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::{Error, Result};
use crate::name::{SubtreeSet, WorldPath};
use crate::operator::point::{Operation, Point};
use crate::operator::review::{
    AcceptReport, AcceptRequest, PathHunks, Review, ReviewScope, accept, newest,
};
use crate::operator::undo::edit::{EditReport, EditRequest, edit_file};
use crate::operator::undo::{OnConflict, TurnScope, UndoReport, UndoRequest, UndoScope};
use crate::world::Caller;

/// The number of times that a review is read that does not fit the store: somebody was changing it while it was read.
const MAX_READS: usize = 5;

impl Client {
    /// Finds what a review is about, as [`ReviewScope::find`].
    ///
    /// # Errors
    /// As [`ReviewScope::find`].
    pub fn review_scope(&self, run: Option<&str>, session: Option<&str>) -> Result<ReviewScope> {
        ReviewScope::find(&self.store, run, session)
    }

    /// Finds the turn that a review is about, as [`ReviewScope::of_turn`].
    ///
    /// # Errors
    /// As [`ReviewScope::of_turn`].
    pub fn review_scope_of_turn(&self, run: Option<&str>, turn: &str) -> Result<ReviewScope> {
        ReviewScope::of_turn(&self.store, run, turn)
    }

    /// Finds what nobody has accepted yet; with `all`, what was accepted as well.
    ///
    /// # Errors
    /// As [`Review::read`].
    pub fn review(&self, scope: ReviewScope, all: bool) -> Result<Review<'_>> {
        self.review_until(scope, &Point::Now, all)
    }

    /// As [`Client::review`], of the changes up to a point.
    ///
    /// # Errors
    /// As [`Review::read`].
    pub fn review_until(&self, scope: ReviewScope, until: &Point, all: bool) -> Result<Review<'_>> {
        self.flush()?;
        self.seal();
        Review::read(&self.store, scope, until, all)
    }

    /// Returns the newest record, at the cost of a few reads: while it is the same, a review is.
    ///
    /// # Errors
    /// As [`newest`].
    pub fn newest(&self) -> Result<Option<Operation>> {
        newest(&self.store)
    }

    /// Accepts what a review lists: these paths and what is below them, or everything.
    ///
    /// # Errors
    /// [`Error::Missing`] where nothing is listed there; as [`accept`]; as [`Client::open`] where the store cannot be
    /// had.
    pub fn accept(&self, review: &Review<'_>, paths: &[WorldPath]) -> Result<AcceptReport> {
        let (scope, what) = (review.scope(), request_words("accept", review, paths));
        let request = match paths {
            [] => AcceptRequest {
                what,
                run: scope.run_id(),
                of: review.ranges(),
                hunks: Vec::new(),
            },
            paths => AcceptRequest::of_operations(
                what,
                scope.run_id(),
                &listed_operations(review, paths)?,
            ),
        };
        let listed = count_listed(review, paths);
        if listed == 0 {
            return Err(nothing_at(paths));
        }
        let accepted = self.record_accepted(&request)?;
        Ok(AcceptReport {
            paths: listed,
            ..accepted
        })
    }

    /// As [`Client::accept`], but flagged paths stay undecided where they are not named themselves.
    ///
    /// # Errors
    /// As [`Client::accept`]; [`Error::Refused`] where only flagged paths are meant.
    pub fn accept_unflagged(
        &self,
        review: &Review<'_>,
        paths: &[WorldPath],
    ) -> Result<AcceptReport> {
        let all = [WorldPath::root()];
        let meant = if paths.is_empty() { &all } else { paths };
        let (operations, taken, left) = review.unflagged_operations(meant);
        if left == 0 {
            return self.accept(review, paths);
        }
        if operations.is_empty() {
            return Err(Error::refused(
                "each of these paths is flagged",
                "Nothing was accepted: decide about each of them by itself.",
            ));
        }
        let what = request_words("accept", review, paths);
        let run = review.scope().run_id();
        let request = AcceptRequest::of_operations(what, run, &operations);
        Ok(AcceptReport {
            paths: taken,
            flagged: left,
            ..self.record_accepted(&request)?
        })
    }

    fn record_accepted(&self, request: &AcceptRequest) -> Result<AcceptReport> {
        self.make_change(
            &ControlRequest::Accept(request.clone()),
            |answer| match answer {
                ControlAnswer::Accepted(accepted) => Some(accepted),
                _ => None,
            },
            |_, backend| accept(backend.world(), request, Caller::myself()),
        )
    }

    /// Accepts hunks of a listed path, by their numbers from 1. Accepting the last ones accepts the path.
    ///
    /// # Errors
    /// [`Error::Missing`] where the path or a hunk is not to be reviewed; [`Error::Refused`] where the path has no
    /// hunks; as [`accept`].
    pub fn accept_hunks(
        &self,
        review: &Review<'_>,
        path: &WorldPath,
        numbers: &[usize],
    ) -> Result<AcceptReport> {
        let (lines, anew) = self.lines_with(review, path, numbers)?;
        let review = anew.as_ref().unwrap_or(review);
        let chosen = lines.choose(numbers)?;
        let what = hunk_words("accept", review, path, numbers);
        match review.accept_hunks(&lines, &chosen, what) {
            None => self.accept(review, std::slice::from_ref(path)),
            Some(request) => self.record_accepted(&request),
        }
    }

    /// Compares the lines of a path that has these hunks. Where a review has not, it is read anew: it may have been
    /// read while something was recorded and not yet done. Nothing new having been recorded since, once more is enough.
    fn lines_with(
        &self,
        review: &Review<'_>,
        path: &WorldPath,
        numbers: &[usize],
    ) -> Result<(PathHunks, Option<Review<'_>>)> {
        let look = |review: &Review<'_>| {
            let lines = review.lines_of(path)?;
            lines.choose(numbers)?;
            Ok(lines)
        };
        let (mut found, mut until) = (look(review), review.until().clone());
        let mut anew = None;
        for _ in 1..MAX_READS {
            if !matches!(found, Err(Error::Missing { .. } | Error::Refused { .. })) {
                break;
            }
            let mut read = self.review(review.scope().clone(), false)?;
            read.split_as(review);
            found = look(&read);
            let is_same = *read.until() == until;
            until = read.until().clone();
            anew = Some(read);
            if is_same {
                break;
            }
        }
        found.map(|lines| (lines, anew))
    }

    /// Takes hunks of a listed path back, by their numbers from 1: their former lines come back into the file as it is
    /// now. Lines that others changed since are a conflict, and nothing is changed then.
    ///
    /// # Errors
    /// As [`Client::accept_hunks`]; [`Error::Conflict`] where the file is changed at this moment; those of writing it.
    /// Nothing was changed then, except with [`Error::Partly`].
    pub fn reject_hunks(
        &self,
        review: &Review<'_>,
        path: &WorldPath,
        numbers: &[usize],
        dry_run: bool,
    ) -> Result<UndoReport> {
        let (lines, anew) = self.lines_with(review, path, numbers)?;
        let review = anew.as_ref().unwrap_or(review);
        let chosen = lines.choose(numbers)?;
        let what = hunk_words("reject", review, path, numbers);
        let mut plan = review.take_back(&lines, &chosen, what)?;
        plan.report.dry_run = dry_run;
        let Some(request) = plan.edit.take().filter(|_| !dry_run) else {
            return Ok(plan.report);
        };
        Ok(plan.into_report(self.edit(&request)?))
    }

    /// Edits a file as an operator: a run of its own, which `redo` takes back.
    ///
    /// # Errors
    /// As [`edit_file`].
    pub fn edit(&self, request: &EditRequest) -> Result<EditReport> {
        self.make_change(
            &ControlRequest::Edit(request.clone()),
            |answer| match answer {
                ControlAnswer::Edited(edited) => Some(edited),
                _ => None,
            },
            |_, backend| edit_file(backend, request, Caller::myself()),
        )
    }

    /// Returns the undo that takes back what a review lists: these paths and what is below them, or everything.
    ///
    /// # Errors
    /// [`Error::Missing`] where nothing is listed there; [`Error::Conflict`] as for [`Client::undo_request`] of a turn.
    pub fn reject_request(
        &self,
        review: &Review<'_>,
        paths: &[WorldPath],
        how: UndoOptions,
    ) -> Result<UndoRequest> {
        let scope = review.scope();
        if let Some(turn) = &scope.turn
            && how.on_conflict == OnConflict::Stop
        {
            expect_whole(std::slice::from_ref(turn))?;
        }
        let wanted = match paths {
            [] if review.is_empty() => return Err(nothing_at(paths)),
            // What was accepted stays.
            [] if review.has_accepted() => {
                UndoScope::Operations(listed_operations(review, &[WorldPath::root()])?)
            }
            [] => UndoScope::Matching {
                from: scope.from.clone(),
                session: scope.session.clone(),
                run: scope.run_id(),
                turns: scope.turn.as_ref().map(|turn| TurnScope {
                    number: turn.mark.turn,
                    and_later: false,
                    ranges: vec![turn.range()],
                }),
                pid: None,
                program: None,
                paths: Vec::new(),
            },
            paths => UndoScope::Operations(listed_operations(review, paths)?),
        };
        Ok(UndoRequest {
            scope: wanted,
            on_conflict: how.on_conflict,
            dry_run: how.dry_run,
            what: request_words("reject", review, paths),
            joint: None,
        })
    }
}

fn listed_operations(review: &Review<'_>, paths: &[WorldPath]) -> Result<Vec<Operation>> {
    let operations = review.operations(paths);
    if operations.is_empty() {
        Err(nothing_at(paths))
    } else {
        Ok(operations)
    }
}

/// Returns how many listed paths are meant.
fn count_listed(review: &Review<'_>, paths: &[WorldPath]) -> u64 {
    if paths.is_empty() {
        return review.len() as u64;
    }
    let meant = SubtreeSet::of(paths);
    let is_meant = |number: &usize| {
        let listed = review.path(*number);
        listed.is_some_and(|(_, at)| meant.contains(&at))
    };
    (0..review.len()).filter(is_meant).count() as u64
}

fn nothing_at(paths: &[WorldPath]) -> Error {
    let what = match paths {
        [] => "nothing is left to be reviewed".to_owned(),
        [path] => format!("{path} is not among the changes that are to be reviewed"),
        [path, ..] => format!(
            "neither {path} nor the other paths are among the changes that are to be reviewed"
        ),
    };
    Error::Missing {
        what,
        remedy: "Nothing was changed. `trumanfs review --json` lists them; what is accepted is left out.".to_owned(),
    }
}

/// The number of paths or hunks that are named: the words stand in a record.
const MAX_NAMED: usize = 20;

fn hunk_words(verb: &str, review: &Review<'_>, path: &WorldPath, numbers: &[usize]) -> String {
    let named = numbers.iter().take(MAX_NAMED).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join(",");
    let words = request_words(verb, review, std::slice::from_ref(path));
    match numbers.len().saturating_sub(MAX_NAMED) {
        0 => format!("{words} --hunk {named}"),
        more => format!("{words} --hunk {named} and {more} more"),
    }
}

fn request_words(verb: &str, review: &Review<'_>, paths: &[WorldPath]) -> String {
    let mut words = format!("{verb} {}", review.scope().words());
    for path in paths.iter().take(MAX_NAMED) {
        words.push(' ');
        words.push_str(&path.to_string());
    }
    if paths.len() > MAX_NAMED {
        words.push_str(&format!(" and {} more", paths.len() - MAX_NAMED));
    }
    words
}
