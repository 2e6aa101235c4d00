//! Restores a file or a tree as it was at a point: a copy of the past, made through the world.
//!
//! A node at the destination goes to the trash as one entry; a file that replaces a file gets the old content instead,
//! so that the current one becomes a version. Nothing else in the store changes, so a restore never conflicts with
//! later changes. Where everything is as it was, nothing is done and nothing recorded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::change_backend::ChangeBackend;
use super::copier::PastCopier;
use super::node_equality::is_same;
use super::plan_checks::{is_free, name_beside};
use super::steps::FormerBytes;
use crate::error::{Error, FailureKind, Result};
use crate::journal::{Op, UndoId};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::operator::Store;
use crate::operator::closed_nodes::retry_with_opened_nodes;
use crate::operator::past::{NodeId, Past, PastTree, RecordEffect, RecordId};
use crate::operator::point::{Operation, Point};
use crate::world::view::in_trash;
use crate::world::{CAPABILITY, Caller, Dir, RenameMode};

/// A request to restore a path.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct RestoreRequest {
    /// The path at that point.
    pub path: WorldPath,
    /// The point; before the last change where absent.
    pub at: Option<Point>,
    /// The destination; the path itself where absent.
    pub to: Option<WorldPath>,
    /// True for a plan only.
    pub dry_run: bool,
}

/// The result of a restore.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct RestoreReport {
    /// True if the restore was only planned.
    pub dry_run: bool,
    /// The requested path.
    pub path: WorldPath,
    /// The point that was used.
    pub at: String,
    /// The destination.
    pub to: WorldPath,
    /// True if the destination is already the same, so that nothing is done.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub same: bool,
    /// Its record; `None` where nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub record: Option<Operation>,
    /// The number of files and directories that were created, or got a content or attributes.
    pub made: u64,
    /// The entry of the trash that the replaced file became.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaced: Option<String>,
    /// The things that could not be restored, with reasons.
    pub notes: Vec<String>,
    /// The error that stopped it half-way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed: Option<String>,
}

/// Restores a file or a tree. `backend` is `None` for a dry run.
///
/// # Errors
/// [`Error::Missing`] where nothing was there; [`Error::Conflict`] where the destination's directory no longer
/// exists. In these cases nothing was changed.
pub fn restore(
    store: &Store,
    request: &RestoreRequest,
    backend: Option<&dyn ChangeBackend>,
    caller: Caller,
) -> Result<RestoreReport> {
    let Some(world) = backend
        .map(ChangeBackend::world)
        .filter(|_| !request.dry_run)
    else {
        return attempt(store, request, None, caller);
    };
    let was_denied = |tried: &Result<RestoreReport>| tried.as_ref().is_err_and(Error::is_denial);
    let act = || attempt(store, request, backend, caller);
    retry_with_opened_nodes(world, was_denied, act).1
}

