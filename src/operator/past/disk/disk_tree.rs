//! The store's tree on the disk now, read on demand: the base of every tree of the past.
//!
//! Owns the identity of nodes: a [`NodeId`] is one file or directory under all its names, and stays the same where
//! another inode takes its place. `.trash` is an ordinary directory here; `.trumanfs` does not exist. A name costs at
//! most one `statx`, at its first lookup (`listing.rs`); a directory is listed in full only on request. Nothing here
//! changes the store.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::InodeNumbers;
use crate::name::{Name, WorldPath};
use crate::operator::Store;
use crate::operator::past::disk::compact_inode::CompactInode;
use crate::operator::past::disk::interner::{NameId, NameInterner};
use crate::operator::past::disk::node_id::{DirSlot, NameSlot, NodeId, ROOT};
use crate::operator::past::disk::node_index::NodeIndex;
use crate::operator::past::tree::layer::LayerKind;
use crate::world::store::outage;
use crate::world::{Dir, Id, Meta, Node, root};

/// The number of nodes whose attributes are cached.
const MAX_CACHED_STATS: usize = 4096;

/// The number of directories that are kept open.
const MAX_OPEN_DIRS: usize = 64;

/// The tree on the disk.
#[derive(Debug)]
pub struct DiskTree<'a> {
    store: &'a Store,
    pub(super) index: RefCell<NodeIndex>,
    /// The time from which on contents are in doubt, by session looked up so far.
    doubtful: RefCell<HashMap<Arc<str>, Option<String>>>,
}

impl<'a> DiskTree<'a> {
    /// Makes a tree that knows only the root.
    pub fn new(store: &'a Store) -> DiskTree<'a> {
        let id = store.root().id();
        let mut index = NodeIndex::default();
        let inode = index.devices.inode([id.0, id.1]);
        index.push_known(inode, FileType::Directory, None);
        DiskTree {
            store,
            index: RefCell::new(index),
            doubtful: RefCell::default(),
        }
    }

    /// Returns whether the content that a record keeps may not have reached the disk before a power cut. Blocks are
    /// kept long after their record, for as long as their file is open.
    pub(in crate::operator::past) fn is_doubtful(
        &self,
        session: &Arc<str>,
        time: &str,
        kind: &LayerKind,
    ) -> bool {
        let mut known = self.doubtful.borrow_mut();
        let since = known.entry(session.clone()).or_insert_with(|| {
            let last = self.store.holder().ok().flatten();
            outage::doubtful_since(self.store.state().as_fd(), session, last.as_ref())
        });
        let since = since.as_deref();
        since.is_some_and(|since| matches!(kind, LayerKind::Ranges(..)) || time >= since)
    }

    /// Returns the store.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Returns the id of a name.
    pub(in crate::operator) fn name_id(&self, name: &[u8]) -> NameId {
        self.index.borrow_mut().interner.name_id(name)
    }

    /// Borrows the interner. While the borrow lasts, nothing new can be looked up.
    pub(in crate::operator) fn texts(&self) -> Ref<'_, NameInterner> {
        Ref::map(self.index.borrow(), |index| &index.interner)
    }

    /// Returns the name with an id.
    pub(in crate::operator) fn text(&self, name_id: NameId) -> Box<[u8]> {
        self.index.borrow().interner.text(name_id).into()
    }

    /// Appends a name to a path.
    pub(in crate::operator) fn push(&self, path: &mut WorldPath, name_id: NameId) -> Option<()> {
        path.push(Name::new(self.index.borrow().interner.text(name_id)).ok()?);
        Some(())
    }

