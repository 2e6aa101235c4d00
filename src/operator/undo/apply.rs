//! Applying a plan under a record of its own: how much it would do, and what came of it. The steps are in `steps.rs`.

use std::os::fd::AsFd;

use super::applier::Applier;
use super::moves::Mover;
use super::plan::Plan;
use super::select::Selection;
use super::skipped::Skipped;
use super::steps::carry_out;
use crate::error::{Error, Result};
use crate::operator::past::{NodeId, Tree};
use crate::world::Caller;
use crate::world::view::in_trash;

/// What an undo did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The number of its record in the session; absent where there was nothing to do.
    pub record: Option<u64>,
    /// How many things moved.
    pub moves: u64,
    /// How many contents were put back.
    pub contents: u64,
    /// How many things got other attributes.
    pub attributes: u64,
    /// What could not be taken back, while the rest was.
    pub skipped: Skipped,
    /// Why it stopped half-way, if it did.
    pub failed: Option<Error>,
}

/// What a plan would do, as numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Extent {
    /// Names that shall change.
    pub names: u64,
    /// Contents that shall be put back.
    pub contents: u64,
    /// Things that shall get other attributes, as far as is known before.
    pub attributes: u64,
}

/// Returns how much a plan would do.
///
/// # Errors
/// What the disk says.
pub fn extent(plan: &Plan<'_>) -> Result<Extent> {
    let names = Mover::count(&plan.target)?;
    let mut extent = Extent {
        names,
        contents: plan.beside.len() as u64,
        ..Extent::default()
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

/// Returns whether the extended attributes of a thing shall be others than they are.
pub(super) fn other_xattrs(target: &Tree<'_>, node: NodeId) -> Result<bool> {
    let Some(then) = target.difference(node).filter(|d| !d.xattrs.is_empty()) else {
        return Ok(false);
    };
    let now = crate::world::xattrs(target.disk().node(node)?.as_fd())?;
    let is_other = |(name, value): (&Vec<u8>, &Option<Vec<u8>>)| now.get(name) != value.as_ref();
    Ok(then.xattrs.iter().any(is_other))
}

/// Carries a plan out, under a record that says what was asked for. A plan of nothing leaves no record.
///
/// # Errors
/// [`Error::Conflict`] where the plan has one that stops it; what writing the first record, or the first change, says. Then
/// nothing was changed. What fails later is in the outcome.
pub fn apply(
    plan: &Plan<'_>,
    selection: &Selection,
    what: &str,
    applier: &dyn Applier,
    caller: Caller,
) -> Result<Applied> {
    let Extent {
        names,
        contents,
        attributes,
    } = extent(plan)?;
    if names + contents + attributes == 0 {
        return Ok(Applied::default());
    }
    let caller = caller.for_undo();
    let of = selection.named();
    let begun = applier
        .world()
        .note_undo(what.to_owned(), of, selection.redo, caller)?;
    let record = begun.seq();
    let mut outcome = Applied {
        record: Some(record),
        ..Applied::default()
    };
    let failed = carry_out(plan, applier, caller, &mut outcome).err();
    if outcome.moves + outcome.contents + outcome.attributes == 0 {
        let nothing = Error::refused("nothing had to be changed", "");
        begun.abort(failed.as_ref().unwrap_or(&nothing));
        outcome.record = None;
        return failed.map_or(Ok(outcome), Err);
    }
    begun.done();
    outcome.failed = failed;
    Ok(outcome)
}
