//! Names in a tree of the past: what a name means, and where a thing is.
//!
//! Owns both directions. A name that no record touched means what it means on the disk. The names that a thing was given are
//! remembered, and each is believed only while the name still means that thing.

use std::collections::BTreeMap;

use rustix::fs::FileType;

use super::ground::{NodeId, Place, ROOT, Slot};
use super::pool::Label;
use super::tree::Tree;
use crate::error::Result;
use crate::name::WorldPath;
use crate::world::view::TRASH;

/// The names that nodes were given.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    /// Each with the number of the one before of the same node, as in `last`.
    all: Vec<(Place, u32)>,
    /// The last of each node: its number and one; 0 for a node that was given none, `DISK` where there is only the name
    /// that it has on the disk, which is not kept twice.
    last: Vec<u32>,
}

const DISK: u32 = u32::MAX;

impl Given {
    fn last(&self, node: NodeId) -> u32 {
        self.last.get(node.index()).copied().unwrap_or(0)
    }

    fn get(&self, number: u32) -> Option<(Place, u32)> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.all.get(at).copied()
    }

    /// The names of a node but for the one on the disk; the one given last comes first.
    fn to(&self, node: NodeId) -> impl Iterator<Item = Place> {
        let mut next = self.last(node);
        std::iter::from_fn(move || {
            let (place, before) = self.get(next)?;
            next = before;
            Some(place)
        })
    }

    fn add(&mut self, node: NodeId, place: Place, is_on_disk: bool) {
        let last = self.last(node);
        let mut at = last;
        while let Some((known, before)) = self.get(at) {
            if known == place {
                return;
            }
            at = before;
        }
        if at == DISK && is_on_disk {
            return;
        }
        let number = match last == 0 && is_on_disk {
            true => DISK,
            false => {
                self.all.push((place, last));
                // Four thousand million of them do not fit into memory.
                u32::try_from(self.all.len()).unwrap_or(u32::MAX)
            }
        };
        if self.last.len() <= node.index() {
            self.last.resize(node.index() + 1, 0);
        }
        if let Some(last) = self.last.get_mut(node.index()) {
            *last = number;
        }
    }
}

