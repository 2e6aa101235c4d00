//! Plans a merge: its steps, and its conflicts. Changes nothing.
//!
//! Names come first, from the outside in: what the fork removed, moved or made decides where everything else lies.
//! Paths are those of the fork for what comes, and those of the origin now for what is there.

use std::collections::HashMap;

use rustix::fs::FileType;

use super::contents::{ContentOutcome, decide_content};
use super::earlier_contents::DoubtfulContent;
use super::origin_tree::OriginTree;
use super::steps::{
    FileFingerprint, FillContent, FillStep, MergeConflict, MergePlan, NameStep, ResolvableConflict,
    path_after_moves,
};
use super::unrecorded::{EditBase, OriginAtFork, UnrecordedChanges, UnrecordedEdit};
use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::diff::{ChangeStatus, Diff, DiffSide, PathDifference};
use crate::operator::past::{NodeId, PastTree};

/// Plans the merge of the differences that are wanted, with the unrecorded edits, and the unrecorded
/// removals where they are merged. `force`: true if removals of the fork apply even to files that
/// the origin has changed.
///
/// # Errors
/// Those of reading either store.
pub(super) fn plan<'a>(
    diff: &Diff<'_>,
    ours: &mut OriginTree<'a>,
    unrecorded: &UnrecordedChanges<'_, 'a>,
    force: bool,
    wanted: impl Fn(&PathDifference) -> bool,
) -> Result<MergePlan> {
    let mut changes = Vec::new();
    for change in diff.changes() {
        let change = change?;
        if wanted(&change) {
            changes.push(change);
        }
    }
    let (base, theirs) = diff.trees();
    let moves = changes.iter();
    let moves = moves.filter_map(|change| Some((change.from.clone()?, change.path.clone())));
    let mut planner = MergePlanner {
        base,
        theirs,
        ours,
        origin: unrecorded.origin,
        arrivals: moves.clone().map(|(from, to)| (to, from)).collect(),
        force,
        takes_removals: unrecorded.removals.is_some(),
        plan: MergePlan::default(),
    };
    let is_dir = |change: &&PathDifference| side(change).is_some_and(DiffSide::is_dir);
    let gone = |change: &&PathDifference| change.status == ChangeStatus::Removed;
    for change in changes.iter().filter(gone).filter(|c| !is_dir(c)) {
        planner.plan_removal(change)?;
    }
    for removed in unrecorded.removals.unwrap_or_default() {
        planner.plan_unrecorded_removal(&removed.was)?;
    }
    let moves: HashMap<WorldPath, WorldPath> = moves.collect();
    for change in &changes {
        match change.status {
            ChangeStatus::Renamed => planner.plan_moves(change, &moves)?,
            ChangeStatus::Added if is_dir(&change) => {
                if let Some(is) = change.after {
                    planner.added_dir(&change.path, is.node)?;
                }
            }
            _ => {}
        }
    }
    let (dirs, files): (Vec<&UnrecordedEdit>, _) = unrecorded
        .edits
        .iter()
        .partition(|edit| theirs.kind(edit.node).is_dir());
    for edit in dirs {
        planner.plan_unrecorded(edit)?;
    }
    for change in changes.iter().rev().filter(gone).filter(is_dir) {
        planner.removed_dir(change)?;
    }
    for change in changes.iter().filter(|change| !gone(change)) {
        match change.status {
            ChangeStatus::Added if is_dir(&change) => {}
            ChangeStatus::Added => {
                if let Some(is) = change.after {
                    planner.plan_addition(&change.path, is.node)?;
                }
            }
            _ => planner.plan_change(change)?,
        }
    }
    for edit in files {
        planner.plan_unrecorded(edit)?;
    }
    Ok(planner.plan)
}

fn side(change: &PathDifference) -> Option<&DiffSide> {
    change.after.as_ref().or(change.before.as_ref())
}

/// The state of planning a merge.
pub(super) struct MergePlanner<'p, 't, 'a, 'o> {
    pub(super) base: &'t PastTree<'a>,
    pub(super) theirs: &'t PastTree<'a>,
    pub(super) ours: &'p mut OriginTree<'o>,
    /// The origin as it was when the fork was made.
    pub(super) origin: Option<&'p OriginAtFork<'o>>,
    /// For each path to which the fork moved something, the path before.
    pub(super) arrivals: HashMap<WorldPath, WorldPath>,
    /// True if removals of the fork apply even to files that were changed in the origin.
    pub(super) force: bool,
    /// True if what the fork's program removed without a record goes.
    pub(super) takes_removals: bool,
    pub(super) plan: MergePlan,
}

