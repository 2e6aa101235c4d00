//! Undos that were taken back since: each changed nothing together with what took it back, but where something lies in the
//! trash. It took a thing out of one place of the trash, and the other put it into a new entry.
//!
//! A thing went to the trash as it was: its content and its attributes are those that the older of the two made, so they count
//! as they were before both.
//!
//! The records before both look for it in the old place: a directory that comes back from the trash would come without it. So
//! it counts as lying in the old place.

use super::planner::{Changed, Planner};
use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::past::effect::SessionRecord;
use crate::operator::past::{Effect, NameSlot, NodeId, ROOT};
use crate::world::layout::TRASH;
use crate::world::view::in_trash;

impl Planner<'_, '_> {
    /// Follows an effect of a pair of an undo and what took it back, before it is reversed in the past: the newer of the
    /// two comes first.
    pub(super) fn follow_cancelled(
        &mut self,
        pair: usize,
        effect: &Effect,
        record: SessionRecord<'_>,
    ) -> Result<()> {
        if let Some(node) = effect.within()
            && self.went_to_trash(pair, node)
            && self.lies_only_in_trash(pair, node)?
        {
            self.target.reverse(effect.clone(), record);
            return Ok(());
        }
        match effect {
            Effect::Name {
                dir,
                name,
                before: None,
                after: Some(node),
            } if self.is_in_trash(*dir)? => {
                self.put_into_trash.insert((pair, *node), (*dir, *name));
            }
            Effect::Name {
                dir,
                name,
                before: Some(node),
                after: None,
            } if self.is_in_trash(*dir)? => {
                // By itself, or along with a directory above it.
                let itself = self.put_into_trash.remove(&(pair, *node));
                let Some(lies) = itself.or_else(|| self.place_in_dir(pair, *node)) else {
                    return Ok(());
                };
                let there = self.target.lookup_id(lies.0, lies.1)?;
                let is_purged = there.is_none() && self.past.tree().is_lost(*node);
                let is_free = self.target.lookup_id(*dir, *name)?.is_none();
                if is_free && (is_purged || there == Some(*node)) {
                    self.target.set_by_id(lies.0, lies.1, None);
                    self.target.set_by_id(*dir, *name, Some(*node));
                    self.followed.push(((*dir, *name), lies));
                }
            }
            // Of a directory that something was taken out of.
            Effect::Time(node, time) if self.is_in_trash(*node)? => {
                self.target.difference_mut(*node).mtime = Some(*time);
            }
            _ => {}
        }
        Ok(())
    }

    /// Has what was followed checked with the other changes of names where its directory comes back from the trash.
    pub(super) fn settle_cancelled(&mut self) {
        for (place, lies) in std::mem::take(&mut self.followed) {
            let dir = self.target.path(place.0);
            let by = self.touched.get(&Changed::Name(place.0, place.1)).cloned();
            if let (Some(by), true) = (by, dir.is_some_and(|dir| !in_trash(&dir))) {
                self.changed.insert(place, by.clone());
                self.changed.insert(lies, by);
            }
        }
    }

    /// Returns the place of a thing that the newer of a pair put into the trash along with a directory above it.
    fn place_in_dir(&self, pair: usize, node: NodeId) -> Option<NameSlot> {
        let (dir, name) = self.target.slot(node)?;
        let place = (dir, self.target.disk().name_id(&name));
        self.went_to_trash(pair, node).then_some(place)
    }

    /// Returns whether the newer of a pair put a thing into the trash, by itself or with a directory.
    fn went_to_trash(&self, pair: usize, node: NodeId) -> bool {
        let above = |node: &NodeId| self.target.slot(*node).map(|(dir, _)| dir);
        std::iter::successors(Some(node), above)
            .take_while(|node| *node != ROOT)
            .any(|node| self.put_into_trash.contains_key(&(pair, node)))
    }

    /// Returns whether a thing has no name but those in the trash, so that nothing later has changed it.
    fn lies_only_in_trash(&mut self, pair: usize, node: NodeId) -> Result<bool> {
        let Ok(meta) = self.target.disk().stat(node) else {
            return Ok(false);
        };
        let disk = self.target.disk().clone();
        let knows_all = || {
            let names = disk.every_place(node).count();
            meta.is_dir() || usize::try_from(meta.nlink) == Ok(names)
        };
        // Not all names are in records of what is taken back. One search finds those of all that the pair moved.
        if !knows_all() && self.searched.insert(pair) {
            let moved = self.put_into_trash.keys().filter(|(of, _)| *of == pair);
            disk.search(&moved.filter_map(|(_, node)| disk.ids(*node)).collect())?;
        }
        let is_there = |(dir, _): NameSlot| disk.path(dir).is_some_and(|dir| in_trash(&dir));
        Ok(knows_all() && disk.every_place(node).all(is_there))
    }

    /// Returns whether a directory was the trash or in it at this point of the past, and still is: what has come back since
    /// is as its later records left it.
    fn is_in_trash(&self, dir: NodeId) -> Result<bool> {
        let past = self.past.tree();
        if past.lookup(ROOT, TRASH)? == Some(dir) {
            return Ok(true);
        }
        let is_below = |path: Option<WorldPath>| path.is_some_and(|path| in_trash(&path));
        Ok(is_below(past.path(dir)) && is_below(self.target.path(dir)))
    }
}
