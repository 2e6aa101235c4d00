//! A whole merge, from the request to its report.

use std::os::fd::AsFd;

use super::apply::MergeStepRunner;
use super::contents::open_content;
use super::earlier_contents::{DoubtfulContent, had_before};
use super::origin_tree::OriginTree;
use super::plan::plan;
use super::steps::{FillContent, FillStep, MergeConflict, MergePlan, NameStep};
use super::unrecorded::{OriginAtFork, UnrecordedChanges, UnrecordedRemoval, now_passed};
use crate::error::{Error, FailureKind, Result};
use crate::journal::{Run, RunId};
use crate::name::{EscapedBytes, Name, WorldPath, escape};
use crate::operator::Store;
use crate::operator::diff::{Diff, PathDifference};
use crate::operator::past::PastTree;
use crate::operator::point::{Operation, Point};
use crate::operator::undo::{ChangeBackend, OnConflict};
use crate::world::Caller;
use crate::world::store::forked::{ForkOrigin, forked_from};
use crate::world::store::origin;

/// The name, in `NAME.from-FORK`, of a fork that a program worked in without a home.
const AGENT: &[u8] = b"agent";

/// A request for a merge.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct MergeRequest {
    /// The fork's path on this machine.
    pub fork: EscapedBytes,
    /// The paths at or below which changes are merged; all changes if empty.
    pub paths: Vec<WorldPath>,
    /// The resolution of conflicts.
    pub choice: OnConflict,
    /// True for a plan only.
    pub dry_run: bool,
    /// The run that worked in the fork without a home: its removals are merged too, and all changes are recorded as
    /// changes of that run. `None`: the merge is a run of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
}

/// The result of a merge.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct MergeReport {
    /// True if the merge was only planned.
    pub dry_run: bool,
    /// The fork, escaped.
    pub fork: String,
    /// The number of paths that the fork has changed.
    pub changed: u64,
    /// The changes that are made, or would be, in words.
    pub changes: Vec<String>,
    /// The conflicts.
    pub conflicts: Vec<MergeConflict>,
    /// True if the conflicts stopped the merge before any change.
    pub stopped: bool,
    /// Its record; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub record: Option<Operation>,
    /// Its run; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// The paths that are not as the fork has them, with reasons.
    pub notes: Vec<String>,
    /// The error that stopped it half-way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed: Option<String>,
}

/// Merges a fork into its origin. `backend` is `None` for a dry run.
///
/// # Errors
/// [`Error::Refused`] where the other store is no fork of this one; [`Error::Damaged`] where a journal cannot be read.
/// In these cases nothing was changed.
pub fn perform(
    store: &Store,
    request: &MergeRequest,
    backend: Option<&dyn ChangeBackend>,
    caller: Caller,
) -> Result<MergeReport> {
    let fork = Store::open(std::path::Path::new(
        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&request.fork.0),
    ))?;
    let name = escape(&request.fork.0);
    let here = origin::store_id(store.state().as_fd())?;
    let from = forked_from(fork.state().as_fd())?.filter(|from| from.store == here);
    let from = from.ok_or_else(|| {
        Error::refused(
            format!("{name} is no fork of this store"),
            "Nothing was changed. `trumanfs status` of a fork names its origin.",
        )
    })?;
    let mut planned = plan_of((store, &fork), &from, request)?;
    let theirs = planned.diff.trees().1;
    let plan = &mut planned.plan;
    let mut report = MergeReport {
        dry_run: request.dry_run,
        fork: name.clone(),
        changed: planned.diff.len() as u64,
        stopped: request.choice == OnConflict::Stop && !plan.clashes.is_empty(),
        notes: match request.run {
            Some(_) => Vec::new(),
            None => planned.removed.iter().map(stays_in_words).collect(),
        },
        ..MergeReport::default()
    };
    if !report.stopped {
        let fork = match request.run {
            Some(_) => AGENT,
            None => &request.fork.0,
        };
        resolve_conflicts(plan, &planned.ours, (request.choice, fork))?;
    }
    report.changes = describe_steps(plan);
    report.conflicts = plan
        .clashes
        .iter()
        .map(|clash| clash.conflict.clone())
        .collect();
    let Some(backend) = backend.filter(|_| !request.dry_run && !report.stopped) else {
        return Ok(report);
    };
    if !report.changes.is_empty() {
        can_be_read(plan, theirs)?;
        match &request.run {
            Some(run) => apply_as_run(run, plan, theirs, (backend, caller), &mut report)?,
            None => apply_plan(plan, theirs, backend, caller.for_undo(), &mut report)?,
        }
    }
    Ok(report)
}

