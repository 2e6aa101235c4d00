//! Moves names from their current state to the target, where each move is recorded and safe by itself.
//!
//! Places are filled from the top of the tree downwards: then the directory of a place is always where it belongs,
//! and nothing is ever moved below itself. A node that occupies a place is exchanged with the one that belongs there,
//! or goes to the trash, from where it is fetched later if it has another place. Finally, nodes without a place go to
//! the trash, a directory with everything in it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::fs::FileType;

use super::change_backend::ChangeBackend;
use super::undo_outcome::SkippedSteps;
use crate::error::{Error, Result};
use crate::journal::FileTime;
use crate::name::{Name, WorldPath, escape};
use crate::operator::past::{DirSlot, NodeId, PastTree, ROOT};
use crate::world::store::layout::TRASH;
use crate::world::view::in_trash;
use crate::world::{Caller, Dir, Id, RemovedNode, RenameMode, Time, root};

/// The number of directories that are kept open.
const MAX_OPEN_DIRS: usize = 64;

/// Moves nodes to their names in the target.
pub(super) struct NodeMover<'a, 'h> {
    backend: &'h dyn ChangeBackend,
    caller: Caller,
    target: &'h PastTree<'a>,
    /// The current names.
    pub(super) here: PastTree<'a>,
    trash: NodeId,
    /// For each node, the names that it has to leave.
    leaving: HashMap<NodeId, Vec<DirSlot>>,
    /// For each node, the number of places that it still has to take.
    wanted: HashMap<NodeId, usize>,
    open: HashMap<NodeId, Rc<Dir>>,
    /// For each directory whose names were to change, its modification time before.
    pub(super) times: HashMap<NodeId, FileTime>,
    /// The number of moves made.
    pub(super) done: u64,
}

/// A name that has to mean another node.
#[derive(Debug)]
struct PlannedMove {
    slot: DirSlot,
    now: Option<NodeId>,
    then: Option<NodeId>,
}

impl<'a, 'h> NodeMover<'a, 'h> {
    pub(super) fn new(
        target: &'h PastTree<'a>,
        backend: &'h dyn ChangeBackend,
        caller: Caller,
    ) -> Result<NodeMover<'a, 'h>> {
        let here = PastTree::now(target.disk().clone());
        let trash = here.lookup(ROOT, TRASH)?.ok_or(Error::NotFound)?;
        Ok(NodeMover {
            backend,
            caller,
            target,
            here,
            trash,
            leaving: HashMap::new(),
            wanted: HashMap::new(),
            open: HashMap::new(),
            times: HashMap::new(),
            done: 0,
        })
    }

    /// Returns the number of names to change.
    pub(super) fn count_names(target: &PastTree<'_>) -> Result<u64> {
        let mut count = 0;
        let mut last = None;
        for ((dir, name), then) in target.changed_places() {
            // The names of one directory are consecutive.
            let shows = match last {
                Some((of, shows)) if of == dir => shows,
                _ => target.path(dir).is_some_and(|path| !in_trash(&path)),
            };
            last = Some((dir, shows));
            if shows && target.disk().lookup_id(dir, name)? != then {
                count += 1;
            }
        }
        Ok(count)
    }

    /// Changes the names to those of the target, as far as possible.
    pub(super) fn run(&mut self, skipped: &mut SkippedSteps) -> Result<()> {
        let mut changes = Vec::new();
        for ((dir, name_id), then) in self.target.changed_places() {
            let now = self.target.disk().lookup_id(dir, name_id)?;
            if now != then {
                let slot = (dir, self.target.disk().text(name_id));
                changes.push(PlannedMove { slot, now, then });
            }
        }
        for change in &changes {
            if let Some(node) = change.now {
                let slot = change.slot.clone();
                self.leaving.entry(node).or_default().push(slot);
            }
        }
        // An undo does not decide where in the trash an entry lies.
        changes.retain(|change| change.slot.0 != self.trash);
        let mut fills = Vec::new();
        for change in &changes {
            if let Some(node) = change.then
                && let Some(dir) = self.place_of(change.slot.0)
            {
                *self.wanted.entry(node).or_default() += 1;
                fills.push((dir.components().count(), dir, &change.slot, node));
            }
        }
        fills.sort_by(|one, two| (one.0, &one.1, &one.2.1).cmp(&(two.0, &two.1, &two.2.1)));
        for (_, dir, slot, node) in fills {
            let path = dir.join(Name::new(&slot.1)?);
            let filled = self.fill_place(slot, node);
            skipped.value_or_note(path, filled)?;
        }
        for change in &changes {
            let Some(dir) = self.place_of(change.slot.0) else {
                continue;
            };
            if change.then.is_none() && self.here.lookup(change.slot.0, &change.slot.1)?.is_some() {
                let path = dir.join(Name::new(&change.slot.1)?);
                let discarded = self.discard(&change.slot);
                skipped.value_or_note(path, discarded)?;
            }
        }
        Ok(())
    }

    /// Returns the place where a directory belongs; `None` in the trash.
    fn place_of(&self, dir: NodeId) -> Option<WorldPath> {
        self.target.path(dir).filter(|path| !in_trash(path))
    }

