//! Decides about files that were edited in a fork outside its home.
//!
//! Where the origin certainly has the content of then, the edit is merged; where both sides have the same, nothing is
//! done; any other edit is a conflict. Owners and extended attributes are left as they are: an editor makes new files,
//! owned by its own user.

use rustix::fs::FileType;

use super::contents::is_same;
use super::plan::MergePlanner;
use super::steps::{FillContent, FillStep};
use super::unrecorded::{EditBase, UnrecordedEdit, is_equal};
use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::past::NodeId;

impl MergePlanner<'_, '_, '_, '_> {
    /// Plans the merge of an edit.
    pub(super) fn plan_unrecorded(&mut self, edit: &UnrecordedEdit) -> Result<()> {
        let (path, node) = (&edit.path, edit.node);
        let kind = self.theirs.kind(node);
        let (from, (is_same, mode)) = match &edit.base {
            EditBase::Absent if kind.is_dir() => return self.added_dir(path, node),
            EditBase::Absent => return self.plan_addition(path, node),
            EditBase::Gone(_) => {
                // It may have come there under another node, by an earlier merge.
                let there = self.ours.node_at(path)?;
                let is_there = match there.filter(|there| self.ours.tree.kind(*there) == kind) {
                    Some(there) => is_equal((self.theirs, node), (&self.ours.tree, there))?,
                    None => false,
                };
                if !is_there {
                    let what =
                        "was removed or replaced here, and edited beside its home in the fork";
                    self.add_conflict(path, what, Some(node), false);
                }
                return Ok(());
            }
            EditBase::There { then, .. } if self.takes_in_place_of(*then, kind)? => {
                return match kind.is_dir() {
                    true => self.added_dir(path, node),
                    false => self.plan_addition(path, node),
                };
            }
            EditBase::There {
                at, is_same, mode, ..
            } => (at, (*is_same, *mode)),
        };
        let at = self.now_at(from);
        let Some(here) = self.ours.node_at(from)? else {
            let what = "is not here any more, and was edited beside its home in the fork";
            self.add_conflict(path, what, Some(node), false);
            return Ok(());
        };
        if self.ours.tree.kind(here) != kind {
            let what = "is something else here, and was edited beside its home in the fork";
            self.add_conflict(&at, what, Some(node), false);
            return Ok(());
        }
        match kind {
            FileType::RegularFile if edit.content => {
                self.plan_edited_content(&at, (here, is_same), node)?
            }
            FileType::Symlink => {
                if self.theirs.target(node)? == self.ours.tree.target(here)? {
                    return Ok(());
                }
                if is_same {
                    self.add_fill_step(&at, FillStep::Replace(node));
                } else {
                    let what = "is a link that leads elsewhere on both sides";
                    self.add_conflict(&at, what, Some(node), false);
                }
                return Ok(());
            }
            _ => {}
        }
        let (ours, theirs) = (
            self.ours.tree.meta(here)?.mode,
            self.theirs.meta(node)?.mode,
        );
        if edit.mode && theirs != ours {
            if mode == Some(ours) {
                self.add_fill_step(&at, FillStep::Mode(node))
            } else {
                self.add_conflict(&at, "has other permissions on both sides", None, false);
                self.add_forced_step(FillStep::Mode(node));
            }
        }
        Ok(())
    }

    /// Plans the removal of what the origin had at the time of the fork, if the fork's program has put something of another
    /// kind in its place. Returns whether it goes.
    fn takes_in_place_of(&mut self, then: NodeId, kind: FileType) -> Result<bool> {
        let was = self.origin.filter(|_| self.takes_removals);
        let was = was.filter(|origin| origin.kind_at_fork(then) != kind);
        match was.and_then(|origin| origin.path_at_fork(then)) {
            Some(was) => self.plan_unrecorded_removal(&was),
            None => Ok(false),
        }
    }

    /// Plans a content whose former state only the origin may have.
    pub(super) fn plan_edited_content(
        &mut self,
        at: &WorldPath,
        (here, is_same_as_then): (NodeId, bool),
        is: NodeId,
    ) -> Result<()> {
        self.note_fingerprint(here, at)?;
        if is_same((self.theirs, is), (&self.ours.tree, here))? {
        } else if is_same_as_then {
            self.add_fill_step(at, FillStep::Content(FillContent::Theirs(is)));
        } else {
            let what = "was changed here, and edited beside its home in the fork";
            self.add_conflict(at, what, Some(is), true);
        }
        Ok(())
    }
}