    /// Looks a name up in a directory as it is now.
    ///
    /// # Errors
    /// Those of opening the directory and of `statx(2)`.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        self.lookup_id(dir, self.name_id(name))
    }

    /// As [`DiskTree::lookup`], by name id.
    ///
    /// # Errors
    /// As [`DiskTree::lookup`].
    pub(in crate::operator) fn lookup_id(
        &self,
        dir: NodeId,
        name_id: NameId,
    ) -> Result<Option<NodeId>> {
        if let Some(known) = self.index.borrow().known(dir, name_id) {
            return Ok(known);
        }
        let opened = self.dir(dir)?;
        let listed = self.listed_entry(dir, &opened, name_id)?;
        let texts = self.texts();
        let name = Name::new(texts.text(name_id))?;
        let found = match listed {
            Some(found) => found,
            None => match opened.stat(name) {
                Ok(meta) => Some(([meta.id.0, meta.id.1], meta.kind)),
                Err(Error::NotFound | Error::NotDirectory) => None,
                Err(error) => return Err(error),
            },
        };
        drop(texts);
        let mut index = self.index.borrow_mut();
        let node = found.map(|(ids, kind)| index.intern(ids, kind, (dir, name_id)));
        let entries = index.entries.entry(dir).or_default();
        entries.known.insert(name_id, node);
        Ok(node)
    }

    /// Returns the names in a directory now.
    ///
    /// # Errors
    /// Those of opening the directory and of `getdents64(2)`.
    pub fn names(&self, dir: NodeId) -> Result<BTreeSet<Box<[u8]>>> {
        let name_ids = self.name_ids(dir)?;
        let texts = self.texts();
        Ok(name_ids.map(|name_id| texts.text(name_id).into()).collect())
    }

    /// As [`DiskTree::names`], as ids and unsorted.
    ///
    /// # Errors
    /// As [`DiskTree::names`].
    pub(in crate::operator::past) fn name_ids(
        &self,
        dir: NodeId,
    ) -> Result<impl Iterator<Item = NameId> + use<>> {
        self.list(dir)?;
        let index = self.index.borrow();
        let known = index.entries.get(&dir).into_iter();
        let known = known.flat_map(|entries| &entries.known);
        let there = known.filter(|(_, node)| node.is_some());
        let name_ids: Vec<NameId> = there.map(|(name_id, _)| *name_id).collect();
        Ok(name_ids.into_iter())
    }

    /// Lists a directory, once: from then on its entries can be found by inode number.
    pub(in crate::operator::past) fn list(&self, dir: NodeId) -> Result<()> {
        if !self.is_on_disk(dir) || self.index.borrow().is_whole(dir) {
            return Ok(());
        }
        let opened = self.dir(dir)?;
        let fd = self.store.root().read_dir(&opened)?;
        let mut index = self.index.borrow_mut();
        let mut note = |bytes: &[u8], kind: FileType, ino: u64| {
            let Ok(name) = Name::new(bytes) else {
                return Ok(()); // `.` and `..`
            };
            let name_id = index.interner.name_id(bytes);
            if index.known(dir, name_id).is_some() {
                return Ok(());
            }
            let (ids, kind) = match kind {
                // Some file systems do not report the type; and a directory may be a mount point, with another inode.
                FileType::Unknown | FileType::Directory => match opened.stat(name) {
                    Ok(meta) => ([meta.id.0, meta.id.1], meta.kind),
                    Err(Error::NotFound) => return Ok(()),
                    Err(error) => return Err(error),
                },
                kind => ([opened.id().0, ino], kind),
            };
            let node = index.intern(ids, kind, (dir, name_id));
            let entries = index.entries.entry(dir).or_default();
            entries.known.insert(name_id, Some(node));
            Ok(())
        };
        for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let (kind, ino) = (entry.file_type(), entry.ino());
            note(entry.file_name().to_bytes(), kind, ino)?;
        }
        if let Some(name) = self.store.root().unlisted_name(&opened) {
            note(name, FileType::Unknown, 0)?;
        }
        index.entries.entry(dir).or_default().whole = true;
        Ok(())
    }

    /// Returns the node of an inode, if it is known already.
    pub fn by_ids(&self, ids: InodeNumbers) -> Option<NodeId> {
        let index = self.index.borrow();
        index.by_inode(index.devices.known(ids)?)
    }

    /// Makes a node for a file that is no longer on the disk.
    pub fn make_lost_node(&self, kind: FileType) -> NodeId {
        self.index.borrow_mut().push_lost(kind)
    }

    /// Returns the compact form of an inode.
    pub(in crate::operator::past) fn inode(&self, ids: InodeNumbers) -> CompactInode {
        self.index.borrow_mut().devices.inode(ids)
    }

    /// Returns the current inode of a node; `None` for a lost one.
    pub fn ids(&self, node: NodeId) -> Option<InodeNumbers> {
        let index = self.index.borrow();
        let inode = index.nodes.get(node.index())?.inode?;
        index.devices.ids(inode)
    }

    /// Returns the file type of a node.
    pub fn kind(&self, node: NodeId) -> FileType {
        let index = self.index.borrow();
        let base = index.nodes.get(node.index());
        base.map_or(FileType::Unknown, |base| base.kind)
    }

    /// Returns one current name of a node.
    pub(in crate::operator::past) fn name_of(&self, node: NodeId) -> Option<NameSlot> {
        let index = self.index.borrow();
        index.nodes.get(node.index()).and_then(|base| base.at)
    }

    /// Returns all known current names of a node.
    pub fn places(&self, node: NodeId) -> Vec<DirSlot> {
        let slot = |(dir, name_id): NameSlot| (dir, self.text(name_id));
        self.every_place(node).map(slot).collect()
    }

    /// As [`DiskTree::places`], as ids.
    pub(in crate::operator) fn every_place(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = NameSlot> + use<> {
        let others = self.other_places(node).into_iter();
        self.name_of(node).into_iter().chain(others)
    }

    /// Returns a node's names other than the first; most nodes have none.
    pub(in crate::operator::past) fn other_places(&self, node: NodeId) -> Vec<NameSlot> {
        let others = &self.index.borrow().others;
        others.get(&node).cloned().unwrap_or_default()
    }

    pub(in crate::operator::past) fn has_other_places(&self, node: NodeId) -> bool {
        self.index.borrow().others.contains_key(&node)
    }

    /// Returns whether a node is on the disk.
    pub fn is_on_disk(&self, node: NodeId) -> bool {
        node == ROOT || self.name_of(node).is_some()
    }

    /// Returns a node's path on the disk now.
    pub fn path(&self, node: NodeId) -> Option<WorldPath> {
        let index = self.index.borrow();
        let mut names = Vec::new();
        let mut at = node;
        while at != ROOT {
            let (dir, name) = index.nodes.get(at.index())?.at?;
            names.push(name);
            at = dir;
        }
        let mut path = WorldPath::root();
        for name in names.iter().rev() {
            path.push(Name::new(index.interner.text(*name)).ok()?);
        }
        Some(path)
    }

    /// Opens a node at its current path.
    ///
    /// # Errors
    /// `ENOENT` where it is not on the disk, or has left its path since that was read.
    pub fn node(&self, node: NodeId) -> Result<Node> {
        let (path, ids) = self.path(node).zip(self.ids(node)).ok_or(Error::NotFound)?;
        self.store.root().node_expecting(&path, Id(ids[0], ids[1]))
    }

    /// Returns the current attributes of a node.
    ///
    /// # Errors
    /// As [`DiskTree::node`].
    pub fn stat(&self, node: NodeId) -> Result<Meta> {
        if let Some(meta) = self.index.borrow().stats.get(&node) {
            return Ok(*meta);
        }
        let meta = self.stat_on_disk(node)?;
        let stats = &mut self.index.borrow_mut().stats;
        if stats.len() >= MAX_CACHED_STATS {
            stats.clear();
        }
        stats.insert(node, meta);
        Ok(meta)
    }

    fn stat_on_disk(&self, node: NodeId) -> Result<Meta> {
        match self.name_of(node) {
            Some((dir, name_id)) => {
                let dir = self.dir(dir)?;
                let meta = dir.stat(Name::new(self.index.borrow().interner.text(name_id))?)?;
                if self.ids(node) == Some([meta.id.0, meta.id.1]) {
                    Ok(meta)
                } else {
                    Err(Error::NotFound)
                }
            }
            None if node == ROOT => root::stat_fd(self.store.root().as_fd()),
            None => Err(Error::NotFound),
        }
    }

    fn dir(&self, node: NodeId) -> Result<Rc<Dir>> {
        if let Some(dir) = self.index.borrow().open.get(&node) {
            return Ok(dir.clone());
        }
        let (path, ids) = self.path(node).zip(self.ids(node)).ok_or(Error::NotFound)?;
        let dir = Rc::new(self.store.root().dir_expecting(&path, Id(ids[0], ids[1]))?);
        let mut index = self.index.borrow_mut();
        if index.open.len() >= MAX_OPEN_DIRS {
            index.open.clear();
        }
        index.open.insert(node, dir.clone());
        Ok(dir)
    }
}