    fn fill_place(&mut self, slot: &DirSlot, node: NodeId) -> Result<()> {
        if let Some(left) = self.wanted.get_mut(&node) {
            *left = left.saturating_sub(1);
        }
        let stands = self.here.lookup(slot.0, &slot.1)?;
        if stands == Some(node) {
            return Ok(());
        }
        let source = self
            .name_to_leave(node)?
            .ok_or_else(|| gone_error(&slot.1))?;
        let Some(other) = stands else {
            return self.rename(&source, slot, node, RenameMode::NoReplace);
        };
        let has_place = self.wanted.get(&other).is_some_and(|left| *left > 0);
        let visible = self.path(&source)?;
        let place = self.path(slot)?;
        let nested = visible.contains(&place) || place.contains(&visible);
        // At the other place, a symlink might lead out of the home; in the trash that does no harm.
        let is_link = self.here.kind(other) == FileType::Symlink;
        if has_place && !nested && !is_link && !in_trash(&visible) {
            self.rename(&source, slot, node, RenameMode::Exchange)?;
            self.here.set_name(source.0, &source.1, Some(other));
            self.relocate(other, slot, source);
            return Ok(());
        }
        self.discard(slot)?;
        let moved = self.rename(&source, slot, node, RenameMode::NoReplace);
        if moved.is_err()
            && let Some(lies) = self.name_to_leave(other)?
        {
            // The former occupant is better than an empty name.
            let _ = self.rename(&lies, slot, other, RenameMode::NoReplace);
        }
        moved
    }

    /// Returns a name that a node has to leave.
    fn name_to_leave(&mut self, node: NodeId) -> Result<Option<DirSlot>> {
        while let Some(slot) = self.leaving.get_mut(&node).and_then(Vec::pop) {
            if self.here.lookup(slot.0, &slot.1)? == Some(node) {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    fn relocate(&mut self, node: NodeId, from: &DirSlot, to: DirSlot) {
        let leaving = self.leaving.entry(node).or_default();
        leaving.retain(|slot| slot != from);
        // It may have reached its place; in the trash no place is required.
        if to.0 == self.trash || self.target.lookup(to.0, &to.1).ok().flatten() != Some(node) {
            leaving.push(to);
        }
    }

    fn rename(
        &mut self,
        from: &DirSlot,
        to: &DirSlot,
        node: NodeId,
        how: RenameMode,
    ) -> Result<()> {
        let (dir, new_dir) = (self.dir(from.0)?, self.dir(to.0)?);
        let (name, new_name) = (Name::new(&from.1)?, Name::new(&to.1)?);
        self.verify(&dir, name, node)?;
        self.note_time(from.0, &dir)?;
        self.note_time(to.0, &new_dir)?;
        self.backend
            .rename((&dir, name), (&new_dir, new_name), how, self.caller)?;
        self.here.set_name(from.0, &from.1, None);
        self.here.set_name(to.0, &to.1, Some(node));
        self.forget_open_dirs(node);
        self.done += 1;
        if how == RenameMode::Exchange {
            self.open.clear();
        }
        Ok(())
    }

    fn discard(&mut self, slot: &DirSlot) -> Result<()> {
        let dir = self.dir(slot.0)?;
        let name = Name::new(&slot.1)?;
        let stands = self.here.lookup(slot.0, &slot.1)?;
        let node = stands.ok_or_else(|| gone_error(&slot.1))?;
        self.verify(&dir, name, node)?;
        self.note_time(slot.0, &dir)?;
        let RemovedNode { entry, .. } = self.backend.discard(&dir, name, self.caller)?;
        self.here.set_name(slot.0, &slot.1, None);
        let lies = (self.trash, entry.bytes().into());
        self.here.set_name(lies.0, entry.bytes(), Some(node));
        self.relocate(node, slot, lies);
        self.forget_open_dirs(node);
        self.done += 1;
        Ok(())
    }

    /// Notes the time of a directory before its first change.
    fn note_time(&mut self, node: NodeId, dir: &Dir) -> Result<()> {
        if let Entry::Vacant(unknown) = self.times.entry(node) {
            let Time { sec, nsec } = root::stat_fd(dir.as_fd())?.mtime;
            unknown.insert((sec, nsec));
        }
        Ok(())
    }

    /// Checks that an entry is still the node that the plan was made for.
    fn verify(&self, dir: &Dir, name: Name<'_>, node: NodeId) -> Result<()> {
        let expected = self.here.disk().ids(node).map(|ids| Id(ids[0], ids[1]));
        match dir.stat(name) {
            Ok(meta) if Some(meta.id) == expected => Ok(()),
            Ok(_) | Err(Error::NotFound) => Err(changed_error(name.bytes())),
            Err(error) => Err(error),
        }
    }

    /// Drops the open directories after a directory has moved: their paths may be wrong.
    fn forget_open_dirs(&mut self, node: NodeId) {
        if self.here.kind(node) == FileType::Directory {
            self.open.clear();
        }
    }

    fn path(&self, slot: &DirSlot) -> Result<WorldPath> {
        let dir = self.here.path(slot.0).ok_or_else(|| gone_error(&slot.1))?;
        Ok(dir.join(Name::new(&slot.1)?))
    }

    fn dir(&mut self, node: NodeId) -> Result<Rc<Dir>> {
        if let Some(dir) = self.open.get(&node) {
            return Ok(dir.clone());
        }
        let path = self.here.path(node).ok_or(Error::NotFound)?;
        let ids = self.here.disk().ids(node).ok_or(Error::NotFound)?;
        let root = self.backend.world().root();
        let dir = Rc::new(root.dir_expecting(&path, Id(ids[0], ids[1]))?);
        if self.open.len() >= MAX_OPEN_DIRS {
            self.open.clear();
        }
        self.open.insert(node, dir.clone());
        Ok(dir)
    }
}

/// Returns the error for an entry that is not the node that the plan was made for.
pub(super) fn changed_error(name: &[u8]) -> Error {
    Error::Conflict {
        what: format!("{} changed while it was being undone", escape(name)),
        remedy: "Undo again: what was done already is known.".to_owned(),
    }
}

fn gone_error(name: &[u8]) -> Error {
    Error::Conflict {
        what: format!(
            "{} is not where it was when the undo was planned",
            escape(name)
        ),
        remedy: "Undo again: what was done already is known.".to_owned(),
    }
}
