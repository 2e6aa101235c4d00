//! Copies a store that may go on changing, as of a single consistent point.
//!
//! The first round makes everything as it was at the newest record. Nodes that records have touched meanwhile may have
//! been copied in a later state, so they are made again, from the past, in rounds that get shorter: until no record has
//! touched the nodes that the last round made, or their sources. Replaced and removed nodes do not change from then on.
//! Records come before their acts, so nothing is overlooked. Only what a program writes into a file that was open for
//! writing at the point already has no record of its own: such a file is as it is when it is read.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::copier::ForkCounts;
use super::trees::{RebuildScope, RoundState, TreeBuilder};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::operator::Store;
use crate::operator::past::{
    FullAttributes, NameSlot, NodeId, Past, PastTree, ROOT, RecordEffect, ReverseRecords,
};
use crate::operator::point::{Operation, Point};
use crate::world::store::forked::ForkMethod;
use crate::world::store::inode_lists;
use crate::world::view::in_trash;
use crate::world::{Id, Root};

/// The time that rounds may go on after the first one; a store that takes longer changes too fast to be forked.
const MAX_ROUNDS_TIME: Duration = Duration::from_secs(30);

/// The result of making a fork.
#[derive(Debug)]
pub struct ForkResult {
    /// The numbers of nodes made.
    pub counts: ForkCounts,
    /// The things that could not be made, or not as they are in the origin, with reasons.
    pub notes: Vec<String>,
    /// The inodes that stay hidden wherever they go, as they are hidden in the origin.
    pub hidden: Vec<Id>,
    /// The attributes that the directory itself gets.
    root: Option<FullAttributes>,
}

/// Returns the newest record of a store, aborted ones left out; `None` where there is none.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn newest(store: &Store) -> Result<Option<Operation>> {
    let found = ReverseRecords::open_unchecked(store)?.next_record()?;
    Ok(found.map(|(session, record)| Operation {
        session: session.to_string(),
        seq: record.seq,
    }))
}

/// Copies everything that a store had at a point to an empty directory, which may have a `.trumanfs`.
///
/// # Errors
/// [`Error::Refused`] where blocks cannot be shared, or the store changes faster than it can be read;
/// [`Error::Damaged`] where a journal cannot be read; those of the system calls.
pub fn make_fork(
    store: &Store,
    at: Option<&Operation>,
    to: &Root,
    means: ForkMethod,
) -> Result<ForkResult> {
    let point = after(at);
    let hidden = inode_lists::read(store.state().as_fd(), store.root().id().0)?.1;
    let mut trees = TreeBuilder::new(to, means, hidden);
    let mut past = Past::now(store)?;
    past.back_to(&point)?;
    trees.make_node(&past.into_tree(), ROOT, &WorldPath::root())?;
    let mut failed = std::mem::take(&mut trees.round.failed);
    let mut seen = at.cloned();
    let mut last: Option<RoundState> = None;
    let end = Instant::now() + MAX_ROUNDS_TIME;
    while Instant::now() < end {
        let now = newest(store)?;
        if now == seen {
            return finish_fork(trees, failed);
        }
        let mut past = Past::now(store)?;
        let mut fresh = RoundChanges::default();
        past.back_noting(&after(seen.as_ref()), |_, _, effect| fresh.note(effect))?;
        past.back_to(&point)?;
        let tree = past.into_tree();
        let to_redo = fresh.changed_places(&tree, last.as_ref());
        if to_redo.is_empty() {
            return finish_fork(trees, failed);
        }
        let round = trees.rebuild(&tree, &to_redo)?;
        failed.retain(|path, _| !to_redo.keys().any(|made| made.contains(path)));
        failed.extend(round.failed.clone());
        last = Some(round);
        seen = now;
    }
    Err(Error::refused(
        "the store changes faster than it can be forked",
        "Nothing was made. Stop what is working in it, or unmount it, and fork again.",
    ))
}

/// Finishes the fork. `failed`: the paths that could not be made although no record explains that.
fn finish_fork(
    mut trees: TreeBuilder<'_>,
    failed: BTreeMap<WorldPath, Option<String>>,
) -> Result<ForkResult> {
    let failed = failed.into_iter();
    let lost = failed.filter_map(|(path, why)| Some(format!("{path} is left out: {}", why?)));
    trees.copier.notes.extend(lost);
    let root = trees.finish()?;
    let hidden = trees.copier.hidden_here;
    Ok(ForkResult {
        hidden,
        counts: trees.copier.counts,
        notes: trees.copier.notes,
        root,
    })
}