impl Tree<'_> {
    /// Returns what a directory has at a name.
    ///
    /// # Errors
    /// What the disk says, where it has to be asked.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        self.lookup_label(dir, self.ground.label(name))
    }

    /// As [`Tree::lookup`], by label.
    ///
    /// # Errors
    /// As [`Tree::lookup`].
    pub(in crate::operator) fn lookup_label(
        &self,
        dir: NodeId,
        label: Label,
    ) -> Result<Option<NodeId>> {
        match self.changed(dir, label) {
            Some(node) => Ok(node),
            None => self.ground.lookup_label(dir, label),
        }
    }

    /// Returns what a name means, where that may differ from what it means on the disk.
    pub(in crate::operator) fn changed(&self, dir: NodeId, label: Label) -> Option<Option<NodeId>> {
        self.names.get(&dir)?.get(&label).copied()
    }

    /// Finds what is at a path; `.trash` is a directory like others.
    ///
    /// # Errors
    /// As [`Tree::lookup`].
    pub fn resolve(&self, path: &WorldPath) -> Result<Option<NodeId>> {
        let mut at = ROOT;
        for name in path.components() {
            match self.lookup(at, name.bytes())? {
                Some(node) => at = node,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Returns the entries of a directory by name. Those of the root include `.trash`.
    ///
    /// # Errors
    /// What reading the directory says.
    pub fn children(&self, dir: NodeId) -> Result<BTreeMap<Box<[u8]>, NodeId>> {
        let mut children = BTreeMap::new();
        for name in self.ground.names(dir)? {
            if let Some(node) = self.ground.lookup(dir, &name)? {
                children.insert(name, node);
            }
        }
        for (label, node) in self.names.get(&dir).into_iter().flatten() {
            let name = self.ground.text(*label);
            match node {
                Some(node) => children.insert(name, *node),
                None => children.remove(&name),
            };
        }
        Ok(children)
    }

    /// Returns the names of a directory's entries by label, in no order.
    ///
    /// # Errors
    /// As [`Tree::children`].
    pub(in crate::operator) fn labels(&self, dir: NodeId) -> Result<impl Iterator<Item = Label>> {
        let changed = self.names.get(&dir);
        let is_changed =
            move |label: &Label| changed.is_some_and(|names| names.contains_key(label));
        let there = self.ground.labels(dir)?;
        let changed = changed.into_iter().flatten();
        let changed = changed.filter_map(|(label, node)| node.is_some().then_some(*label));
        Ok(there.filter(move |label| !is_changed(label)).chain(changed))
    }

    /// Returns the names that may differ from those on the disk; those of one directory follow each other.
    pub(in crate::operator) fn changed_places(
        &self,
    ) -> impl Iterator<Item = (Place, Option<NodeId>)> {
        self.names
            .iter()
            .flat_map(|(dir, names)| names.iter().map(|(label, node)| ((*dir, *label), *node)))
    }

    /// Returns a path of a node; `None` where it has no name that is known.
    pub fn path(&self, node: NodeId) -> Option<WorldPath> {
        let (labels, _) = self.way(node)?;
        let mut path = WorldPath::root();
        for label in labels.into_iter().rev() {
            self.ground.push(&mut path, label)?;
        }
        Some(path)
    }

    /// The names of a node and of the directories above it, that of the node first, and whether it lies in the trash.
    fn way(&self, node: NodeId) -> Option<(Vec<Label>, bool)> {
        let mut labels = Vec::new();
        let mut seen = Vec::new();
        let mut at = node;
        while at != ROOT {
            let (dir, label) = self.best_place(at)?;
            if seen.contains(&at) {
                return None;
            }
            seen.push(at);
            labels.push(label);
            at = dir;
        }
        let top = labels.last().map(|label| self.ground.text(*label));
        Some((labels, top.is_some_and(|top| *top == *TRASH)))
    }

    /// Returns a place that a node has a name in; one outside of the trash, where it has one.
    pub fn slot(&self, node: NodeId) -> Option<Slot> {
        let (dir, label) = self.best_place(node)?;
        Some((dir, self.ground.text(label)))
    }

    /// The same, by label.
    pub(in crate::operator) fn place_of(&self, node: NodeId) -> Option<Place> {
        self.best_place(node)
    }

    fn best_place(&self, node: NodeId) -> Option<Place> {
        let mut places = self.every_place(node);
        let first = places.next()?;
        // A directory has one name only.
        if self.kind(node) == FileType::Directory {
            return Some(first);
        }
        let visible = |(dir, _): &Place| self.way(*dir).is_some_and(|(_, in_trash)| !in_trash);
        match visible(&first) {
            true => Some(first),
            false => places.find(visible).or(Some(first)),
        }
    }

    /// The places that a node has a name in, as far as they are known; the one given last comes first.
    pub(in crate::operator) fn every_place(&self, node: NodeId) -> impl Iterator<Item = Place> {
        let holds = move |(dir, label): &Place| {
            let there = self.lookup_label(*dir, *label);
            there.ok().flatten() == Some(node)
        };
        let given = self.given.to(node);
        let others = std::iter::once_with(move || self.ground.other_places(node)).flatten();
        let there = std::iter::once_with(move || self.ground.at(node)).flatten();
        given.chain(there).chain(others).filter(holds)
    }

    /// Lets a name mean something else, or nothing.
    pub fn set_name(&mut self, dir: NodeId, name: &[u8], node: Option<NodeId>) {
        self.set_label(dir, self.ground.label(name), node);
    }

    /// As [`Tree::set_name`], by label.
    pub(in crate::operator) fn set_label(
        &mut self,
        dir: NodeId,
        label: Label,
        node: Option<NodeId>,
    ) {
        self.names.entry(dir).or_default().insert(label, node);
        self.near.forget((dir, label));
        if let Some(node) = node {
            let is_on_disk = self.ground.at(node) == Some((dir, label));
            self.given.add(node, (dir, label), is_on_disk);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operator::past::Pool;

    #[test]
    fn the_name_given_last_comes_first() {
        let mut pool = Pool::default();
        let places: Vec<Place> = (0..5)
            .map(|number: u32| (ROOT, pool.label(number.to_string().as_bytes())))
            .collect();
        let node = |number| NodeId::numbered(number).unwrap();
        let mut seed: usize = 7;
        let mut throw = |sides: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % sides
        };
        for _ in 0..500 {
            let mut given = Given::default();
            // Each thing lies at one of the places, or at none.
            let disk: Vec<Option<Place>> = (0..3).map(|_| places.get(throw(6)).copied()).collect();
            let mut plain: Vec<Vec<Place>> = vec![Vec::new(); 3];
            for _ in 0..throw(12) {
                let (at, place) = (throw(3), *places.get(throw(5)).unwrap());
                let on_disk = *disk.get(at).unwrap();
                given.add(node(at), place, on_disk == Some(place));
                let known = plain.get_mut(at).unwrap();
                if !known.contains(&place) {
                    known.insert(0, place);
                }
            }
            for (at, (plain, disk)) in plain.into_iter().zip(disk).enumerate() {
                let first = |all: Vec<Place>| {
                    let mut seen = Vec::new();
                    for place in all.into_iter().chain(disk) {
                        if !seen.contains(&place) {
                            seen.push(place);
                        }
                    }
                    seen
                };
                assert_eq!(first(given.to(node(at)).collect()), first(plain));
            }
        }
    }
}
