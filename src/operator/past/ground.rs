//! The store as it lies on the disk now, read as far as somebody asks: what every tree of the past stands on.
//!
//! Owns the identity of things: a [`NodeId`] is one file or directory through all its names, and through an inode that
//! took its place. `.trash` is a directory like others; `.trumanfs` does not exist. A name costs one `statx` when it is
//! first asked for, a directory is listed only when somebody wants its entries. Nothing here changes the store.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::Ids;
use crate::name::{Name, WorldPath};
use crate::operator::Store;
use crate::world::view::STATE;
use crate::world::{Dir, Id, Meta, Node, root};

/// One file, directory or other thing, whatever its names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

/// A place for a name: a directory and the name in it.
pub type Slot = (NodeId, Box<[u8]>);

/// The root of the store.
pub const ROOT: NodeId = NodeId(0);

/// How many attributes are kept.
const STATS: usize = 4096;

/// How many directories are held open.
const OPEN: usize = 64;

/// What lies on the disk.
#[derive(Debug)]
pub struct Ground<'a> {
    store: &'a Store,
    pub(super) inner: RefCell<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    nodes: Vec<Base>,
    by_ids: HashMap<Ids, NodeId>,
    /// Further names of files that have several.
    others: HashMap<NodeId, Vec<Slot>>,
    open: HashMap<NodeId, Rc<Dir>>,
    /// What was looked for in the whole store already.
    pub(super) searched: HashSet<Ids>,
    /// Attributes lately asked for: directories are asked again and again.
    stats: HashMap<NodeId, Meta>,
}

/// What is known of a node by the disk.
#[derive(Debug)]
struct Base {
    ids: Option<Ids>,
    kind: FileType,
    /// One of its names; absent for what is not on the disk any more.
    at: Option<Slot>,
    entries: Option<Box<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    known: HashMap<Box<[u8]>, Option<NodeId>>,
    whole: bool,
}

