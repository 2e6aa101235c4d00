//! The steps of a plan: names, then contents, then attributes, and finally the times of directories.
//!
//! Each step goes through the world, is recorded as part of the undo, and loses nothing. Where one fails, the others
//! are still done, and the result lists it (`undo_outcome.rs`); repeating the undo, or a redo, is then safe. A node is
//! looked up where it is, not where it should be, since its name may be the part that could not be restored. And it
//! must be the node that was planned for.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::change_backend::ChangeBackend;
use super::moves::NodeMover;
use super::plan_checks::{is_free, name_beside};
use super::planner::UndoPlan;
use super::undo_outcome::UndoOutcome;
use crate::error::{Error, Result};
use crate::journal::FileTime;
use crate::name::{Name, WorldPath, escape};
use crate::operator::Store;
use crate::operator::past::tree::layer::{ContentLayer, LayerKind};
use crate::operator::past::tree::past_tree::NodeOverlay;
use crate::operator::past::{NodeId, PastContent, PastTree};
use crate::world::holes::is_reserved_beyond_end;
use crate::world::keep::replace::NewContent;
use crate::world::view::in_trash;
use crate::world::{
    Caller, Id, LocatedNode, NoOpenState, SetAttrs, SetTime, Time, World, check_set_gid,
};

/// Carries out the steps of a plan, without a record of its own.
///
/// # Errors
/// An error that every further step would meet; the result has the path.
pub(super) fn run_steps(
    plan: &UndoPlan<'_>,
    backend: &dyn ChangeBackend,
    caller: Caller,
    outcome: &mut UndoOutcome,
) -> Result<()> {
    let mut mover = NodeMover::new(&plan.target, backend, caller)?;
    let moved = mover.run(&mut outcome.skipped);
    outcome.moves = mover.done;
    moved?;
    let mut steps = UndoStepRunner {
        here: &mover.here,
        times: mover.times,
        modes: HashMap::new(),
        backend,
        caller,
        store: Store::of(backend.world())?,
        outcome,
        renewed: HashMap::new(),
    };
    steps.run(plan)
}

/// Carries out the steps of a plan.
struct UndoStepRunner<'s, 'a> {
    /// The current names.
    here: &'s PastTree<'a>,
    /// The times, before the undo, of the directories whose names it changed, and of the files it wrote to.
    times: HashMap<NodeId, FileTime>,
    /// The permission bits, before the undo, of the files it wrote to: a write drops set-user-id and set-group-id.
    modes: HashMap<NodeId, u32>,
    backend: &'s dyn ChangeBackend,
    caller: Caller,
    store: Store,
    outcome: &'s mut UndoOutcome,
    /// New inodes of nodes whose inode was replaced.
    renewed: HashMap<NodeId, Id>,
}

impl UndoStepRunner<'_, '_> {
    fn run(&mut self, plan: &UndoPlan<'_>) -> Result<()> {
        let mut changed: Vec<NodeId> = Vec::new();
        for (node, then) in plan.target.changed_nodes() {
            // Nothing in the trash is changed.
            let shown = plan.target.path(node).is_some_and(|path| !in_trash(&path));
            let Some(path) = self.path_of(node).filter(|_| shown) else {
                continue;
            };
            if let Some(layer) = &then.content {
                let put = self.put_content_at(node, &path, layer);
                let put = self.outcome.skipped.value_or_note(&path, put)?;
                self.outcome.contents += u64::from(put == Some(true));
            }
            changed.push(node);
        }
        for (node, content, seq) in &plan.beside {
            if let Some(path) = self.path_of(*node) {
                let put = self.put_beside(*node, &path, content.as_ref(), *seq);
                self.outcome.skipped.value_or_note(&path, put)?;
            }
        }
        // Changes in a directory set its time, so directories come last; and a directory that gets a mode which closes
        // it comes after those in it.
        let is_dir = |node: NodeId| plan.target.kind(node) == FileType::Directory;
        let depth = |node| {
            self.path_of(node)
                .map_or(0, |path| path.components().count())
        };
        changed.extend(self.times.keys());
        changed.sort_by_cached_key(|node| (is_dir(*node), Reverse(depth(*node)), *node));
        changed.dedup();
        for node in changed {
            let (then, Some(path)) = (plan.target.difference(node), self.path_of(node)) else {
                continue;
            };
            let located = self.open_planned(node, &path);
            if let Some(located) = self.outcome.skipped.value_or_note(&path, located)? {
                let then = self.with_own_changes(node, then);
                self.put_attributes(&path, &located, &then)?;
            }
        }
        Ok(())
    }

