//! Undos that were taken back since: together with the redo, each changed nothing except places in the trash. The undo
//! took a node out of one place of the trash, and the redo put it into a new entry.
//!
//! The node went to the trash unchanged: its content and its attributes are those that the older of the two made, so
//! they count as they were before both.
//!
//! The records before both look for the node in the old place: a directory that comes back from the trash would come
//! without it. So the node counts as lying in the old place.

use std::collections::BTreeSet;

use super::planner::{ChangeKey, UndoPlanner};
use super::selection::RecordSelection;
use crate::error::Result;
use crate::operator::past::effect::SessionRecord;
use crate::operator::past::{NameSlot, NodeId, ROOT, RecordEffect};
use crate::world::store::layout::TRASH;
use crate::world::view::in_trash;

impl UndoPlanner<'_, '_> {
    /// Follows an effect of a cancelled undo or its redo, before it is reversed in the past: the newer of the two comes
    /// first.
    pub(super) fn follow_cancelled(
        &mut self,
        (selection, pair): (&RecordSelection, usize),
        effect: &RecordEffect,
        record: SessionRecord<'_>,
    ) -> Result<()> {
        if let Some(node) = effect.changed_inside()
            && self.went_to_trash(pair, node)
            && self.lies_only_in_trash((selection, pair), node)?
        {
            self.target.reverse(effect.clone(), record);
            return Ok(());
        }
        match effect {
            RecordEffect::Name {
                dir,
                name,
                before,
                after,
            } => {
                let pair_nodes = self.moved_by_pair.entry(pair).or_default();
                pair_nodes.extend(before.iter().chain(after));
                let Some(node) = after.filter(|_| before.is_none()) else {
                    return Ok(());
                };
                let there = self.target.lookup_id(*dir, *name)?;
                let is_purged = there.is_none() && self.past.tree().is_lost(node);
                if self.is_trash(*dir)? && (is_purged || there == Some(node)) {
                    let places = self.put_into_trash.entry((pair, node)).or_default();
                    places.insert((*dir, *name));
                }
            }
            // The time of a directory that a node was taken out of.
            RecordEffect::Time(node, time) if self.is_in_trash(*node)? => {
                self.target.difference_mut(*node).mtime = Some(*time);
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes the nodes that a pair moved, and that lay in the trash before it and lie there now, count as lying where
    /// they were before. The past must have come to the point before the pair.
    pub(super) fn put_back_cancelled(&mut self, pair: usize) -> Result<()> {
        let mut waiting = Vec::new();
        for node in self.moved_by_pair.remove(&pair).unwrap_or_default() {
            let past = self.past.tree();
            let was: BTreeSet<NameSlot> = past.every_place(node).collect();
            let put_there = self.put_into_trash.get(&(pair, node));
            let is: BTreeSet<NameSlot> = match put_there {
                Some(purged) if past.is_lost(node) => purged.clone(),
                _ => self.target.every_place(node).collect(),
            };
            let mut from = is.iter().filter(|place| !was.contains(place));
            for to in was.iter().filter(|place| !is.contains(place)) {
                let is_theirs = |place: &&NameSlot| {
                    put_there.is_some_and(|places| places.contains(place))
                        || self.went_to_trash(pair, place.0)
                };
                let was_there = self.is_trash(to.0)? || self.was_in_trash(to.0);
                if was_there && let Some(from) = from.find(is_theirs) {
                    waiting.push((node, *from, *to));
                }
            }
        }
        for (_, from, _) in &waiting {
            self.target.set_by_id(from.0, from.1, None);
        }
        // A directory has to be in its place before its entries.
        loop {
            let before = waiting.len();
            for (node, from, to) in std::mem::take(&mut waiting) {
                let is_free = self.target.lookup_id(to.0, to.1)?.is_none();
                if is_free && self.lies_in_trash(to.0)? {
                    self.target.set_by_id(to.0, to.1, Some(node));
                    self.followed.push((to, from));
                } else {
                    waiting.push((node, from, to));
                }
            }
            if waiting.len() == before {
                break;
            }
        }
        for (node, from, _) in waiting {
            let stays = (!self.target.is_lost(node)).then_some(node);
            self.target.set_by_id(from.0, from.1, stays);
        }
        Ok(())
    }

    /// Adds the followed nodes to the changes of names that are checked, where their directory comes back from the
    /// trash.
    pub(super) fn check_cancelled(&mut self) {
        for (place, lies) in std::mem::take(&mut self.followed) {
            let dir = self.target.path(place.0);
            let by = self
                .later_changes
                .get(&ChangeKey::Name(place.0, place.1))
                .cloned();
            if let (Some(by), true) = (by, dir.is_some_and(|dir| !in_trash(&dir))) {
                self.changed.insert(place, by.clone());
                self.changed.insert(lies, by);
            }
        }
    }

    /// Returns whether a pair put a node into the trash where it is now, by itself or with a directory.
    fn went_to_trash(&self, pair: usize, node: NodeId) -> bool {
        let above = |node: &NodeId| self.target.slot(*node).map(|(dir, _)| dir);
        std::iter::successors(Some(node), above)
            .take_while(|node| *node != ROOT)
            .any(|node| self.put_into_trash.contains_key(&(pair, node)))
    }

    /// Returns whether all names of a node are in the trash, so that nothing later has changed it.
    fn lies_only_in_trash(
        &mut self,
        (selection, pair): (&RecordSelection, usize),
        node: NodeId,
    ) -> Result<bool> {
        let Ok(meta) = self.target.disk().stat(node) else {
            return Ok(false);
        };
        let disk = self.target.disk().clone();
        let knows_all = || {
            let names = disk.every_place(node).count();
            meta.is_dir() || usize::try_from(meta.nlink) == Ok(names)
        };
        // Not all names are in records of what is taken back. One search finds those of all that the pair changed.
        if !knows_all() && self.searched.insert(pair) {
            let files = selection.files_of(pair).chain(disk.ids(node));
            disk.search(&files.collect())?;
        }
        if !knows_all() {
            return Ok(false);
        }
        // Where it is on the disk says nothing: a redo that was stopped has brought it back.
        let places: Vec<NameSlot> = self.target.every_place(node).collect();
        for (dir, _) in places {
            if !self.lies_in_trash(dir)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a directory was the trash or in it at this point of the past, and still is: a directory that has
    /// come back since is as its later records left it.
    fn is_in_trash(&self, dir: NodeId) -> Result<bool> {
        Ok(self.is_trash(dir)? || self.was_in_trash(dir) && self.lies_in_trash(dir)?)
    }

    fn is_trash(&self, dir: NodeId) -> Result<bool> {
        Ok(self.past.tree().lookup(ROOT, TRASH)? == Some(dir))
    }

    /// Returns whether a directory is the trash or lies in it now.
    fn lies_in_trash(&self, dir: NodeId) -> Result<bool> {
        let lies_below = || self.target.path(dir).is_some_and(|path| in_trash(&path));
        Ok(self.is_trash(dir)? || lies_below())
    }
}
