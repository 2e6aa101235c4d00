//! Names in a merge: what the fork removed and moved, and the directories that it made.

use std::collections::HashMap;

use rustix::fs::FileType;

use super::contents::is_same;
use super::plan::Planner;
use super::steps::{Forced, Naming};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::diff::Difference;
use crate::operator::past::NodeId;

impl Planner<'_, '_, '_, '_> {
    pub(super) fn removed(&mut self, change: &Difference) -> Result<()> {
        let path = &change.path;
        let (Some(here), Some(was)) = (self.ours.at(path)?, change.before) else {
            return Ok(());
        };
        let seen = self.seen(here)?;
        let ours = (&self.ours.tree, here);
        let is_unchanged = self.ours.tree.kind(here) == self.base.kind(was.node)
            && match self.base.kind(was.node) {
                // Or as the fork had it just before it removed it, after an earlier merge.
                FileType::RegularFile => {
                    known(is_same((self.base, was.node), ours))?
                        || known(is_same((self.theirs, was.node), ours))?
                }
                FileType::Symlink => self.base.target(was.node)? == self.ours.tree.target(here)?,
                _ => true,
            };
        if !is_unchanged {
            self.clash(
                path,
                "was changed here, and removed in the fork",
                None,
                false,
            );
            self.forced(Forced::Remove(seen));
            return Ok(());
        }
        self.ours.leaving.insert(path.clone());
        self.plan.removals.push((path.clone(), seen));
        Ok(())
    }

    /// `moves`: from where to where the fork has moved things.
    pub(super) fn renamed(
        &mut self,
        change: &Difference,
        moves: &HashMap<WorldPath, WorldPath>,
    ) -> Result<()> {
        let (Some(from), Some(is)) = (&change.from, change.after) else {
            return Ok(());
        };
        let path = &change.path;
        let kind = self.theirs.kind(is.node);
        let there = self.ours.stays_at(path)?;
        let is_there = match there.filter(|there| self.ours.tree.kind(*there) == kind) {
            // Moved by an earlier merge, and perhaps something else has taken the former name since.
            Some(there) if kind.is_file() => {
                known(is_same((self.theirs, is.node), (&self.ours.tree, there)))?
            }
            Some(_) => self.ours.at(from)?.is_none(),
            None => false,
        };
        let here = self.ours.at(from)?;
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
            _ if there.is_some() && !self.moves_away(path, from, moves)? => Some(format!(
                "was moved to {path} in the fork, where something else is here"
            )),
            _ if !self.ours.has_parent_of(path)? => Some(format!(
                "was moved to {path} in the fork, and that directory is not here any more"
            )),
            _ => None,
        };
        if let Some(what) = what {
            self.clash(from, &what, Some(is.node), false);
            return Ok(());
        }
        self.ours.leaving.insert(from.clone());
        if kind.is_dir() {
            self.ours.coming.insert(path.clone());
        }
        self.plan
            .names
            .push((path.clone(), Naming::Move(from.clone())));
        Ok(())
    }

    /// Returns whether a file at a path is the one that the fork has moved away, along a chain or in exchange.
    fn moves_away(
        &self,
        path: &WorldPath,
        from: &WorldPath,
        moves: &HashMap<WorldPath, WorldPath>,
    ) -> Result<bool> {
        let (Some(here), Some(was)) = (self.ours.at(path)?, self.base.resolve(path)?) else {
            return Ok(false);
        };
        let ours = (&self.ours.tree, here);
        if !self.base.kind(was).is_file() || !known(is_same((self.base, was), ours))? {
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

    /// A directory that the fork has made.
    pub(super) fn added_dir(&mut self, path: &WorldPath, is: NodeId) -> Result<()> {
        match self.ours.stays_at(path)? {
            Some(there) if self.ours.tree.kind(there).is_dir() => {}
            Some(_) => self.clash(
                path,
                "is a directory in the fork, and something else here",
                None,
                false,
            ),
            None if !self.ours.has_parent_of(path)? => {
                self.clash(
                    path,
                    "was made in the fork, in a directory that is not here any more",
                    None,
                    false,
                );
            }
            None => {
                self.ours.coming.insert(path.clone());
                self.plan.names.push((path.clone(), Naming::Mkdir(is)));
            }
        }
        Ok(())
    }

    pub(super) fn removed_dir(&mut self, change: &Difference) -> Result<()> {
        let path = &change.path;
        let Some(here) = self.ours.stays_at(path)? else {
            return Ok(());
        };
        let kind = self.ours.tree.kind(here);
        if !kind.is_dir() {
            // An earlier merge may have brought it; its content is looked at with what the fork has made.
            let there = self.theirs.resolve(path)?;
            if there.is_some_and(|there| self.theirs.kind(there) == kind) {
                return Ok(());
            }
            self.clash(
                path,
                "is something else here, and was removed in the fork",
                None,
                false,
            );
        } else if let Some(inner) = self.ours.remaining(here, path)? {
            let mut clashes = self.plan.clashes.iter();
            if !clashes.any(|clash| path.contains(&clash.conflict.path)) {
                let what = format!("was removed in the fork, and {inner} is new here");
                self.clash(path, &what, None, false);
            }
        } else {
            self.ours.leaving.insert(path.clone());
            self.plan.dirs.push(path.clone());
        }
        Ok(())
    }
}

/// What is not known to be the same is different.
fn known(is_same: Result<bool>) -> Result<bool> {
    match is_same {
        Err(Error::Missing { .. } | Error::Damaged(_)) => Ok(false),
        is_same => is_same,
    }
}