    /// Adds the time and the mode that the undo itself has changed. Where the plan has none, a later operation set
    /// them, and they stay as that operation left them: an undo that left its own time would undo that time when
    /// repeated.
    fn with_own_changes<'t>(
        &self,
        node: NodeId,
        then: Option<&'t NodeOverlay>,
    ) -> Cow<'t, NodeOverlay> {
        let mut then = then.map_or_else(Cow::default, Cow::Borrowed);
        if let (None, Some(time)) = (then.mtime, self.times.get(&node)) {
            then.to_mut().mtime = Some(*time);
        }
        if let (None, Some(mode)) = (then.mode, self.modes.get(&node)) {
            then.to_mut().mode = Some(*mode);
        }
        then
    }

    /// Returns the current path of a node; `None` in the trash.
    fn path_of(&self, node: NodeId) -> Option<WorldPath> {
        self.here.path(node).filter(|path| !in_trash(path))
    }

    fn put_content_at(
        &mut self,
        node: NodeId,
        path: &WorldPath,
        layer: &Arc<ContentLayer>,
    ) -> Result<bool> {
        let located = self.open_planned(node, path)?;
        self.expect_as_planned(node, &located)?;
        // Where only the length differs, truncating is enough and costs nothing.
        let mut at = Some(layer);
        let mut only_shorter = true;
        while let Some(one) = at {
            only_shorter &= one.kind == LayerKind::Same;
            at = one.below.as_ref();
        }
        let now = located.node.meta().size;
        self.note_time(node, &located);
        let mode = located.node.meta().permissions();
        self.modes.entry(node).or_insert(mode);
        let put = match layer.size().filter(|_| only_shorter) {
            Some(size) if size == now && !self.is_reserved_beyond_end(&located) => {
                return Ok(false);
            }
            Some(size) if size <= now => {
                let change = SetAttrs {
                    size: Some(size),
                    ..SetAttrs::default()
                };
                self.backend.set_attr(&located, change, self.caller)?
            }
            _ => {
                let content = self.open_content(&located, Some(layer))?;
                self.backend
                    .put_content(&located, &FormerBytes(&content), self.caller)?
            }
        };
        self.renewed.insert(node, put.id);
        Ok(true)
    }

    /// Returns whether truncating to its own size would free space of a file.
    fn is_reserved_beyond_end(&self, located: &LocatedNode) -> bool {
        let root = self.backend.world().root();
        let file = root.reopen(&located.node, OFlags::RDONLY);
        file.is_ok_and(|file| is_reserved_beyond_end(file.as_fd()))
    }

    /// Notes a time before the undo's first change of it.
    fn note_time(&mut self, node: NodeId, located: &LocatedNode) {
        let Time { sec, nsec } = located.node.meta().mtime;
        self.times.entry(node).or_insert((sec, nsec));
    }

    /// Creates a file with a former content beside the current one.
    fn put_beside(
        &mut self,
        node: NodeId,
        path: &WorldPath,
        layer: Option<&Arc<ContentLayer>>,
        seq: u64,
    ) -> Result<()> {
        let world = self.backend.world();
        let located = self.open_planned(node, path)?;
        let content = self.open_content(&located, layer)?;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::NotFound);
        };
        let dir = world.root().dir(&parent)?;
        if let Some((dir, _)) = self.here.slot(node) {
            self.note_time(dir, &self.open_planned(dir, &parent)?);
        }
        let name = name_beside(name.bytes(), seq, |beside| is_free(&dir, beside))?;
        let name = Name::new(&name)?;
        let mode = located.node.meta().permissions();
        let flags = OFlags::RDWR | OFlags::EXCL;
        let made = world.create(&dir, name, flags, mode, &NoOpenState, self.caller)?;
        self.outcome.contents += 1;
        content.copy_to(made.file.as_fd())?;
        world.note_left(&made.file);
        self.backend.note_new_entry(&dir, name);
        Ok(())
    }

    fn open_content(
        &self,
        located: &LocatedNode,
        layer: Option<&Arc<ContentLayer>>,
    ) -> Result<PastContent> {
        let open = || {
            Ok(self
                .backend
                .world()
                .root()
                .open_to_read(&located.node)?
                .into())
        };
        PastContent::open(&self.store, layer, open)
    }

    fn put_attributes(
        &mut self,
        path: &WorldPath,
        located: &LocatedNode,
        then: &NodeOverlay,
    ) -> Result<()> {
        let before = self.outcome.attributes;
        let parts = attribute_changes(located, then);
        let mut all = vec![
            parts
                .into_iter()
                .fold(SetAttrs::default(), merged_attributes),
        ];
        all.retain(|change| *change != SetAttrs::default());
        while let Some(change) = all.pop() {
            let set = self.backend.set_attr(located, change, self.caller);
            if set.is_err() && !parts.contains(&change) {
                // Where one is refused, the others are still set.
                all.extend(parts.into_iter().rev());
                all.retain(|change| *change != SetAttrs::default());
            } else if let Some(now) = self.outcome.skipped.value_or_note(path, set)? {
                self.outcome.attributes = before + 1;
                if let Err(error) = check_set_gid(&change, &now) {
                    self.outcome.skipped.note(path, &error);
                }
            }
        }
        // After the owner, since changing it drops a capability.
        if then.xattrs.is_empty() {
            return Ok(());
        }
        let now = crate::world::xattrs(located.node.as_fd());
        let Some(now) = self.outcome.skipped.value_or_note(path, now)? else {
            return Ok(());
        };
        let other = |(name, value): &(&Vec<u8>, &Option<Vec<u8>>)| now.get(*name) != value.as_ref();
        // Attributes to remove come first, to make room for the others.
        let mut others: Vec<_> = then.xattrs.iter().filter(other).collect();
        others.sort_by_key(|(_, value)| value.is_some());
        for (name, value) in others {
            let named = format!("{path}: attribute {}", escape(name));
            let name_id = (name.as_slice(), value.as_deref());
            match put_xattr_if_allowed(self.backend.world(), located, name_id, self.caller) {
                Ok(put) => {
                    self.outcome.attributes =
                        before + u64::from(put || self.outcome.attributes > before)
                }
                // The space for one file's attributes is limited even on a disk that is not full.
                Err(error) => self.outcome.skipped.note(named, &error),
            }
        }
        Ok(())
    }

    /// Checks that nobody has written to a file since the plan was made.
    ///
    /// # Errors
    /// [`Error::Conflict`] where somebody has.
    fn expect_as_planned(&self, node: NodeId, located: &LocatedNode) -> Result<()> {
        let (planned, now) = (self.here.disk().stat(node), located.node.meta());
        match planned {
            Ok(planned) if (planned.size, planned.mtime) != (now.size, now.mtime) => {
                Err(Error::Conflict {
                    what: "it was written to just now".to_owned(),
                    remedy: "Try again.".to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Opens a node, verifying that it is the one that was planned for.
    fn open_planned(&self, node: NodeId, path: &WorldPath) -> Result<LocatedNode> {
        let known = self.here.disk().ids(node).map(|ids| Id(ids[0], ids[1]));
        let id = self.renewed.get(&node).copied().or(known);
        let id = id.ok_or(Error::NotFound)?;
        let world = self.backend.world();
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Ok(LocatedNode {
                node: world.root().node_expecting(path, id)?,
                path: path.clone(),
                removed: false,
            });
        };
        let located = world.locate_for(&world.root().dir(&parent)?, name, self.caller)?;
        if located.node.meta().id == id {
            Ok(located)
        } else {
            Err(super::moves::changed_error(name.bytes()))
        }
    }
}

fn merged_attributes(one: SetAttrs, other: SetAttrs) -> SetAttrs {
    SetAttrs {
        mode: one.mode.or(other.mode),
        uid: one.uid.or(other.uid),
        gid: one.gid.or(other.gid),
        mtime: match one.mtime {
            SetTime::Keep => other.mtime,
            time => time,
        },
        ..SetAttrs::default()
    }
}

/// Returns the attributes to set: owner, mode and time separately.
fn attribute_changes(located: &LocatedNode, then: &NodeOverlay) -> [SetAttrs; 3] {
    let meta = located.node.meta();
    let mode = then.mode.unwrap_or(meta.permissions());
    let uid = then.uid.filter(|uid| *uid != meta.uid);
    let gid = then.gid.filter(|gid| *gid != meta.gid);
    let moved = uid.is_some() || gid.is_some();
    let mtime = then
        .mtime
        .filter(|(sec, nsec)| (*sec, *nsec) != (meta.mtime.sec, meta.mtime.nsec));
    let owner = SetAttrs {
        uid,
        gid,
        ..SetAttrs::default()
    };
    let mode = SetAttrs {
        // Changing the owner clears set-id bits.
        mode: (mode != meta.permissions() || moved && mode & 0o6000 != 0).then_some(mode),
        ..SetAttrs::default()
    };
    let time = SetAttrs {
        mtime: mtime.map_or(SetTime::Keep, |(sec, nsec)| SetTime::To(Time { sec, nsec })),
        ..SetAttrs::default()
    };
    [owner, mode, time]
}

/// The bytes of a former content, for a present file.
pub(in crate::operator) struct FormerBytes<'c>(pub(in crate::operator) &'c PastContent);

impl NewContent for FormerBytes<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()> {
        self.0.copy_to(file)
    }
}

/// Restores an extended attribute; `false` for a system attribute that only a daemon run by root can set.
///
/// # Errors
/// As [`World::put_xattr`].
pub fn put_xattr_if_allowed(
    world: &World,
    located: &LocatedNode,
    (name, value): (&[u8], Option<&[u8]>),
    caller: Caller,
) -> Result<bool> {
    match world.put_xattr(located, name, value, caller) {
        Err(error)
            if !name.starts_with(b"user.")
                && matches!(
                    error.errno(),
                    Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP
                ) =>
        {
            log::warn!(
                "{}: the attribute {} could not be put back: {error}",
                located.path,
                escape(name)
            );
            Ok(false)
        }
        put => put.map(|()| true),
    }
}
