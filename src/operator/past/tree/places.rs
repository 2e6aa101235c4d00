//! Names and places in a tree: the node that a name means, and the names of a node.

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::operator::past::disk::interner::NameId;
use crate::operator::past::disk::node_id::{DirSlot, NameSlot, NodeId, ROOT};
use crate::operator::past::tree::past_tree::PastTree;
use crate::world::store::layout::TRASH;
use rustix::fs::FileType;
use std::collections::BTreeMap;

impl PastTree<'_> {
    /// Looks a name up in a directory.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        self.lookup_id(dir, self.disk.name_id(name))
    }

    /// As [`PastTree::lookup`], by name id.
    ///
    /// # Errors
    /// As [`PastTree::lookup`].
    pub(in crate::operator) fn lookup_id(
        &self,
        dir: NodeId,
        name_id: NameId,
    ) -> Result<Option<NodeId>> {
        match self.changed_name(dir, name_id) {
            Some(node) => Ok(node),
            None => self.disk.lookup_id(dir, name_id),
        }
    }

    /// Returns the node that a name means, where that may differ from the disk.
    pub(in crate::operator) fn changed_name(
        &self,
        dir: NodeId,
        name_id: NameId,
    ) -> Option<Option<NodeId>> {
        self.names.get(&dir)?.get(&name_id).copied()
    }

    /// Looks a path up; `.trash` is an ordinary directory here.
    ///
    /// # Errors
    /// As [`PastTree::lookup`].
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

    /// Returns a directory's entries by name. Those of the root include `.trash`.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn children(&self, dir: NodeId) -> Result<BTreeMap<Box<[u8]>, NodeId>> {
        let mut children = BTreeMap::new();
        for name in self.disk.names(dir)? {
            if let Some(node) = self.disk.lookup(dir, &name)? {
                children.insert(name, node);
            }
        }
        for (name_id, node) in self.names.get(&dir).into_iter().flatten() {
            let name = self.disk.text(*name_id);
            match node {
                Some(node) => children.insert(name, *node),
                None => children.remove(&name),
            };
        }
        Ok(children)
    }

    /// Adds the files at and below a node, with their paths, to a list. A directory that cannot be read adds none.
    ///
    /// # Errors
    /// As [`PastTree::children`], unless this user may not read the directory, or it is gone.
    pub fn add_files(
        &self,
        node: NodeId,
        path: &WorldPath,
        files: &mut Vec<(NodeId, Option<WorldPath>)>,
    ) -> Result<()> {
        if self.kind(node) != FileType::Directory {
            files.push((node, Some(path.clone())));
            return Ok(());
        }
        let children = match self.children(node) {
            Err(Error::NotFound | Error::Missing { .. }) => return Ok(()),
            Err(error) if error.is_denial() => return Ok(()),
            children => children?,
        };
        for (name, child) in children {
            self.add_files(child, &path.join(Name::new(&name)?), files)?;
        }
        Ok(())
    }

    /// Returns the name ids of a directory's entries, unsorted.
    ///
    /// # Errors
    /// As [`PastTree::children`].
    pub(in crate::operator) fn name_ids(
        &self,
        dir: NodeId,
    ) -> Result<impl Iterator<Item = NameId>> {
        let changed = self.names.get(&dir);
        let is_changed =
            move |name_id: &NameId| changed.is_some_and(|names| names.contains_key(name_id));
        let there = self.disk.name_ids(dir)?;
        let changed = changed.into_iter().flatten();
        let changed = changed.filter_map(|(name_id, node)| node.is_some().then_some(*name_id));
        Ok(there
            .filter(move |name_id| !is_changed(name_id))
            .chain(changed))
    }

    /// Iterates over the names that may differ from the disk, grouped by directory.
    pub(in crate::operator) fn changed_places(
        &self,
    ) -> impl Iterator<Item = (NameSlot, Option<NodeId>)> {
        self.names.iter().flat_map(|(dir, names)| {
            names
                .iter()
                .map(|(name_id, node)| ((*dir, *name_id), *node))
        })
    }

    /// Returns a path of a node; `None` where none of its names is known.
    pub fn path(&self, node: NodeId) -> Option<WorldPath> {
        let (name_ids, _) = self.names_up(node)?;
        let mut path = WorldPath::root();
        for name_id in name_ids.into_iter().rev() {
            self.disk.push(&mut path, name_id)?;
        }
        Some(path)
    }

    /// Returns the names of a node and of the directories above it, the node's first, and whether it is in the trash.
    fn names_up(&self, node: NodeId) -> Option<(Vec<NameId>, bool)> {
        let mut name_ids = Vec::new();
        let mut seen = Vec::new();
        let mut at = node;
        while at != ROOT {
            let (dir, name_id) = self.best_place(at)?;
            if seen.contains(&at) {
                return None;
            }
            seen.push(at);
            name_ids.push(name_id);
            at = dir;
        }
        let top = name_ids.last().map(|name_id| self.disk.text(*name_id));
        Some((name_ids, top.is_some_and(|top| *top == *TRASH)))
    }

    /// Returns a name of a node, outside the trash if it has one there.
    pub fn slot(&self, node: NodeId) -> Option<DirSlot> {
        let (dir, name_id) = self.best_place(node)?;
        Some((dir, self.disk.text(name_id)))
    }

    /// As [`PastTree::slot`], as ids.
    pub(in crate::operator) fn place_of(&self, node: NodeId) -> Option<NameSlot> {
        self.best_place(node)
    }

    fn best_place(&self, node: NodeId) -> Option<NameSlot> {
        let mut places = self.every_place(node);
        let first = places.next()?;
        // A directory has a single name.
        if self.kind(node) == FileType::Directory {
            return Some(first);
        }
        let visible =
            |(dir, _): &NameSlot| self.names_up(*dir).is_some_and(|(_, in_trash)| !in_trash);
        if visible(&first) {
            Some(first)
        } else {
            places.find(visible).or(Some(first))
        }
    }

    /// Iterates over the known names of a node, the latest first.
    pub(in crate::operator) fn every_place(&self, node: NodeId) -> impl Iterator<Item = NameSlot> {
        let holds = move |(dir, name_id): &NameSlot| {
            let there = self.lookup_id(*dir, *name_id);
            there.ok().flatten() == Some(node)
        };
        self.known_places(node).filter(holds)
    }

    /// Iterates over the known names of a node outside the trash, the latest first.
    pub(in crate::operator) fn shown_places(&self, node: NodeId) -> impl Iterator<Item = NameSlot> {
        let is_shown =
            |(dir, _): &NameSlot| self.names_up(*dir).is_some_and(|(_, in_trash)| !in_trash);
        self.every_place(node).filter(is_shown)
    }

    /// Iterates over the names that a node has or had on the way here, on the disk or before; others may have them now.
    pub(super) fn known_places(&self, node: NodeId) -> impl Iterator<Item = NameSlot> {
        let given = self.parents.names_of(node);
        let others = std::iter::once_with(move || self.disk.other_places(node)).flatten();
        let there = std::iter::once_with(move || self.disk.name_of(node)).flatten();
        given.chain(there).chain(others)
    }

    /// Returns whether a name was given to a node, or taken from it, on the way here.
    pub(super) fn has_changed_name(&self, node: NodeId) -> bool {
        self.known_places(node)
            .any(|(dir, name)| self.changed_name(dir, name).is_some())
    }

    /// Makes a name mean another node, or none.
    pub fn set_name(&mut self, dir: NodeId, name: &[u8], node: Option<NodeId>) {
        self.set_by_id(dir, self.disk.name_id(name), node);
    }

    /// As [`PastTree::set_name`], by name id.
    pub(in crate::operator) fn set_by_id(
        &mut self,
        dir: NodeId,
        name_id: NameId,
        node: Option<NodeId>,
    ) {
        self.names.entry(dir).or_default().insert(name_id, node);
        self.dir_cache.forget((dir, name_id));
        if let Some(node) = node {
            let is_on_disk = self.disk.name_of(node) == Some((dir, name_id));
            self.parents.add(node, (dir, name_id), is_on_disk);
        }
    }
}
