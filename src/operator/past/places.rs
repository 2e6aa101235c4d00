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

    /// Returns the names that may differ from those on the disk, each with its directory.
    pub fn changed_names(&self) -> impl Iterator<Item = (NodeId, Box<[u8]>, Option<NodeId>)> {
        self.changed_places()
            .map(|((dir, label), node)| (dir, self.ground.text(label), node))
    }

    /// The same, by label.
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
    fn every_place(&self, node: NodeId) -> impl Iterator<Item = Place> {
        let holds = move |(dir, label): &Place| {
            let there = self.lookup_label(*dir, *label);
            there.ok().flatten() == Some(node)
        };
        let number = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        let mut next = self.up.get(&node).copied().and_then(number);
        let given = std::iter::from_fn(move || {
            let (place, before) = *self.given.get(next?)?;
            next = number(before);
            Some(place)
        });
        let others = std::iter::once_with(move || self.ground.other_places(node)).flatten();
        let there = std::iter::once_with(move || self.ground.at(node)).flatten();
        given.chain(there).chain(others).filter(holds)
    }

    /// Lets a name mean something else, or nothing.
    pub fn set_name(&mut self, dir: NodeId, name: &[u8], node: Option<NodeId>) {
        self.set_label(dir, self.ground.label(name), node);
    }

    /// As [`Tree::set_name`], by label.
    pub(super) fn set_label(&mut self, dir: NodeId, label: Label, node: Option<NodeId>) {
        self.names.entry(dir).or_default().insert(label, node);
        let Some(node) = node else {
            return;
        };
        let mut at = self.up.get(&node).copied().unwrap_or(0);
        let last = at;
        while let Some((place, before)) = at.checked_sub(1).and_then(|n| self.given.get(n as usize))
        {
            if *place == (dir, label) {
                return;
            }
            at = *before;
        }
        self.given.push(((dir, label), last));
        // Four thousand million of them do not fit into memory.
        let number = u32::try_from(self.given.len()).unwrap_or(u32::MAX);
        self.up.insert(node, number);
    }
}
