//! Changes made directly in a store while a run worked in its place, where no wall hides the store from it.
//!
//! Owns how that is told: the files as they were when the run began ([`StoreSnapshot`]) are compared with those at its
//! end, records in between taken back. What differs was changed by somebody of whom no record tells: the run's program,
//! or the owner.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use rustix::fs::FileType;

use super::Store;
use super::past::{DiskTree, NodeId, Past, PastTree, ROOT};
use super::point::{Operation, Point};
use super::review::newest;
use crate::error::{Error, Result};
use crate::journal::{FileTime, InodeNumbers, LeftState, RunId, UnknownWriter};
use crate::name::{Name, WorldPath};
use crate::world::store::layout::{STATE, TRASH};
use crate::world::view::in_trash;
use crate::world::{Meta, World};

/// The attempts to take a snapshot while records are written.
const MAX_ATTEMPTS: usize = 3;

/// The files of a store at a point, without their contents.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct StoreSnapshot {
    /// The newest record then.
    point: Option<Operation>,
    files: Vec<(WorldPath, FileSnapshot)>,
}

/// The states in which an unknown writer left files.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct UnknownWrites(Vec<LeftState>);

impl UnknownWrites {
    /// Returns the paths of the files, sorted.
    pub fn paths(&self) -> Vec<WorldPath> {
        let file = |state: &LeftState| Some(state.by.as_ref()?.file.clone());
        let mut paths: Vec<WorldPath> = self.0.iter().filter_map(file).collect();
        paths.sort();
        paths
    }

    /// Splits them into parts of a size.
    pub fn split(&self, most: usize) -> impl Iterator<Item = UnknownWrites> {
        let parts = self.0.chunks(most.max(1));
        parts.map(|part| UnknownWrites(part.to_vec()))
    }

    /// Records them.
    ///
    /// # Errors
    /// As [`World::note_unknown_writes`].
    pub fn record(self, world: &World) -> Result<()> {
        world.note_unknown_writes(self.0)
    }
}

/// A file at a point: all by which a change of it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct FileSnapshot {
    /// As in a journal: device 0 is the store's own.
    ids: InodeNumbers,
    born: u64,
    size: u64,
    mtime: FileTime,
    ctime: FileTime,
}

impl FileSnapshot {
    fn of(store: &Store, ids: InodeNumbers, meta: &Meta) -> FileSnapshot {
        FileSnapshot {
            ids: in_store(store, ids),
            born: meta.born,
            size: meta.size,
            mtime: (meta.mtime.sec, meta.mtime.nsec),
            ctime: (meta.ctime.sec, meta.ctime.nsec),
        }
    }
}

