//! Carrying a plan out: names, then contents, then attributes, and last when the directories had changed.
//!
//! Each step goes through the world, is recorded as part of the undo, and loses nothing. Where one fails, the rest is not
//! done and the outcome says so; to undo again, or to redo, is safe then.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::hands::Hands;
use super::moves::Mover;
use super::plan::Plan;
use super::select::Selection;
use super::settle::beside;
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath, escape};
use crate::operator::past::layer::{Kind, Layer};
use crate::operator::past::{Content, NodeId, Tree};
use crate::world::replace::NewContent;
use crate::world::view::in_trash;
use crate::world::{Caller, Change, Held, NoDoor, SetTime, Time, World};

/// What an undo did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The number of its record in the session; absent where there was nothing to do.
    pub record: Option<u64>,
    /// How many things moved.
    pub moves: u64,
    /// How many contents were put back.
    pub contents: u64,
    /// How many things got other attributes.
    pub attributes: u64,
    /// Why it stopped half-way, if it did.
    pub failed: Option<Error>,
}

/// What a plan would do, as numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Extent {
    /// Names that shall change.
    pub names: u64,
    /// Contents that shall be put back.
    pub contents: u64,
    /// Things that shall get other attributes, as far as is known before.
    pub attributes: u64,
}

/// Returns how much a plan would do.
///
/// # Errors
/// What the disk says.
pub fn extent(plan: &Plan<'_>) -> Result<Extent> {
    let names = Mover::count(&plan.target)?;
    let mut extent = Extent {
        names,
        contents: plan.beside.len() as u64,
        ..Extent::default()
    };
    for (node, then) in plan.target.changed_nodes() {
        if place(&plan.target, node).is_none() {
            continue;
        }
        extent.contents += u64::from(then.content.is_some());
        let Ok(now) = plan.target.ground().stat(node) else {
            continue;
        };
        let other = then.mode.is_some_and(|mode| mode != now.permissions())
            || then.uid.is_some_and(|uid| uid != now.uid)
            || then.gid.is_some_and(|gid| gid != now.gid)
            || then
                .mtime
                .is_some_and(|m| m != (now.mtime.sec, now.mtime.nsec))
            || other_xattrs(&plan.target, node)?;
        extent.attributes += u64::from(other);
    }
    Ok(extent)
}

/// Returns whether the extended attributes of a thing shall be others than they are.
fn other_xattrs(target: &Tree<'_>, node: NodeId) -> Result<bool> {
    let Some(then) = target.difference(node).filter(|d| !d.xattrs.is_empty()) else {
        return Ok(false);
    };
    let now = crate::world::xattrs(target.ground().node(node)?.as_fd())?;
    let is_other = |(name, value): (&Vec<u8>, &Option<Vec<u8>>)| now.get(name) != value.as_ref();
    Ok(then.xattrs.iter().any(is_other))
}

/// Carries a plan out, under a record that says what was asked for. A plan of nothing leaves no record.
///
/// # Errors
/// [`Error::Conflict`] where the plan has one that stops it; what writing the first record, or the first change, says. Then
/// nothing was changed. What fails later is in the outcome.
pub fn apply(
    plan: &Plan<'_>,
    selection: &Selection,
    what: &str,
    hands: &dyn Hands,
    caller: Caller,
) -> Result<Outcome> {
    let Extent {
        names,
        contents,
        attributes,
    } = extent(plan)?;
    if names + contents + attributes == 0 {
        return Ok(Outcome::default());
    }
    if !hands.world().view().offers_symlinks() && Mover::needs_links(&plan.target)? {
        return Err(Error::Conflict {
            what: "symbolic links would have to move, and this home hides them".to_owned(),
            remedy: "Nothing was changed. Unmount and undo then, or mount with --symlinks inside."
                .to_owned(),
        });
    }
    let of = selection.named();
    let begun = hands
        .world()
        .note_undo(what.to_owned(), of, selection.redo, caller)?;
    let record = begun.seq();
    let mut outcome = Outcome {
        record: Some(record),
        ..Outcome::default()
    };
    let caller = Caller {
        undo: Some(record),
        ..caller
    };
    let failed = carry_out(plan, hands, caller, &mut outcome).err();
    if outcome.moves + outcome.contents + outcome.attributes == 0 {
        let nothing = Error::refused("nothing had to be changed", "");
        begun.abort(failed.as_ref().unwrap_or(&nothing));
        return failed.map_or_else(|| Ok(Outcome::default()), Err);
    }
    begun.done();
    outcome.failed = failed;
    Ok(outcome)
}

/// Makes the store what the plan says, without a record of its own.
///
/// # Errors
/// What the first step that failed said.
pub(super) fn carry_out(
    plan: &Plan<'_>,
    hands: &dyn Hands,
    caller: Caller,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut mover = Mover::new(&plan.target, hands, caller)?;
    let moved = mover.run();
    outcome.moves = mover.done;
    moved?;
    let mut changed: Vec<NodeId> = Vec::new();
    for (node, then) in plan.target.changed_nodes() {
        let Some(path) = place(&plan.target, node) else {
            continue;
        };
        changed.push(node);
        if let Some(layer) = &then.content {
            outcome.contents += u64::from(put(&path, layer, hands, caller)?);
        }
    }
    for (node, content, seq) in &plan.beside {
        if let Some(path) = place(&plan.target, *node) {
            put_beside(&path, content.as_ref(), *seq, hands, caller, outcome)?;
        }
    }
    // What is done in a directory changes its time, so those come last.
    let is_dir = |node: &NodeId| plan.target.kind(*node) == FileType::Directory;
    changed.sort_by_key(|node| (is_dir(node), *node));
    for node in changed {
        if let Some(path) = place(&plan.target, node) {
            attributes(&path, &plan.target, node, hands, caller, outcome)?;
        }
    }
    Ok(())
}

