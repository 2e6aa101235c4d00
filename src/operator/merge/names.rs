//! Plans the names of a merge: the fork's removals, moves and new directories.

use std::collections::HashMap;

use rustix::fs::FileType;

use super::contents::is_same;
use super::plan::MergePlanner;
use super::steps::NameStep;
use super::unrecorded::is_equal;
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::diff::PathDifference;
use crate::operator::past::NodeId;

impl MergePlanner<'_, '_, '_, '_> {
    pub(super) fn plan_removal(&mut self, change: &PathDifference) -> Result<()> {
        let path = &change.path;
        let (Some(here), Some(was)) = (self.ours.node_at(path)?, change.before) else {
            return Ok(());
        };
        let seen = self.fingerprint(here)?;
        let is_unchanged = self.is_as_it_was(here, was.node)?;
        let there = self.theirs.resolve(path)?;
        if let Some(there) = there
            && self.is_from_earlier_merge(path, here, (was.node, there), is_unchanged)?
        {
            return Ok(());
        }
        if !is_unchanged {
            let what = match there {
                None => "was changed here, and removed in the fork",
                Some(_) => "was changed here, and replaced in the fork",
            };
            self.add_conflict(path, what, None, false);
            if !self.force || there.is_some() && !self.can_be_placed(path)? {
                return Ok(());
            }
        }
        self.ours.leaving.insert(path.clone());
        self.plan.removals.push((path.clone(), seen));
        Ok(())
    }

    /// Returns whether a node of the origin is as the fork had it when the fork was made, or just before the fork
    /// removed it, after an earlier merge.
    fn is_as_it_was(&self, here: NodeId, was: NodeId) -> Result<bool> {
        let (kind, ours) = (self.base.kind(was), (&self.ours.tree, here));
        Ok(self.ours.tree.kind(here) == kind
            && match kind {
                FileType::RegularFile => {
                    false_if_unreadable(is_same((self.base, was), ours))?
                        || false_if_unreadable(is_same((self.theirs, was), ours))?
                }
                FileType::Symlink => self.base.target(was)? == self.ours.tree.target(here)?,
                _ => true,
            })
    }

    /// Returns whether the node at the path of a node that the fork removed came there by an earlier merge, in its
    /// place. The fork's later changes of it are planned with everything else that the fork made or moved.
    fn is_from_earlier_merge(
        &self,
        path: &WorldPath,
        here: NodeId,
        (was, there): (NodeId, NodeId),
        is_unchanged: bool,
    ) -> Result<bool> {
        let kind = self.theirs.kind(there);
        if self.ours.tree.kind(here) != kind {
            return Ok(false);
        }
        let Some(from) = self.arrivals.get(path) else {
            return Ok(kind != self.base.kind(was)
                || false_if_unreadable(is_equal((self.theirs, there), (&self.ours.tree, here)))?);
        };
        if self.has_moved(from, path)? {
            return Ok(true);
        }
        let is_free = self.ours.node_at(from)?.is_none();
        Ok((is_free || !is_unchanged)
            && false_if_unreadable(is_equal((self.theirs, there), (&self.ours.tree, here)))?)
    }

    /// Returns whether the fork's node at a path can come there once the path is free.
    fn can_be_placed(&self, path: &WorldPath) -> Result<bool> {
        let (Some(from), Some(there)) = (self.arrivals.get(path), self.theirs.resolve(path)?)
        else {
            return Ok(true);
        };
        let here = self.ours.node_at(from)?;
        Ok(here.is_some_and(|here| self.ours.tree.kind(here) == self.theirs.kind(there)))
    }

