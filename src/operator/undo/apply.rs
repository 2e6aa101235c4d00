//! Applying a plan under a record of its own: its size before, its result after. The steps are in `steps.rs`.

use std::os::fd::AsFd;

use super::change_backend::ChangeBackend;
use super::moves::NodeMover;
use super::planner::UndoPlan;
use super::selection::RecordSelection;
use super::steps::run_steps;
use super::undo_outcome::UndoOutcome;
use crate::error::{Error, FailureKind, Result};
use crate::name::EscapedBytes;
use crate::operator::past::{NodeId, PastTree};
use crate::world::Caller;
use crate::world::view::in_trash;

/// The size of a plan.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlanSize {
    /// The number of names to change.
    pub names: u64,
    /// The number of contents to restore.
    pub contents: u64,
    /// The number of nodes whose attributes will change, as far as that is known in advance.
    pub attributes: u64,
}

/// Returns the size of a plan.
///
/// # Errors
/// Those of reading the disk.
pub fn plan_size(plan: &UndoPlan<'_>) -> Result<PlanSize> {
    let names = NodeMover::count_names(&plan.target)?;
    let mut extent = PlanSize {
        names,
        contents: plan.beside.len() as u64,
        ..PlanSize::default()
    };
    for (node, then) in plan.target.changed_nodes() {
        if plan.target.path(node).is_none_or(|path| in_trash(&path)) {
            continue;
        }
        extent.contents += u64::from(then.content.is_some());
        let Ok(now) = plan.target.disk().stat(node) else {
            continue;
        };
        let other = then.mode.is_some_and(|mode| mode != now.permissions())
            || then.uid.is_some_and(|uid| uid != now.uid)
            || then.gid.is_some_and(|gid| gid != now.gid)
            || then
                .mtime
                .is_some_and(|m| m != (now.mtime.sec, now.mtime.nsec))
            || other_xattrs(&plan.target, node)?;
        extent.attributes += u64::from(other);
    }
    Ok(extent)
}

/// Returns whether an undo would change a node's extended attributes.
pub(super) fn other_xattrs(target: &PastTree<'_>, node: NodeId) -> Result<bool> {
    let Some(then) = target.difference(node).filter(|d| !d.xattrs.is_empty()) else {
        return Ok(false);
    };
    let (disk, there) = (target.disk(), target.disk().node(node)?);
    let read = || crate::world::xattrs(there.as_fd());
    let now = match disk.store().root().with_access(&there, read) {
        // The step that cannot read the attributes reports that.
        Err(error) if error.is_denial() => return Ok(true),
        now => now?,
    };
    let is_other = |(name, value): (&Vec<u8>, &Option<Vec<u8>>)| now.get(name) != value.as_ref();
    Ok(then.xattrs.iter().any(is_other))
}

/// Carries out a plan that no conflict stops, under a record with the request. An empty plan leaves no record.
///
/// # Errors
/// Those of writing the first record, or of the first change. In these cases nothing was changed. Later failures are in
/// the result.
pub fn apply(
    plan: &UndoPlan<'_>,
    selection: &RecordSelection,
    (what, also): (&str, &[EscapedBytes]),
    backend: &dyn ChangeBackend,
    caller: Caller,
) -> Result<UndoOutcome> {
    let PlanSize {
        names,
        contents,
        attributes,
    } = plan_size(plan)?;
    if names + contents + attributes == 0 {
        return Ok(UndoOutcome::default());
    }
    let caller = caller.for_undo();
    let of = selection.named_ranges();
    let begun = backend.world().begin_joint_undo_record(
        what.to_owned(),
        of,
        (selection.redo, also.to_vec()),
        caller,
    )?;
    let record = begun.seq();
    let mut outcome = UndoOutcome {
        record: Some(record),
        ..UndoOutcome::default()
    };
    let failed = run_steps(plan, backend, caller, &mut outcome).err();
    let is_begun = failed
        .as_ref()
        .is_some_and(|error| error.kind() == FailureKind::Partly);
    if outcome.moves + outcome.contents + outcome.attributes == 0 && !is_begun {
        let nothing = Error::refused("nothing had to be changed", "");
        begun.abort(failed.as_ref().unwrap_or(&nothing));
        outcome.record = None;
        return failed.map_or(Ok(outcome), Err);
    }
    begun.done();
    outcome.failed = failed;
    Ok(outcome)
}