impl MergePlanner<'_, '_, '_, '_> {
    pub(super) fn add_conflict(
        &mut self,
        path: &WorldPath,
        what: &str,
        theirs: Option<NodeId>,
        are_files: bool,
    ) {
        // Of a path that the merge moves, its writer is known by the former one.
        let moved = self.plan.names.iter().find_map(|(to, step)| match step {
            NameStep::Move(from) if to == path => Some(from),
            _ => None,
        });
        let origin = self.origin;
        let who = origin.and_then(|origin| origin.unknown_writer(moved.unwrap_or(path)));
        let who = who.map_or(String::new(), |who| format!(" (here by {who})"));
        self.plan.clashes.push(ResolvableConflict {
            conflict: MergeConflict {
                path: path.clone(),
                what: format!("{what}{who}"),
                beside: None,
            },
            theirs,
            are_files,
            forced: None,
            doubt: None,
        });
    }

    /// Notes the fingerprint of a file of the origin before its content is read.
    pub(super) fn note_fingerprint(&mut self, here: NodeId, at: &WorldPath) -> Result<()> {
        let seen = self.fingerprint(here)?;
        self.plan.seen.insert(at.clone(), seen);
        Ok(())
    }

    /// Returns the fingerprint of a node of the origin.
    pub(super) fn fingerprint(&self, here: NodeId) -> Result<FileFingerprint> {
        Ok(FileFingerprint::of(&self.ours.tree.disk().stat(here)?))
    }

    pub(super) fn add_forced_step(&mut self, forced: FillStep) {
        if let Some(clash) = self.plan.clashes.last_mut() {
            clash.forced = Some(forced);
        }
    }

    /// Plans a node that the fork has made and that is not a directory.
    pub(super) fn plan_addition(&mut self, path: &WorldPath, is: NodeId) -> Result<()> {
        let Some(here) = self.ours.stays_at(path)? else {
            if self.ours.has_parent_of(path)? {
                self.add_fill_step(path, FillStep::Make(is))
            } else {
                let what = "was made in the fork, in a directory that is not here any more";
                self.add_conflict(path, what, Some(is), false);
            }
            return Ok(());
        };
        let (kind, ours) = (self.theirs.kind(is), self.ours.tree.kind(here));
        let are_same = kind == ours
            && match kind {
                FileType::RegularFile => {
                    return self.plan_content(path, None, here, is, path);
                }
                FileType::Symlink => self.theirs.target(is)? == self.ours.tree.target(here)?,
                _ => true,
            };
        if !are_same {
            let what = "was made on both sides, as different things";
            self.add_conflict(path, what, Some(is), false);
        }
        Ok(())
    }

    /// Plans a path that exists on both sides of the fork's difference.
    fn plan_change(&mut self, change: &PathDifference) -> Result<()> {
        let (Some(was), Some(is)) = (change.before, change.after) else {
            return Ok(());
        };
        let from = match self.base.resolve(&change.path)? {
            Some(node) if node == was.node => Some(change.path.clone()),
            _ => change.from.clone().or_else(|| self.base.path(was.node)),
        };
        let from = from.unwrap_or_else(|| change.path.clone());
        let at = self.now_at(&from);
        // Another node may have come to the former name since.
        let former = if self.has_moved(&from, &change.path)? {
            None
        } else {
            self.ours.node_at(&from)?
        };
        let here = match former {
            None => self
                .ours
                .stays_at(&change.path)?
                .map(|node| (node, change.path.clone())),
            here => here.map(|node| (node, at)),
        };
        let Some((here, at)) = here else {
            let is_told = change.status == ChangeStatus::Renamed;
            if !is_told {
                let what = "was removed here, and changed in the fork";
                self.add_conflict(&change.path, what, Some(is.node), false);
            }
            return Ok(());
        };
        let kind = self.theirs.kind(is.node);
        if self.ours.tree.kind(here) != kind {
            let what = "is something else here, and was changed in the fork";
            self.add_conflict(&at, what, Some(is.node), false);
            return Ok(());
        }
        if change.content || change.unknown.is_some() {
            match kind {
                FileType::RegularFile => {
                    self.plan_content(&at, Some(was.node), here, is.node, &change.path)?;
                }
                FileType::Symlink => self.plan_target((was.node, here, is.node), &at)?,
                _ => {}
            }
        }
        self.plan_attributes(change, here, &at)
    }