    /// Plans the moves of the fork. `moves`: pairs of former and present paths.
    pub(super) fn plan_moves(
        &mut self,
        change: &PathDifference,
        moves: &HashMap<WorldPath, WorldPath>,
    ) -> Result<()> {
        let (Some(from), Some(is)) = (&change.from, change.after) else {
            return Ok(());
        };
        let path = &change.path;
        let kind = self.theirs.kind(is.node);
        let there = self.ours.stays_at(path)?;
        let is_there = match there.filter(|there| self.ours.tree.kind(*there) == kind) {
            Some(_) if self.has_moved(from, path)? => true,
            // Moved by an earlier merge; another node may have taken the former name since.
            Some(there) if kind.is_file() => {
                false_if_unreadable(is_same((self.theirs, is.node), (&self.ours.tree, there)))?
            }
            Some(_) => self.ours.node_at(from)?.is_none(),
            None => false,
        };
        let here = self.ours.node_at(from)?;
        if is_there || here.is_none() && there.is_some_and(|node| self.ours.tree.kind(node) == kind)
        {
            return Ok(());
        }
        let what = match here {
            None => Some(format!(
                "was removed or moved here, and moved to {path} in the fork"
            )),
            Some(here) if self.ours.tree.kind(here) != kind => Some(format!(
                "is something else here, and was moved to {path} in the fork"
            )),
            _ if from.contains(path) => Some(format!(
                "was moved to {path} in the fork, into what took its place"
            )),
            _ if there.is_some() && !self.is_moved_away(path, from, moves)? => Some(format!(
                "was moved to {path} in the fork, where something else is here"
            )),
            _ if !self.ours.has_parent_of(path)? => Some(format!(
                "was moved to {path} in the fork, and that directory is not here any more"
            )),
            _ => None,
        };
        if let Some(what) = what {
            // Its former name is that of another directory in the fork.
            let theirs = Some(is.node).filter(|_| !from.contains(path));
            self.add_conflict(from, &what, theirs, false);
            return Ok(());
        }
        self.ours.leaving.insert(from.clone());
        if kind.is_dir() {
            self.ours.coming.insert(path.clone());
        }
        self.plan
            .names
            .push((path.clone(), NameStep::Move(from.clone())));
        Ok(())
    }

    /// Returns whether the origin has moved a node as the fork has, as far as the origin's state of then is known.
    pub(super) fn has_moved(&self, from: &WorldPath, to: &WorldPath) -> Result<bool> {
        match self.origin {
            Some(origin) => origin.has_moved(from, to),
            None => Ok(false),
        }
    }

    /// Returns whether a file at a path is the one that the fork has moved away, along a chain or in exchange.
    fn is_moved_away(
        &self,
        path: &WorldPath,
        from: &WorldPath,
        moves: &HashMap<WorldPath, WorldPath>,
    ) -> Result<bool> {
        let (Some(here), Some(was)) = (self.ours.node_at(path)?, self.base.resolve(path)?) else {
            return Ok(false);
        };
        let ours = (&self.ours.tree, here);
        if !self.base.kind(was).is_file() || !false_if_unreadable(is_same((self.base, was), ours))?
        {
            return Ok(false);
        }
        let Some(next) = moves.get(path) else {
            return Ok(false);
        };
        // Two may change places; of a longer ring, no step could be taken that leaves each file with a name of its own.
        let mut end = next;
        for _ in 0..moves.len() {
            match moves.get(end) {
                Some(further) if end != from => end = further,
                _ => break,
            }
        }
        Ok(end != from || next == from)
    }

    /// Plans a directory that the fork has made.
    pub(super) fn added_dir(&mut self, path: &WorldPath, is: NodeId) -> Result<()> {
        match self.ours.stays_at(path)? {
            Some(there) if self.ours.tree.kind(there).is_dir() => {}
            Some(_) => self.add_conflict(
                path,
                "is a directory in the fork, and something else here",
                None,
                false,
            ),
            None if !self.ours.has_parent_of(path)? => {
                self.add_conflict(
                    path,
                    "was made in the fork, in a directory that is not here any more",
                    None,
                    false,
                );
            }
            None => {
                self.ours.coming.insert(path.clone());
                self.plan.names.push((path.clone(), NameStep::Mkdir(is)));
            }
        }
        Ok(())
    }

    pub(super) fn removed_dir(&mut self, change: &PathDifference) -> Result<()> {
        let path = &change.path;
        let Some(here) = self.ours.stays_at(path)? else {
            return Ok(());
        };
        let kind = self.ours.tree.kind(here);
        if !kind.is_dir() {
            // An earlier merge may have brought it; its content is compared with the nodes that the fork has made.
            let there = self.theirs.resolve(path)?;
            if there.is_some_and(|there| self.theirs.kind(there) == kind) {
                return Ok(());
            }
            self.add_conflict(
                path,
                "is something else here, and was removed in the fork",
                None,
                false,
            );
        } else if let Some(inner) = self.ours.remaining_entry(here, path)? {
            let mut clashes = self.plan.clashes.iter();
            if !clashes.any(|clash| path.contains(&clash.conflict.path)) {
                let what = format!("was removed in the fork, and {inner} is new here");
                self.add_conflict(path, &what, None, false);
            }
        } else {
            self.ours.leaving.insert(path.clone());
            self.plan.dirs.push(path.clone());
        }
        Ok(())
    }
}

/// Maps a comparison that failed because a content is missing or damaged to "different".
fn false_if_unreadable(is_same: Result<bool>) -> Result<bool> {
    match is_same {
        Err(Error::Missing { .. } | Error::Damaged(_)) => Ok(false),
        is_same => is_same,
    }
}