fn attempt(
    store: &Store,
    request: &RestoreRequest,
    backend: Option<&dyn ChangeBackend>,
    caller: Caller,
) -> Result<RestoreReport> {
    let mut past = Past::now(store)?;
    let at = match &request.at {
        Some(point) => {
            past.back_to(point)?;
            point.clone()
        }
        None => before_last_change(&mut past, &request.path)?,
    };
    compare_with_home(past.tree_mut(), request, &at)?;
    let tree = past.tree();
    let node = tree.resolve(&request.path)?.ok_or_else(|| Error::Missing {
        what: format!("there was no {} at {at}", request.path),
        remedy: "`trumanfs versions` lists when there was; --at takes a point.".to_owned(),
    })?;
    let to = request.to.clone().unwrap_or_else(|| request.path.clone());
    if to.is_root() || in_trash(&to) {
        return Err(Error::refused(
            format!("{to} cannot be the place to put something"),
            "Say --to PATH, a place in the home; `trumanfs undo --to` takes all of a home back.",
        ));
    }
    let mut restored = RestoreReport {
        dry_run: request.dry_run,
        path: request.path.clone(),
        at: at.to_string(),
        to: to.clone(),
        ..RestoreReport::default()
    };
    let now = PastTree::now(tree.disk().clone());
    if let Some(there) = now.resolve(&to)?
        && is_same(tree, node, &now, there)?
    {
        restored.same = true;
        return Ok(restored);
    }
    let Some(backend) = backend.filter(|_| !request.dry_run) else {
        return Ok(restored);
    };
    let (dir, name) = backend.world().parent(&to).map_err(|error| match error {
        Error::NotFound | Error::NotDirectory => Error::Conflict {
            what: format!("the directory of {to} is not there any more"),
            remedy: "Nothing was changed. Say where it shall go with --to PATH.".to_owned(),
        },
        error => error,
    })?;
    let what = if request.path == to {
        format!("restore {to} as at {at}")
    } else {
        format!("restore {} as at {at} to {to}", request.path)
    };
    let caller = caller.for_undo();
    let begun = backend
        .world()
        .begin_undo_record(what, Vec::new(), false, caller)?;
    restored.record = Some(Operation {
        session: backend.world().session().to_owned(),
        seq: begun.seq(),
    });
    let mut copier = PastCopier::new(tree, backend, caller);
    copier.at = to.clone();
    let failed = place_top(&mut copier, &mut restored, node, (&dir, name)).err();
    restored.made = copier.made;
    let at = copier.at.clone();
    restored.notes.extend(copier.notes());
    if let (Some(error), 0) = (&failed, restored.made)
        && error.kind() != FailureKind::Partly
    {
        begun.abort(error);
        return failed.map_or_else(|| Ok(restored), Err);
    }
    begun.done();
    restored.failed = failed.map(|error| format!("{at}: {}", error.full_message()));
    Ok(restored)
}

/// Compares the files to restore with what the home left. Without a point to restore, what the last change removed is
/// what it found.
fn compare_with_home(tree: &mut PastTree<'_>, request: &RestoreRequest, at: &Point) -> Result<()> {
    let mut files = Vec::new();
    if let Some(node) = tree.resolve(&request.path)? {
        tree.add_files(node, &request.path, &mut files)?;
    }
    files.retain(|(node, _)| request.at.is_some() || !tree.is_recorded(*node));
    tree.compare_with_home(files, at)
}

/// The removals by which `rm -r` emptied a directory before removing it, as far as they are still to come on the way
/// back.
#[derive(Default)]
struct GatheredRemovals {
    /// The entries gathered under each entry of the trash, until the removal that made the latter is reached. Gathering
    /// comes later than that, maybe after changes that have nothing to do with it.
    under: HashMap<EscapedBytes, Vec<EscapedBytes>>,
    awaited: HashSet<EscapedBytes>,
}

impl GatheredRemovals {
    /// Notes a gathering below a path.
    fn note_gathering(&mut self, path: &WorldPath, op: &Op) {
        let Op::Gather {
            path: of,
            trash,
            entries,
            ..
        } = op
        else {
            return;
        };
        if path.contains(of) {
            let entries = entries.iter().cloned();
            self.under.entry(trash.clone()).or_default().extend(entries);
        }
    }

    fn is_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Adds the removals that were gathered for the removal of a directory to the awaited ones.
    fn await_all_of(&mut self, op: &Op) {
        if let Op::Rmdir { trash, .. } = op {
            let gathered = self.under.remove(trash).into_iter().flatten();
            self.awaited.extend(gathered);
        }
    }

    /// Returns whether a record is an awaited removal. It is then no longer awaited, but the removals gathered for it
    /// are.
    fn take_awaited(&mut self, op: &Op) -> bool {
        let is_awaited = match op {
            Op::Unlink { trash, .. } | Op::Rmdir { trash, .. } => self.awaited.remove(trash),
            _ => false,
        };
        if is_awaited {
            self.await_all_of(op);
        }
        is_awaited
    }
}