/// Returns where a thing shall be; `None` in the trash.
fn place(tree: &Tree<'_>, node: NodeId) -> Option<WorldPath> {
    tree.path(node).filter(|path| !in_trash(path))
}

/// A content of the past, for a file that is there now.
pub(super) struct Former<'c>(pub(super) &'c Content);

impl NewContent for Former<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()> {
        self.0.copy_to(file)
    }
}

fn put(path: &WorldPath, layer: &Arc<Layer>, hands: &dyn Hands, caller: Caller) -> Result<bool> {
    let world = hands.world();
    let held = hold(hands, path)?;
    let store = crate::operator::Store::of(world)?;
    // Where only the length differs, cutting is enough, and costs nothing.
    let mut at = Some(layer);
    let mut only_shorter = true;
    while let Some(one) = at {
        only_shorter &= one.kind == Kind::Same;
        at = one.below.as_ref();
    }
    let now = held.node.meta().size;
    if only_shorter && let Some(size) = layer.size() {
        if size == now {
            return Ok(false);
        }
        if size < now {
            let change = Change {
                size: Some(size),
                ..Change::default()
            };
            hands.set_attr(&held, change, caller)?;
            return Ok(true);
        }
    }
    let open = || Ok(world.root().reopen(&held.node, OFlags::RDONLY)?.into());
    let content = Content::open(&store, Some(layer), open)?;
    hands.put_content(&held, &Former(&content), caller)?;
    Ok(true)
}

/// Makes a file beside another, with a former content of it.
fn put_beside(
    path: &WorldPath,
    layer: Option<&Arc<Layer>>,
    seq: u64,
    hands: &dyn Hands,
    caller: Caller,
    outcome: &mut Outcome,
) -> Result<()> {
    let world = hands.world();
    let held = hold(hands, path)?;
    let store = crate::operator::Store::of(world)?;
    let open = || Ok(world.root().reopen(&held.node, OFlags::RDONLY)?.into());
    let content = Content::open(&store, layer, open)?;
    let (dir, name) = world.parent(path)?;
    let name = beside(name.bytes(), seq);
    let name = Name::new(&name)?;
    let mode = held.node.meta().permissions();
    let flags = OFlags::RDWR | OFlags::EXCL;
    let made = world.create(&dir, name, flags, mode, &NoDoor, caller)?;
    outcome.contents += 1;
    content.copy_to(std::os::fd::AsFd::as_fd(&made.file))?;
    hands.made(&dir, name);
    Ok(())
}

fn attributes(
    path: &WorldPath,
    target: &Tree<'_>,
    node: NodeId,
    hands: &dyn Hands,
    caller: Caller,
    outcome: &mut Outcome,
) -> Result<()> {
    let Some(then) = target.difference(node) else {
        return Ok(());
    };
    let held = hold(hands, path)?;
    let meta = held.node.meta();
    let before = outcome.attributes;
    let mode = then.mode.unwrap_or(meta.permissions());
    let uid = then.uid.filter(|uid| *uid != meta.uid);
    let gid = then.gid.filter(|gid| *gid != meta.gid);
    let moved = uid.is_some() || gid.is_some();
    let mtime = then
        .mtime
        .filter(|(sec, nsec)| (*sec, *nsec) != (meta.mtime.sec, meta.mtime.nsec));
    let change = Change {
        // A change of owner takes set-id bits away.
        mode: (mode != meta.permissions() || moved && mode & 0o6000 != 0).then_some(mode),
        uid,
        gid,
        mtime: mtime.map_or(SetTime::Keep, |(sec, nsec)| SetTime::To(Time { sec, nsec })),
        ..Change::default()
    };
    if change != Change::default() {
        hands.set_attr(&held, change, caller)?;
        outcome.attributes = before + 1;
    }
    // After the owner, whose change takes a capability away.
    if !then.xattrs.is_empty() {
        let now = crate::world::xattrs(held.node.as_fd())?;
        for (name, value) in then
            .xattrs
            .iter()
            .filter(|(name, v)| now.get(*name) != v.as_ref())
        {
            if put_label(hands.world(), &held, (name, value.as_deref()), caller)? {
                outcome.attributes = before + 1;
            }
        }
    }
    Ok(())
}

/// Puts an extended attribute back; `false` where it is one of the system's, which only a daemon that is root can set.
///
/// # Errors
/// As [`World::put_xattr`].
pub fn put_label(
    world: &World,
    held: &Held,
    (name, value): (&[u8], Option<&[u8]>),
    caller: Caller,
) -> Result<bool> {
    match world.put_xattr(held, name, value, caller) {
        Err(error)
            if !name.starts_with(b"user.")
                && matches!(
                    error.errno(),
                    Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP
                ) =>
        {
            log::warn!(
                "{}: the attribute {} could not be put back: {error}",
                held.path,
                escape(name)
            );
            Ok(false)
        }
        put => put.map(|()| true),
    }
}

fn hold(hands: &dyn Hands, path: &WorldPath) -> Result<Held> {
    let world = hands.world();
    if path.is_root() {
        let id = world.root().id();
        return Ok(Held {
            node: world.root().node_expecting(path, id)?,
            path: path.clone(),
            removed: false,
        });
    }
    let (dir, name) = world.parent(path)?;
    world.hold(&dir, name)
}
