//! A whole undo, from the request to its report.

use std::collections::HashSet;

use super::applier::Applier;
use super::apply::{Extent, apply, extent};
use super::deeds::{Deed, deeds};
use super::plan::plan;
use super::planner::{Conflict, OnConflict};
use super::rights::Opened;
use super::select::{Wanted, select};
use crate::error::{Error, Result};
use crate::journal::{Ids, RunId};
use crate::operator::Store;
use crate::operator::point::Operation;
use crate::world::Caller;

/// A request for an undo.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct UndoRequest {
    /// The operations to undo.
    pub wanted: Wanted,
    /// How to resolve conflicts.
    pub choice: OnConflict,
    /// Whether only to plan.
    pub dry_run: bool,
    /// The command in words, for the record.
    pub what: String,
}

/// The result of an undo.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct UndoReport {
    /// Whether it was only planned.
    pub dry_run: bool,
    /// The number of operations selected.
    pub operations: u64,
    /// The planned changes by kind.
    #[serde(default)]
    pub deeds: Vec<Deed>,
    /// The size of the plan.
    pub extent: Extent,
    /// The undo's record; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub record: Option<Operation>,
    /// The run of the undo; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// How many nodes were moved, got their content back, and got their attributes back.
    pub done: (u64, u64, u64),
    /// The conflicts.
    pub conflicts: Vec<Conflict>,
    /// Whether they stopped the undo before any change.
    pub stopped: bool,
    /// What stays as it is, and why.
    pub notes: Vec<String>,
    /// Each change, for a dry run; each hunk that was taken back.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changes: Vec<String>,
    /// The error that stopped it half-way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed: Option<String>,
}

/// Carries out a request. `applier` is `None` for a dry run.
///
/// # Errors
/// [`Error::Missing`] where nothing is selected; [`Error::Damaged`] where a journal cannot be read. In these cases
/// nothing was changed.
pub fn run(
    store: &Store,
    wish: &UndoRequest,
    applier: Option<&dyn Applier>,
    caller: Caller,
) -> Result<UndoReport> {
    // Both attempts are one run.
    let caller = caller.for_undo();
    let first = attempt(store, wish, applier, caller, false);
    let denied = match &first {
        Ok((_, tried)) => tried.denied,
        Err(error) => error.errno() == rustix::io::Errno::ACCESS,
    };
    let Some(applier) = applier.filter(|_| denied && !wish.dry_run) else {
        return first.map(|(report, _)| report);
    };
    // An operator who is an ordinary user may be locked out by modes that the same user set inside: make everything
    // accessible and try again.
    let opened = Opened::all(applier.world())?;
    let second = attempt(store, wish, Some(applier), caller, true);
    let nothing = HashSet::new();
    opened.close(second.as_ref().map_or(&nothing, |(_, tried)| &tried.modes));
    match (first, second) {
        (Ok((first, _)), Ok((second, _))) => Ok(second.after(&first)),
        (_, second) => second.map(|(report, _)| report),
    }
}

/// An attempt's results beyond its report.
#[derive(Debug, Default)]
struct Tried {
    /// Whether permissions were in the way.
    denied: bool,
    /// Nodes whose mode was to be set, in the second attempt only.
    modes: HashSet<Ids>,
}

impl UndoReport {
    /// Returns the combined report of two attempts.
    fn after(self, first: &UndoReport) -> UndoReport {
        let (one, two) = (first.done, self.done);
        UndoReport {
            operations: first.operations,
            deeds: first.deeds.clone(),
            extent: first.extent,
            record: self.record.or_else(|| first.record.clone()),
            run: self.run.or(first.run),
            done: (one.0 + two.0, one.1 + two.1, one.2 + two.2),
            ..self
        }
    }
}

fn attempt(
    store: &Store,
    wish: &UndoRequest,
    applier: Option<&dyn Applier>,
    caller: Caller,
    again: bool,
) -> Result<(UndoReport, Tried)> {
    let selection = select(store, &wish.wanted)?;
    if selection.count == 0 {
        return Err(Error::Missing {
            what: "no operation is meant by that".to_owned(),
            remedy:
                "`trumanfs log --all` shows what was changed, by which process of which program."
                    .to_owned(),
        });
    }
    let planned = plan(store, &selection, wish.choice)?;
    let stopped = wish.choice == OnConflict::Stop && !planned.conflicts.is_empty();
    let (deeds, changes) = deeds(&planned)?;
    let mut report = UndoReport {
        dry_run: wish.dry_run,
        deeds,
        operations: selection.count,
        extent: extent(&planned)?,
        stopped,
        notes: planned.notes.clone(),
        ..UndoReport::default()
    };
    let mut tried = Tried::default();
    match applier {
        Some(applier) if !wish.dry_run && !stopped => {
            let outcome = apply(&planned, &selection, &wish.what, applier, caller)?;
            report.record = outcome.record.map(|seq| Operation {
                session: applier.world().session().to_owned(),
                seq,
            });
            report.run = outcome.record.and(caller.origin.run);
            report.done = (outcome.moves, outcome.contents, outcome.attributes);
            tried.denied = outcome.skipped.was_denied();
            let disk = planned.target.disk();
            let set = planned.target.changed_nodes();
            let set = set.filter(|(_, then)| then.mode.is_some());
            if again {
                tried.modes = set.filter_map(|(node, _)| disk.ids(node)).collect();
            }
            let end = outcome.skipped.end().map(|path| format!("{path}: "));
            let end = end.unwrap_or_default();
            report.failed = outcome.failed.map(|error| format!("{end}{}", error.told()));
            report.notes.extend(outcome.skipped.lines());
        }
        _ => report.changes = changes,
    }
    report.conflicts = planned.conflicts;
    Ok((report, tried))
}