/// A plan, and the trees that it was made from.
struct PlannedMerge<'a> {
    diff: Diff<'a>,
    ours: OriginTree<'a>,
    plan: MergePlan,
    /// The paths that were removed in the fork outside its home.
    removed: Vec<UnrecordedRemoval>,
}

/// Compares both stores, and plans the requested part.
fn plan_of<'a>(
    (store, fork): (&'a Store, &'a Store),
    from: &ForkOrigin,
    request: &MergeRequest,
) -> Result<PlannedMerge<'a>> {
    let start = Point::After(Operation::start_of(""));
    let until = now_passed();
    let diff = Diff::between(fork, &start, &Point::Now, &WorldPath::root())?;
    let mut ours = OriginTree::of(store);
    let is_below = |path: &WorldPath| {
        let mut paths = request.paths.iter();
        request.paths.is_empty() || paths.any(|wanted| wanted.contains(path))
    };
    let wanted = |change: &PathDifference| {
        is_below(&change.path) || change.from.as_ref().is_some_and(is_below)
    };
    let origin = OriginAtFork::of(store, from, until)?;
    let (base, theirs) = diff.trees();
    let (mut edits, mut removed) = match &origin {
        Some(origin) => origin.find_edits(base, theirs)?,
        None => Default::default(),
    };
    edits.retain(|edit| is_below(&edit.path));
    removed.retain(|removed| is_below(&removed.at));
    let force = request.choice == OnConflict::Force;
    let unrecorded = UnrecordedChanges {
        origin: origin.as_ref(),
        edits: &edits,
        removals: request.run.is_some().then_some(removed.as_slice()),
    };
    let mut plan = plan(&diff, &mut ours, &unrecorded, force, wanted)?;
    fill_doubtful(fork, &start, &ours, &mut plan)?;
    Ok(PlannedMerge {
        diff,
        ours,
        plan,
        removed,
    })
}

fn stays_in_words(removed: &UnrecordedRemoval) -> String {
    let path = &removed.at;
    format!(
        "{path} was removed or moved beside the fork's home, without a record: it stays here, and can be removed here"
    )
}

/// Takes the fork's content where the origin has one that the fork had before.
fn fill_doubtful(
    fork: &Store,
    start: &Point,
    ours: &OriginTree<'_>,
    planned: &mut MergePlan,
) -> Result<()> {
    let clashes = std::mem::take(&mut planned.clashes);
    let doubts = clashes.iter().filter_map(|clash| clash.doubt.clone());
    let doubts: Vec<DoubtfulContent> = doubts.collect();
    let mut were = had_before(fork, start, &ours.tree, &doubts)?.into_iter();
    for clash in clashes {
        let was_theirs = clash.doubt.is_some() && were.next() == Some(true);
        match clash.theirs.filter(|_| was_theirs) {
            Some(theirs) => planned.fillings.push((
                clash.conflict.path,
                FillStep::Content(FillContent::Theirs(theirs)),
            )),
            None => planned.clashes.push(clash),
        }
    }
    Ok(())
}

/// Adds the chosen resolution of conflicts to a plan.
fn resolve_conflicts(
    planned: &mut MergePlan,
    ours: &OriginTree<'_>,
    (choice, fork): (OnConflict, &[u8]),
) -> Result<()> {
    let mut clashes = std::mem::take(&mut planned.clashes);
    for clash in &mut clashes {
        let path = clash.conflict.path.clone();
        let forced = clash.forced.take().filter(|_| choice == OnConflict::Force);
        let forced = forced.map(|filling| (path.clone(), filling));
        planned.fillings.extend(forced);
        let Some(theirs) = clash.theirs else {
            continue;
        };
        let is_there = ours.stays_at(&path)?.is_some();
        match choice {
            OnConflict::Force if clash.are_files => {
                let content = FillStep::Content(FillContent::Theirs(theirs));
                planned.fillings.push((path, content));
            }
            OnConflict::Force if is_there => {
                planned.fillings.push((path, FillStep::Replace(theirs)))
            }
            OnConflict::Force if ours.has_parent_of(&path)? => {
                planned.fillings.push((path, FillStep::Make(theirs)));
            }
            OnConflict::KeepBoth if ours.has_parent_of(&path)? => {
                let beside = name_beside(ours, &path, fork)?;
                planned
                    .fillings
                    .push((beside.clone(), FillStep::Make(theirs)));
                clash.conflict.beside = Some(beside);
            }
            _ => {}
        }
    }
    planned.clashes = clashes;
    Ok(())
}