impl StoreSnapshot {
    /// Takes a snapshot of a store.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn of(store: &Store) -> Result<StoreSnapshot> {
        let mut attempts = 0;
        loop {
            let point = newest(store)?;
            let mut files = Vec::new();
            let tree = PastTree::now(Rc::new(DiskTree::new(store)));
            each_file(&tree, |path, node| {
                if let (Some(ids), Ok(meta)) = (tree.ids(node), tree.disk().stat(node)) {
                    files.push((path, FileSnapshot::of(store, ids, &meta)));
                }
                Ok(())
            })?;
            attempts += 1;
            if attempts == MAX_ATTEMPTS || newest(store)? == point {
                return Ok(StoreSnapshot { point, files });
            }
        }
    }

    /// Returns the states of the files that were changed, made or removed since, without a record.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn unrecorded_changes(&self, store: &Store, during: RunId) -> Result<UnknownWrites> {
        let point = self
            .point
            .clone()
            .unwrap_or_else(|| Operation::start_of(""));
        let mut past = Past::now(store)?;
        let mut recorded = HashSet::new();
        past.back_noting(&Point::After(point), |_, _, effect| {
            recorded.extend(effect.nodes());
        })?;
        let then = past.into_tree();
        // Those that are left were made by records.
        let mut recorded_later = recorded.clone();
        let mut was: BTreeMap<&WorldPath, &FileSnapshot> =
            self.files.iter().map(|(path, file)| (path, file)).collect();
        let mut found = Vec::new();
        each_file(&then, |path, node| {
            recorded_later.remove(&node);
            let was = was.remove(&path);
            let disk = then.disk();
            // What is gone went by a record.
            let (Some(ids), Ok(meta)) = (disk.ids(node), disk.stat(node)) else {
                return Ok(());
            };
            let is = FileSnapshot::of(store, ids, &meta);
            let is_changed = match was {
                _ if then.is_changed_outside(node) => true,
                None => true,
                Some(was) if !recorded.contains(&node) => *was != is,
                Some(was) => !is_as_then(store, (&then, node), was)?,
            };
            if is_changed {
                let file = disk.path(node).unwrap_or(path);
                found.push(state(file, Some(is), during));
            }
            Ok(())
        })?;
        for node in recorded_later {
            let disk = then.disk();
            let file = disk.path(node).filter(|path| !in_trash(path));
            if let (Some(file), Some(ids), Ok(meta)) = (file, disk.ids(node), disk.stat(node))
                && then.is_changed_outside(node)
            {
                let is = FileSnapshot::of(store, ids, &meta);
                found.push(state(file, Some(is), during));
            }
        }
        let gone = was.keys().map(|path| state((*path).clone(), None, during));
        found.extend(gone);
        Ok(UnknownWrites(found))
    }
}

/// Returns whether a file that records have changed is, with these taken back, as it was: its size and time before the
/// first of them.
fn is_as_then(
    store: &Store,
    (then, node): (&PastTree<'_>, NodeId),
    was: &FileSnapshot,
) -> Result<bool> {
    match then.meta(node) {
        Ok(meta) => {
            let is_same = (meta.size, meta.mtime) == (was.size, was.mtime);
            let ids = then.ids(node).map(|ids| in_store(store, ids));
            Ok(is_same && ids.is_none_or(|ids| ids == was.ids))
        }
        Err(Error::Missing { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

fn in_store(store: &Store, [device, inode]: InodeNumbers) -> InodeNumbers {
    match device == store.root().id().0 {
        true => [0, inode],
        false => [device, inode],
    }
}

fn state(file: WorldPath, is: Option<FileSnapshot>, during: RunId) -> LeftState {
    let by = UnknownWriter {
        during,
        file,
        gone: is.is_none(),
    };
    let is = is.unwrap_or(FileSnapshot {
        ids: [0, 0],
        born: 0,
        size: 0,
        mtime: (0, 0),
        ctime: (0, 0),
    });
    LeftState {
        session: None,
        seq: 0,
        ids: is.ids,
        born: is.born,
        size: is.size,
        mtime: is.mtime,
        mode: None,
        ctime: is.ctime,
        made: false,
        mapped: false,
        sha256: None,
        n: None,
        entries: None,
        by: Some(Box::new(by)),
    }
}

/// Calls a function with each thing in a tree that is no directory, but for what is in the store's own directories.
fn each_file(
    tree: &PastTree<'_>,
    mut see: impl FnMut(WorldPath, NodeId) -> Result<()>,
) -> Result<()> {
    let mut waiting = vec![(ROOT, WorldPath::root())];
    while let Some((dir, path)) = waiting.pop() {
        let children = match tree.children(dir) {
            Err(Error::NotFound | Error::Missing { .. }) => continue,
            // Its owner has closed it, and whoever could not open it could not change it.
            Err(error) if error.is_denial() => continue,
            children => children?,
        };
        for (name, node) in children {
            if path.is_root() && (*name == *TRASH || *name == *STATE) {
                continue;
            }
            let inner = path.join(Name::new(&name)?);
            if tree.kind(node) == FileType::Directory {
                waiting.push((node, inner));
            } else {
                see(inner, node)?;
            }
        }
    }
    Ok(())
}
