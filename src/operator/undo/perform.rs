//! A whole undo, from the request to its report.

use super::apply::{PlanSize, apply, plan_size};
use super::change_backend::ChangeBackend;
use super::later_lines::describe_merged;
use super::plan::plan;
use super::planner::{OnConflict, UndoConflict};
use super::select::{TurnScope, UndoScope, select};
use super::step_summary::{StepSummary, summarize_plan};
use crate::error::{Error, Result};
use crate::journal::{Origin, OriginKind, RunId};
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::Store;
use crate::operator::closed_nodes::retry_with_opened_nodes;
use crate::operator::point::{Operation, Point};
use crate::world::Caller;

/// A request for an undo.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct UndoRequest {
    /// The operations to undo.
    #[serde(rename = "wanted")]
    pub scope: UndoScope,
    /// The resolution of conflicts.
    #[serde(rename = "choice")]
    pub on_conflict: OnConflict,
    /// True for a plan only.
    pub dry_run: bool,
    /// The command in words, for the record.
    pub what: String,
    /// The undo that it is a part of, where the same is undone in several stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint: Option<JointRun>,
}

/// An undo in several stores, as each of them records it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JointRun {
    /// Its run, the same in all.
    pub run: RunId,
    /// The paths of the other stores.
    pub also: Vec<EscapedBytes>,
}

/// The result of an undo.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct UndoReport {
    /// True if the undo was only planned.
    pub dry_run: bool,
    /// The number of operations selected.
    pub operations: u64,
    /// The planned changes by kind.
    #[serde(rename = "deeds", default)]
    pub steps: Vec<StepSummary>,
    /// The size of the plan.
    #[serde(rename = "extent")]
    pub size: PlanSize,
    /// The undo's record; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub record: Option<Operation>,
    /// The run of the undo; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// The numbers of nodes that were moved, got their content back, and got their attributes back.
    pub done: (u64, u64, u64),
    /// The conflicts.
    pub conflicts: Vec<UndoConflict>,
    /// True if the conflicts stopped the undo before any change.
    pub stopped: bool,
    /// The things that stay as they are, with reasons.
    pub notes: Vec<String>,
    /// The number of volatile things that are not brought back, by directory.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub volatile: Vec<(WorldPath, u64)>,
    /// The texts of which lines were taken back beside later changes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub merged: Vec<String>,
    /// Each change, for a dry run; each hunk that was taken back.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changes: Vec<String>,
    /// The error that stopped it half-way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed: Option<String>,
}

/// Carries out a request. `backend` is `None` for a dry run.
///
/// # Errors
/// [`Error::Missing`] where nothing is selected; [`Error::Damaged`] where a journal cannot be read. In these cases
/// nothing was changed.
pub fn perform(
    store: &Store,
    request: &UndoRequest,
    backend: Option<&dyn ChangeBackend>,
    caller: Caller,
) -> Result<UndoReport> {
    // Both attempts are one run.
    let caller = match &request.joint {
        Some(joint) => caller.for_run(Origin::of_run(OriginKind::Undo, joint.run)),
        None => caller.for_undo(),
    };
    let Some(world) = backend
        .map(ChangeBackend::world)
        .filter(|_| !request.dry_run)
    else {
        return attempt(store, request, None, caller).map(|(report, _)| report);
    };
    // An operator who is an ordinary user may be locked out by modes that the same user set inside.
    let (first, last) = retry_with_opened_nodes(
        world,
        |tried: &Result<(UndoReport, bool)>| match tried {
            Ok((_, was_denied)) => *was_denied,
            Err(error) => error.is_denial(),
        },
        || attempt(store, request, backend, caller),
    );
    match (first, last) {
        (Some(Ok((first, _))), Ok((second, _))) => Ok(second.combined_with(&first)),
        (_, last) => last.map(|(report, _)| report),
    }
}

impl UndoReport {
    /// Returns the combined report of two attempts.
    fn combined_with(self, first: &UndoReport) -> UndoReport {
        let (one, two) = (first.done, self.done);
        UndoReport {
            operations: first.operations,
            steps: first.steps.clone(),
            size: first.size,
            record: self.record.or_else(|| first.record.clone()),
            run: self.run.or(first.run),
            done: (one.0 + two.0, one.1 + two.1, one.2 + two.2),
            ..self
        }
    }
}

/// Returns, besides the report, whether permissions were in the way.
fn attempt(
    store: &Store,
    request: &UndoRequest,
    backend: Option<&dyn ChangeBackend>,
    caller: Caller,
) -> Result<(UndoReport, bool)> {
    let selection = select(store, &request.scope)?;
    if selection.count == 0 {
        return Err(nothing_selected(&request.scope));
    }
    let planned = plan(store, &selection, request.on_conflict)?;
    let stopped = request.on_conflict == OnConflict::Stop && !planned.conflicts.is_empty();
    let (steps, changes) = summarize_plan(&planned)?;
    let mut report = UndoReport {
        dry_run: request.dry_run,
        steps,
        operations: selection.count,
        size: plan_size(&planned)?,
        stopped,
        notes: planned.notes.clone(),
        volatile: planned.volatile.clone(),
        merged: if stopped {
            Vec::new()
        } else {
            describe_merged(&planned)
        },
        ..UndoReport::default()
    };
    let mut was_denied = false;
    match backend {
        Some(backend) if !request.dry_run && !stopped => {
            let also = request.joint.as_ref().map(|joint| &joint.also[..]);
            let what = (&*request.what, also.unwrap_or_default());
            let outcome = apply(&planned, &selection, what, backend, caller)?;
            report.record = outcome.record.map(|seq| Operation {
                session: backend.world().session().to_owned(),
                seq,
            });
            report.run = outcome.record.and(caller.origin.run);
            report.done = (outcome.moves, outcome.contents, outcome.attributes);
            was_denied = outcome.skipped.was_denied();
            let end = outcome.skipped.ended_at().map(|path| format!("{path}: "));
            let end = end.unwrap_or_default();
            report.failed = outcome
                .failed
                .map(|error| format!("{end}{}", error.full_message()));
            report.notes.extend(outcome.skipped.lines());
        }
        _ => report.changes = changes,
    }
    report.conflicts = planned.conflicts;
    Ok((report, was_denied))
}

/// Describes where a request has found no operation to take back.
fn nothing_selected(wanted: &UndoScope) -> Error {
    let shows = "`trumanfs log --all` shows what was changed, by which process of which program.";
    let UndoScope::Matching {
        from,
        session,
        run,
        turns,
        pid,
        program,
        paths,
    } = wanted
    else {
        return Error::Missing {
            what: "none of these operations changed anything".to_owned(),
            remedy: shows.to_owned(),
        };
    };
    let mut asked: Vec<String> = paths.iter().map(|path| format!("--path {path}")).collect();
    asked.extend(run.map(|run| format!("--run {run}")));
    asked.extend(turns.iter().map(TurnScope::option));
    asked.extend(pid.map(|pid| format!("--pid {pid}")));
    asked.extend(program.iter().map(|program| format!("--program {program}")));
    let matches = if asked.is_empty() {
        "no operation changed anything".to_owned()
    } else {
        format!("no operation matches {}", asked.join(" "))
    };
    match session {
        Some(session) => Error::Missing {
            what: format!("{matches} in session {session}"),
            remedy: format!("--session all looks in every session. {shows}"),
        },
        None if *from == Point::beginning() => Error::Missing {
            what: format!("{matches} in any session"),
            remedy: shows.to_owned(),
        },
        None => Error::Missing {
            what: format!("{matches} after {from}"),
            remedy: shows.to_owned(),
        },
    }
}