/// Goes back to before the last record that changed the node now or formerly at a path. The many removals of `rm -r`
/// count as one change, and so does everything that one undo or restore did.
fn before_last_change(past: &mut Past<'_>, path: &WorldPath) -> Result<Point> {
    let mut found: Option<Point> = None;
    let mut gathered = GatheredRemovals::default();
    // The undo that the change was part of, until its first record.
    let mut whole: Option<(Arc<str>, UndoId)> = None;
    // The record just before the one found.
    let mut before: Option<RecordId> = None;
    while let Some((session, record)) = past.back_by_one(|session, seq| {
        let in_whole = |(of, _): &(Arc<str>, UndoId)| **of == *session;
        let is_before = |(of, n): &RecordId| **of == *session && seq == *n;
        found.is_none()
            || gathered.is_awaited()
            || whole.as_ref().is_some_and(in_whole)
            || before.as_ref().is_some_and(is_before)
    })? {
        // The loss of a capability is recorded just before the change that causes it, and belongs to it.
        let before_it = before.take();
        let is_note = before_it == Some((session.clone(), record.seq))
            && matches!(&record.op, Op::Xattr { name, .. } if name.0 == CAPABILITY);
        if before_it.is_some() && !gathered.is_awaited() && !is_note {
            break;
        }
        let point = Point::After(Operation {
            session: session.to_string(),
            seq: record.seq - 1,
        });
        gathered.note_gathering(path, &record.op);
        if found.is_some() && gathered.take_awaited(&record.op) {
            found = Some(point.clone());
        }
        let there = past.tree().resolve(path)?;
        let effects = past.tree_mut().effects(&record, &session)?;
        let changes = |effect: &RecordEffect| match effect {
            RecordEffect::Content { node, .. }
            | RecordEffect::Mode(node, _)
            | RecordEffect::Owner(node, _)
            | RecordEffect::Group(node, _)
            | RecordEffect::Xattr(node, ..) => Some(*node) == there,
            _ => false,
        };
        let mut changed = effects.iter().any(changes);
        for effect in effects {
            // For a directory, the last name changed in it or below it.
            if let RecordEffect::Name { dir, .. } = &effect {
                let below = past.tree().path(*dir);
                changed |= below.is_some_and(|dir| path.contains(&dir));
            }
            past.tree_mut().reverse(effect, (&session, &record));
        }
        let was = past.tree().resolve(path)?;
        if is_note {
            found = Some(point);
        } else if found.is_none() && was.is_some() && (changed || was != there) {
            if there.is_none() {
                gathered.await_all_of(&record.op);
            }
            let undo = record.undo_id();
            whole = undo.map(|undo| (session.clone(), undo));
            before = undo.is_none().then(|| (session, record.seq - 1));
            found = Some(point);
        } else if matches!(record.op, Op::Undo { .. })
            && whole == record.undo_id().map(|undo| (session, undo))
        {
            whole = None;
            found = Some(point);
        }
    }
    found.ok_or_else(|| Error::Missing {
        what: format!("no record changed {path}"),
        remedy: "It is as it was since the store was first mounted, or it never was.".to_owned(),
    })
}

/// Puts the top node in its place, which may be taken.
fn place_top(
    copier: &mut PastCopier<'_, '_, '_>,
    restored: &mut RestoreReport,
    node: NodeId,
    (dir, name): (&Dir, Name<'_>),
) -> Result<()> {
    let (tree, backend, caller) = (copier.tree, copier.backend, copier.caller);
    let world = backend.world();
    match world.lookup(dir, name) {
        Err(Error::NotFound) => {}
        Err(error) => return Err(error),
        Ok(found)
            if found.meta.kind == FileType::RegularFile
                && tree.kind(node) == FileType::RegularFile =>
        {
            let content = copier.open_content(node, dir, name)?;
            // Its attributes are read before its inode moves aside.
            let then = tree.full_attributes(node)?;
            let located = world.locate(dir, name)?;
            backend.put_content(&located, &FormerBytes(&content), caller)?;
            copier.made += 1;
            return copier.copy_attributes(&then, dir, name);
        }
        // The copy is completed before the current file goes: it may be made from that, and it may fail.
        Ok(_) => {
            let seq = restored.record.as_ref().map_or(0, |record| record.seq);
            let beside = name_beside(name.bytes(), seq, |beside| is_free(dir, beside))?;
            let beside = Name::new(&beside)?;
            copier.copy_node(node, dir, beside)?;
            let removed = backend.discard(dir, name, caller)?;
            restored.replaced = Some(crate::name::escape(removed.entry.bytes()));
            let (from, to) = ((dir, beside), (dir, name));
            backend.rename(from, to, RenameMode::NoReplace, caller)?;
            return Ok(());
        }
    }
    copier.copy_node(node, dir, name)
}