/// Returns a free name for the fork's side of a conflict.
fn name_beside(ours: &OriginTree<'_>, path: &WorldPath, fork: &[u8]) -> Result<WorldPath> {
    let fork = fork.rsplit(|b| *b == b'/').find(|part| !part.is_empty());
    let fork = fork.unwrap_or(b"fork");
    let (dir, name) = (path.parent().unwrap_or_default(), path.name());
    let name = name.map(|name| name.bytes().to_vec()).unwrap_or_default();
    let mut number = 1_u32;
    loop {
        let suffix = match number {
            1 => [b".from-", fork].concat(),
            n => [b".from-", fork, format!("-{n}").as_bytes()].concat(),
        };
        let room = 255_usize.saturating_sub(suffix.len()).min(name.len());
        let whole = [name.get(..room).unwrap_or(&name), &suffix].concat();
        let path = dir.join(Name::new(&whole)?);
        if ours.node_at(&path)?.is_none() {
            return Ok(path);
        }
        number += 1;
    }
}

/// Describes the steps of a plan.
fn describe_steps(plan: &MergePlan) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(
        plan.removals
            .iter()
            .map(|(path, _)| format!("remove {path}")),
    );
    lines.extend(plan.names.iter().map(|(path, naming)| match naming {
        NameStep::Mkdir(_) => format!("make {path}/"),
        NameStep::Move(from) => format!("move {from} to {path}"),
    }));
    lines.extend(plan.dirs.iter().map(|path| format!("remove {path}/")));
    lines.extend(plan.fillings.iter().map(|(path, filling)| match filling {
        FillStep::Make(_) => format!("make {path}"),
        FillStep::Replace(_) => format!("replace {path}"),
        FillStep::Content(FillContent::Theirs(_)) => format!("change {path}"),
        FillStep::Content(FillContent::Text(_)) => format!("merge {path} line by line"),
        FillStep::Mode(_) => format!("set the permissions of {path}"),
        FillStep::Owner(_) => format!("set the owner of {path}"),
        FillStep::Xattrs(_) => format!("set the extended attributes of {path}"),
    }));
    lines
}

/// Fails before the first step if a node that comes from the fork cannot be read.
fn can_be_read(planned: &MergePlan, theirs: &PastTree<'_>) -> Result<()> {
    for (_, filling) in &planned.fillings {
        match filling {
            FillStep::Make(node) | FillStep::Content(FillContent::Theirs(node))
                if theirs.kind(*node).is_file() =>
            {
                drop(open_content((theirs, *node))?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Carries out a plan under a record of its own.
fn apply_plan(
    planned: &MergePlan,
    theirs: &PastTree<'_>,
    backend: &dyn ChangeBackend,
    caller: Caller,
    report: &mut MergeReport,
) -> Result<()> {
    let what = format!("merge {}", report.fork);
    let begun = backend
        .world()
        .begin_undo_record(what, Vec::new(), false, caller)?;
    let seq = begun.seq();
    let mut steps = MergeStepRunner::new(theirs, &planned.seen, backend, caller);
    let failed = steps.run(planned).err();
    if let (Some(error), 0) = (&failed, steps.done)
        && error.kind() != FailureKind::Partly
    {
        begun.abort(error);
        return failed.map_or(Ok(()), Err);
    }
    begun.done();
    report.record = Some(Operation {
        session: backend.world().session().to_owned(),
        seq,
    });
    report.run = caller.origin.run;
    report.failed = failed.map(|error| format!("{}: {}", steps.at, error.full_message()));
    report.notes.extend(steps.notes());
    Ok(())
}

/// Carries out a plan as changes of a run that worked in the fork.
fn apply_as_run(
    run: &Run,
    planned: &MergePlan,
    theirs: &PastTree<'_>,
    (backend, caller): (&dyn ChangeBackend, Caller),
    report: &mut MergeReport,
) -> Result<()> {
    let world = backend.world();
    world.begin_run(run)?;
    let caller = caller.for_run(run.origin());
    let mut steps = MergeStepRunner::new(theirs, &planned.seen, backend, caller);
    let failed = steps.run(planned).err();
    world.end_run(run.id);
    report.run = Some(run.id);
    report.failed = failed.map(|error| format!("{}: {}", steps.at, error.full_message()));
    report.notes.extend(steps.notes());
    Ok(())
}