impl<'a> Ground<'a> {
    /// Starts with the root alone.
    pub fn new(store: &'a Store) -> Ground<'a> {
        let id = store.root().id();
        let root = Base {
            ids: Some([id.0, id.1]),
            kind: FileType::Directory,
            at: None,
            entries: None,
        };
        let inner = Inner {
            nodes: vec![root],
            by_ids: HashMap::from([([id.0, id.1], ROOT)]),
            others: HashMap::new(),
            open: HashMap::new(),
            searched: HashSet::new(),
            stats: HashMap::new(),
        };
        Ground {
            store,
            inner: RefCell::new(inner),
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Returns what has a name now.
    ///
    /// # Errors
    /// What opening the directory and `statx(2)` say.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        if let Some(known) = self.inner.borrow().known(dir, name) {
            return Ok(known);
        }
        let found = match self.dir(dir)?.stat(Name::new(name)?) {
            Ok(meta) => Some(meta),
            Err(Error::NotFound | Error::NotDirectory) => None,
            Err(error) => return Err(error),
        };
        let mut inner = self.inner.borrow_mut();
        let node = found.map(|meta| inner.intern([meta.id.0, meta.id.1], meta.kind, dir, name));
        if let Some(base) = inner.nodes.get_mut(dir.index()) {
            let entries = base.entries.get_or_insert_default();
            entries.known.insert(name.into(), node);
        }
        Ok(node)
    }

    /// Returns the names that a directory has now.
    ///
    /// # Errors
    /// What opening the directory and `getdents64(2)` say.
    pub fn names(&self, dir: NodeId) -> Result<BTreeSet<Box<[u8]>>> {
        self.list(dir)?;
        let inner = self.inner.borrow();
        let entries = inner
            .nodes
            .get(dir.index())
            .and_then(|b| b.entries.as_ref());
        let known = entries.into_iter().flat_map(|entries| &entries.known);
        let there = known.filter(|(_, node)| node.is_some());
        Ok(there.map(|(name, _)| name.clone()).collect())
    }

    fn list(&self, dir: NodeId) -> Result<()> {
        if !self.is_on_disk(dir) || self.inner.borrow().is_whole(dir) {
            return Ok(());
        }
        let opened = self.dir(dir)?;
        let fd = self.store.root().read_dir(&opened)?;
        let mut inner = self.inner.borrow_mut();
        for entry in rustix::fs::Dir::read_from(&fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let bytes = entry.file_name().to_bytes();
            let Ok(name) = Name::new(bytes) else {
                continue; // `.` and `..`
            };
            if (dir == ROOT && bytes == STATE) || inner.known(dir, bytes).is_some() {
                continue;
            }
            let (ids, kind) = match entry.file_type() {
                // A file system that does not say; or a directory, on which something may be mounted.
                FileType::Unknown | FileType::Directory => match opened.stat(name) {
                    Ok(meta) => ([meta.id.0, meta.id.1], meta.kind),
                    Err(Error::NotFound) => continue,
                    Err(error) => return Err(error),
                },
                kind => ([opened.id().0, entry.ino()], kind),
            };
            let node = inner.intern(ids, kind, dir, bytes);
            if let Some(base) = inner.nodes.get_mut(dir.index()) {
                let entries = base.entries.get_or_insert_default();
                entries.known.insert(bytes.into(), Some(node));
            }
        }
        if let Some(base) = inner.nodes.get_mut(dir.index()) {
            base.entries.get_or_insert_default().whole = true;
        }
        Ok(())
    }

    /// Returns the node that an inode is now, if it was met already.
    pub fn by_ids(&self, ids: Ids) -> Option<NodeId> {
        self.inner.borrow().by_ids.get(&ids).copied()
    }

    /// Makes a node for something that is not on the disk any more.
    pub fn lost(&self, ids: Option<Ids>, kind: FileType) -> NodeId {
        self.inner.borrow_mut().push(Base {
            ids,
            kind,
            at: None,
            entries: None,
        })
    }

    /// Returns which inode a node is now; `None` for what is lost.
    pub fn ids(&self, node: NodeId) -> Option<Ids> {
        let inner = self.inner.borrow();
        inner.nodes.get(node.index()).and_then(|base| base.ids)
    }

    /// Returns what kind of thing a node is.
    pub fn kind(&self, node: NodeId) -> FileType {
        let inner = self.inner.borrow();
        let base = inner.nodes.get(node.index());
        base.map_or(FileType::Unknown, |base| base.kind)
    }

    /// Returns a place where a node lies now, as directory and name.
    pub fn at(&self, node: NodeId) -> Option<Slot> {
        let inner = self.inner.borrow();
        inner
            .nodes
            .get(node.index())
            .and_then(|base| base.at.clone())
    }

    /// Returns all places that a node is known to lie at now.
    pub fn places(&self, node: NodeId) -> Vec<Slot> {
        let mut places: Vec<_> = self.at(node).into_iter().collect();
        places.extend(
            self.inner
                .borrow()
                .others
                .get(&node)
                .into_iter()
                .flatten()
                .cloned(),
        );
        places
    }

    /// Returns whether a node lies on the disk.
    pub fn is_on_disk(&self, node: NodeId) -> bool {
        node == ROOT || self.at(node).is_some()
    }

    /// Returns where on the disk a node lies now.
    pub fn path(&self, node: NodeId) -> Option<WorldPath> {
        let inner = self.inner.borrow();
        let mut names = Vec::new();
        let mut at = node;
        while at != ROOT {
            let (dir, name) = inner.nodes.get(at.index())?.at.as_ref()?;
            names.push(name);
            at = *dir;
        }
        let mut path = WorldPath::root();
        for name in names.iter().rev() {
            path.push(Name::new(name).ok()?);
        }
        Some(path)
    }

    /// Opens a node where it lies now.
    ///
    /// # Errors
    /// `ENOENT` where it is not on the disk, or has gone from there since it was read.
    pub fn node(&self, node: NodeId) -> Result<Node> {
        let (path, ids) = self.path(node).zip(self.ids(node)).ok_or(Error::NotFound)?;
        self.store.root().node_expecting(&path, Id(ids[0], ids[1]))
    }

    /// Returns the attributes that a node has now.
    ///
    /// # Errors
    /// As [`Ground::node`].
    pub fn stat(&self, node: NodeId) -> Result<Meta> {
        if let Some(meta) = self.inner.borrow().stats.get(&node) {
            return Ok(*meta);
        }
        let meta = self.ask(node)?;
        let stats = &mut self.inner.borrow_mut().stats;
        if stats.len() >= STATS {
            stats.clear();
        }
        stats.insert(node, meta);
        Ok(meta)
    }

    fn ask(&self, node: NodeId) -> Result<Meta> {
        match self.at(node) {
            Some((dir, name)) => {
                let meta = self.dir(dir)?.stat(Name::new(&name)?)?;
                match self.ids(node) == Some([meta.id.0, meta.id.1]) {
                    true => Ok(meta),
                    false => Err(Error::NotFound),
                }
            }
            None if node == ROOT => root::stat_fd(self.store.root().as_fd()),
            None => Err(Error::NotFound),
        }
    }

    fn dir(&self, node: NodeId) -> Result<Rc<Dir>> {
        if let Some(dir) = self.inner.borrow().open.get(&node) {
            return Ok(dir.clone());
        }
        let (path, ids) = self.path(node).zip(self.ids(node)).ok_or(Error::NotFound)?;
        let dir = Rc::new(self.store.root().dir_expecting(&path, Id(ids[0], ids[1]))?);
        let mut inner = self.inner.borrow_mut();
        if inner.open.len() >= OPEN {
            inner.open.clear();
        }
        inner.open.insert(node, dir.clone());
        Ok(dir)
    }
}

impl Inner {
    /// Returns what is known of a name without asking the disk.
    fn known(&self, dir: NodeId, name: &[u8]) -> Option<Option<NodeId>> {
        let base = self.nodes.get(dir.index())?;
        let nothing = base.kind != FileType::Directory
            || (base.at.is_none() && dir != ROOT)
            || (dir == ROOT && name == STATE);
        if nothing {
            return Some(None);
        }
        let entries = base.entries.as_ref()?;
        match entries.known.get(name) {
            Some(known) => Some(*known),
            None => entries.whole.then_some(None),
        }
    }

    fn is_whole(&self, dir: NodeId) -> bool {
        let entries = self.nodes.get(dir.index()).and_then(|b| b.entries.as_ref());
        entries.is_some_and(|entries| entries.whole)
    }

    fn intern(&mut self, ids: Ids, kind: FileType, dir: NodeId, name: &[u8]) -> NodeId {
        if let Some(node) = self.by_ids.get(&ids).copied() {
            self.others
                .entry(node)
                .or_default()
                .push((dir, name.into()));
            return node;
        }
        let node = self.push(Base {
            ids: Some(ids),
            kind,
            at: Some((dir, name.into())),
            entries: None,
        });
        self.by_ids.insert(ids, node);
        node
    }

    fn push(&mut self, base: Base) -> NodeId {
        // Four thousand million nodes do not fit into memory.
        let node = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(base);
        node
    }
}

impl NodeId {
    fn index(self) -> usize {
        self.0 as usize
    }
}