    /// Plans a file's content. `there` is its path in the fork.
    fn plan_content(
        &mut self,
        at: &WorldPath,
        was: Option<NodeId>,
        here: NodeId,
        is: NodeId,
        there: &WorldPath,
    ) -> Result<()> {
        self.note_fingerprint(here, at)?;
        if let (Some(origin), Some(was)) = (self.origin, was)
            && origin.distrusts(self.base, was)?
        {
            let base = self.base.path(was).map(|path| origin.side_of(&path));
            let is_same = matches!(
                base.transpose()?,
                Some(EditBase::There { is_same: true, .. })
            );
            return self.plan_edited_content(at, (here, is_same), is);
        }
        let base = was.map(|was| (self.base, was));
        match decide_content(base, (&self.ours.tree, here), (self.theirs, is))? {
            ContentOutcome::Ours => {}
            ContentOutcome::Theirs => {
                self.add_fill_step(at, FillStep::Content(FillContent::Theirs(is)))
            }
            // Its lines are not to be taken for the owner's.
            ContentOutcome::Text(_) if self.has_unknown_writer(here) => {
                self.add_conflict(at, "was changed on both sides", Some(is), true);
            }
            ContentOutcome::Text(text) => {
                self.add_fill_step(at, FillStep::Content(FillContent::Text(text)))
            }
            ContentOutcome::Conflict(what) => {
                self.add_conflict(at, what, Some(is), true);
                if let Some(clash) = self.plan.clashes.last_mut() {
                    clash.doubt = Some(DoubtfulContent {
                        ours: here,
                        path: there.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns whether an unknown writer has changed or made a file of the origin since the fork was made.
    fn has_unknown_writer(&self, here: NodeId) -> bool {
        let path = self.ours.tree.disk().path(here);
        let origin = self.origin.zip(path);
        origin.is_some_and(|(origin, path)| origin.unknown_writer(&path).is_some())
    }

    fn plan_target(
        &mut self,
        (was, here, is): (NodeId, NodeId, NodeId),
        at: &WorldPath,
    ) -> Result<()> {
        let (ours, theirs) = (self.ours.tree.target(here)?, self.theirs.target(is)?);
        if ours == theirs {
        } else if ours == self.base.target(was)? {
            self.add_fill_step(at, FillStep::Replace(is));
        } else {
            let what = "is a link that leads elsewhere on both sides";
            self.add_conflict(at, what, Some(is), false);
        }
        Ok(())
    }

    fn plan_attributes(
        &mut self,
        change: &PathDifference,
        here: NodeId,
        at: &WorldPath,
    ) -> Result<()> {
        let (Some(was), Some(is)) = (change.before, change.after) else {
            return Ok(());
        };
        let ours = self.ours.tree.meta(here)?;
        let node = is.node;
        let owner = |side: &DiffSide| (side.uid, side.gid);
        let cases = [
            (
                was.mode != is.mode,
                ours.mode == was.mode,
                ours.mode == is.mode,
                FillStep::Mode(node),
                "has other permissions on both sides",
            ),
            (
                owner(&was) != owner(&is),
                (ours.uid, ours.gid) == owner(&was),
                (ours.uid, ours.gid) == owner(&is),
                FillStep::Owner(node),
                "has another owner on both sides",
            ),
        ];
        for (changed, is_as_it_was, is_there, filling, what) in cases {
            match (changed && !is_there, is_as_it_was) {
                (false, _) => {}
                (true, true) => self.add_fill_step(at, filling),
                (true, false) => {
                    self.add_conflict(at, what, None, false);
                    self.add_forced_step(filling);
                }
            }
        }
        if change.xattrs {
            let ours = self.ours.tree.xattrs(here)?;
            if ours == self.base.xattrs(was.node)? {
                self.add_fill_step(at, FillStep::Xattrs(node));
            } else if ours != self.theirs.xattrs(node)? {
                self.add_conflict(
                    at,
                    "has other extended attributes on both sides",
                    None,
                    false,
                );
                self.add_forced_step(FillStep::Xattrs(node));
            }
        }
        Ok(())
    }

    pub(super) fn add_fill_step(&mut self, at: &WorldPath, filling: FillStep) {
        self.plan.fillings.push((at.clone(), filling));
    }

    /// Returns the path of a node of the origin after all moves of the plan.
    pub(super) fn now_at(&self, path: &WorldPath) -> WorldPath {
        path_after_moves(&self.plan.names, path)
    }
}