impl ForkResult {
    /// Sets the attributes of the directory itself, after everything in it was made.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn finish(&mut self, to: &Root) -> Result<()> {
        let Some(looks) = self.root.take() else {
            return Ok(());
        };
        self.notes
            .extend(super::trees::set_root_attributes(to, &looks)?);
        Ok(())
    }
}

fn after(at: Option<&Operation>) -> Point {
    let start = || Operation::start_of("");
    Point::After(at.cloned().unwrap_or_else(start))
}

/// The changes that records report since the last round began.
#[derive(Debug, Default)]
struct RoundChanges {
    names: HashSet<NameSlot>,
    /// The nodes whose names changed.
    moved: HashSet<NodeId>,
    /// The nodes whose attributes changed.
    attributes: HashSet<NodeId>,
    /// The nodes whose content or time changed.
    written: HashSet<NodeId>,
}

impl RoundChanges {
    fn note(&mut self, effect: &RecordEffect) {
        match effect {
            RecordEffect::Name {
                dir,
                name,
                before,
                after,
            } => {
                self.names.insert((*dir, *name));
                self.moved.extend(before.iter().chain(after));
            }
            RecordEffect::Content { node, .. } | RecordEffect::Time(node, _) => {
                self.written.insert(*node);
            }
            effect => self.attributes.extend(effect.changed_inside()),
        }
    }

    /// Returns the paths at which a tree has nodes that may have been copied in a later state: of all nodes, or of
    /// those that the last round made.
    fn changed_places(
        &self,
        tree: &PastTree<'_>,
        last: Option<&RoundState>,
    ) -> BTreeMap<WorldPath, RebuildScope> {
        let mut to_redo = BTreeMap::new();
        let mut add = |path: WorldPath, how: RebuildScope| {
            if !in_trash(&path) {
                let known = to_redo.entry(path).or_insert(how);
                *known = how.max(*known);
            }
        };
        for path in last.into_iter().flat_map(|last| last.failed.keys()) {
            add(path.clone(), RebuildScope::Tree);
        }
        // New names, where a directory was listed meanwhile.
        for path in self.names.iter().filter_map(|slot| path_of(tree, *slot)) {
            if last.is_none_or(|last| path.parent().is_some_and(|dir| last.listed.contains(&dir))) {
                add(path, RebuildScope::Tree);
            }
        }
        let moved = self
            .moved
            .iter()
            .map(|node| (*node, RebuildScope::Tree, false));
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|node| (*node, RebuildScope::Attributes, false));
        let written = self.written.iter();
        let written = written.map(|node| (*node, RebuildScope::Attributes, true));
        for (node, how, only_written) in moved.chain(attributes).chain(written) {
            let is_right = last.is_some_and(|last| {
                let made = tree.ids(node).and_then(|ids| last.made.get(&ids));
                made.is_none_or(|is_kept| only_written && *is_kept)
            });
            if is_right {
                continue;
            }
            let how = if tree.kind(node).is_dir() {
                how
            } else {
                RebuildScope::Tree
            };
            for path in tree
                .every_place(node)
                .filter_map(|slot| path_of(tree, slot))
            {
                add(path, how);
            }
            if node == ROOT {
                add(WorldPath::root(), RebuildScope::Attributes);
            }
        }
        let trees = to_redo
            .iter()
            .filter(|(_, how)| **how == RebuildScope::Tree);
        let trees: HashSet<WorldPath> = trees.map(|(path, _)| path.clone()).collect();
        to_redo.retain(|path, _| {
            let mut above = path.parent();
            while let Some(dir) = above {
                if trees.contains(&dir) {
                    return false;
                }
                above = dir.parent();
            }
            true
        });
        to_redo
    }
}

fn path_of(tree: &PastTree<'_>, (dir, name): NameSlot) -> Option<WorldPath> {
    let (dir, text) = (tree.path(dir)?, tree.disk().text(name));
    Some(dir.join(Name::new(&text).ok()?))
}
