//! The store's tree at a point, as its differences from the disk.
//!
//! Owns names, attributes and contents of one moment. A tree starts as the one on the disk now and is taken back record
//! by record (`effect.rs`); everything that no record changed is read from the disk on demand. So memory grows with the
//! number of changes, not with the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::{FileTime, InodeNumbers, Record};
use crate::name::{WorldPath, escape};
use crate::operator::past::disk::compact_inode::CompactInode;
use crate::operator::past::disk::disk_tree::DiskTree;
use crate::operator::past::disk::interner::{NameId, NumberHash};
use crate::operator::past::disk::node_id::{NodeId, ROOT};
use crate::operator::past::disk::node_set::NodeSet;
use crate::operator::past::tree::content::PastContent;
use crate::operator::past::tree::dir_cache::DirCache;
use crate::operator::past::tree::layer::{ContentLayer, LayerKind};
use crate::operator::past::tree::layered_content::LayeredContent;
use crate::operator::past::tree::node_names::NodeNames;
use crate::operator::past::tree::outside::PendingStamps;
use crate::operator::past::tree::unknown_writes::UnknownWriteMarks;
use crate::world::Xattrs;

/// The attributes of a node at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAttributes {
    /// The file type.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// The modification time: seconds and nanoseconds.
    pub mtime: FileTime,
}

/// A node's attributes and extended attributes at a point: all of it but the content.
#[derive(Debug)]
pub struct FullAttributes {
    /// The attributes.
    pub meta: NodeAttributes,
    /// The extended attributes; none for a node that cannot have any.
    pub xattrs: Option<Xattrs>,
}

/// A node's differences from the disk.
#[derive(Debug, Clone, Default)]
pub struct NodeOverlay {
    /// The inode that it was then.
    pub ids: Option<InodeNumbers>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// The modification time.
    pub mtime: Option<FileTime>,
    /// Extended attributes by name; `None` for one that did not exist.
    pub xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The content, as layers over the one on the disk.
    pub content: Option<Arc<ContentLayer>>,
}

/// The store's tree at a point.
#[derive(Debug, Clone)]
pub struct PastTree<'a> {
    pub(in crate::operator::past) disk: Rc<DiskTree<'a>>,
    pub(in crate::operator::past) names:
        HashMap<NodeId, HashMap<NameId, Option<NodeId>, NumberHash>, NumberHash>,
    pub(super) nodes: HashMap<NodeId, Box<NodeOverlay>, NumberHash>,
    /// Inodes that mean another node than on the disk, or none.
    pub(super) by_ids: HashMap<CompactInode, Option<NodeId>, NumberHash>,
    /// Nodes that did not exist yet, so that their inodes on the disk were not theirs; `by_ids` takes precedence.
    unborn: NodeSet,
    /// Files that records name but whose place is taken by something else without a record.
    pub(in crate::operator) displaced: Vec<NodeId>,
    /// True if the current record is one of the last before a power cut: later ones may have been lost.
    pub(in crate::operator::past) in_doubt: bool,
    /// The end of the current record's session, in nanoseconds since 1970, if it is known.
    pub(super) session_end: Option<u64>,
    /// The current record's session, and its time likewise.
    pub(super) current: Option<(Arc<str>, u64)>,
    pub(super) stamps: PendingStamps,
    pub(super) unknown: UnknownWriteMarks,
    /// The names given to nodes.
    pub(super) parents: NodeNames,
    pub(super) dir_cache: DirCache,
    /// The last directory looked up for the current record that was not at its path: the path, its inode number, and
    /// the node.
    pub(in crate::operator::past) last: Option<(Box<[u8]>, u64, NodeId)>,
}

impl<'a> PastTree<'a> {
    /// Makes the tree on the disk now.
    pub fn now(disk: Rc<DiskTree<'a>>) -> PastTree<'a> {
        PastTree {
            disk,
            names: HashMap::default(),
            nodes: HashMap::default(),
            by_ids: HashMap::default(),
            unborn: NodeSet::default(),
            displaced: Vec::new(),
            in_doubt: false,
            session_end: None,
            current: None,
            stamps: PendingStamps::default(),
            unknown: UnknownWriteMarks::default(),
            parents: NodeNames::default(),
            dir_cache: DirCache::default(),
            last: None,
        }
    }

    /// Returns the tree on the disk.
    pub fn disk(&self) -> &Rc<DiskTree<'a>> {
        &self.disk
    }

    /// Iterates over the nodes whose attributes or contents may differ from the disk.
    pub fn changed_nodes(&self) -> impl Iterator<Item = (NodeId, &NodeOverlay)> {
        self.nodes
            .iter()
            .map(|(node, difference)| (*node, &**difference))
    }

    /// Returns a node's differences from the disk.
    pub fn difference(&self, node: NodeId) -> Option<&NodeOverlay> {
        self.nodes.get(&node).map(|difference| &**difference)
    }

    /// Returns the file type of a node.
    pub fn kind(&self, node: NodeId) -> FileType {
        self.disk.kind(node)
    }

    /// Returns whether a node is no longer on the disk: purged, or removed behind the mount.
    pub fn is_lost(&self, node: NodeId) -> bool {
        !self.disk.is_on_disk(node)
    }

    /// Returns the inode that a node was; `None` where that is unknown.
    pub fn ids(&self, node: NodeId) -> Option<InodeNumbers> {
        let then = self.nodes.get(&node).and_then(|difference| difference.ids);
        then.or_else(|| self.disk.ids(node))
    }

    /// Returns the node that had an inode.
    pub fn by_ids(&self, ids: InodeNumbers) -> Option<NodeId> {
        match self.by_ids.get(&self.disk.inode(ids)) {
            Some(node) => *node,
            None => self
                .disk
                .by_ids(ids)
                .filter(|node| !self.unborn.contains(*node)),
        }
    }

    /// Returns the attributes of a node.
    ///
    /// # Errors
    /// [`Error::Missing`] for a node that is no longer on the disk; those of `statx(2)`.
    pub fn meta(&self, node: NodeId) -> Result<NodeAttributes> {
        let meta = self.disk.stat(node).map_err(|error| match error {
            Error::NotFound => self.lost_node(node),
            error => error,
        })?;
        let then = self.nodes.get(&node);
        let content = then.and_then(|then| then.content.as_ref());
        Ok(NodeAttributes {
            kind: meta.kind,
            mode: then.and_then(|t| t.mode).unwrap_or(meta.permissions()),
            uid: then.and_then(|t| t.uid).unwrap_or(meta.uid),
            gid: then.and_then(|t| t.gid).unwrap_or(meta.gid),
            size: content.and_then(|c| c.size()).unwrap_or(meta.size),
            mtime: then
                .and_then(|t| t.mtime)
                .unwrap_or((meta.mtime.sec, meta.mtime.nsec)),
        })
    }

    /// Returns all attributes of a node.
    ///
    /// # Errors
    /// As [`PastTree::meta`].
    pub fn full_attributes(&self, node: NodeId) -> Result<FullAttributes> {
        let meta = self.meta(node)?;
        let has_xattrs = matches!(meta.kind, FileType::RegularFile | FileType::Directory);
        let xattrs = has_xattrs.then(|| self.xattrs(node)).transpose()?;
        Ok(FullAttributes { meta, xattrs })
    }

    /// Returns a node's extended attributes of all namespaces.
    ///
    /// # Errors
    /// As [`PastTree::meta`].
    pub fn xattrs(&self, node: NodeId) -> Result<Xattrs> {
        let there = self.disk.node(node).map_err(|error| match error {
            Error::NotFound => self.lost_node(node),
            error => error,
        })?;
        let root = self.disk.store().root();
        let mut xattrs = root.with_access(&there, || crate::world::xattrs(there.as_fd()))?;
        let then = self.nodes.get(&node).map(|then| &then.xattrs);
        for (name, value) in then.into_iter().flatten() {
            match value {
                Some(value) => xattrs.insert(name.clone(), value.clone()),
                None => xattrs.remove(name),
            };
        }
        Ok(xattrs)
    }

    /// Returns whether no record between two trees over the same disk changed an extended attribute of a node: the disk
    /// need not be asked then.
    pub fn has_xattrs_of(&self, other: &PastTree<'_>, node: NodeId) -> bool {
        let then = self.nodes.get(&node).map(|then| &then.xattrs);
        let other = other.nodes.get(&node).map(|then| &then.xattrs);
        then.filter(|then| !then.is_empty()) == other.filter(|other| !other.is_empty())
    }

    /// Returns the target of a symlink.
    ///
    /// # Errors
    /// As [`PastTree::meta`]; `EINVAL` where it is not a symlink.
    pub fn target(&self, node: NodeId) -> Result<Vec<u8>> {
        let there = self.disk.node(node).map_err(|_| self.lost_node(node))?;
        let target = rustix::fs::readlinkat(&there, c"", Vec::with_capacity(256));
        Ok(target.map_err(Error::os("readlinkat"))?.into_bytes())
    }

    /// Opens the content of a file.
    ///
    /// # Errors
    /// [`Error::Missing`], naming the lost part; `EISDIR`; [`Error::Damaged`] where a version contradicts its record.
    pub fn content(&self, node: NodeId) -> Result<PastContent> {
        let layer = self.nodes.get(&node).and_then(|then| then.content.clone());
        PastContent::open(self.disk.store(), layer.as_ref(), || self.open_now(node))
    }

    /// As [`PastTree::content`], for callers that do not need the bytes and have opened a later content
    /// ([`LayeredContent`]).
    ///
    /// # Errors
    /// As [`PastTree::content`].
    pub fn unverified_content(
        &self,
        node: NodeId,
        later: LayeredContent,
    ) -> Result<LayeredContent> {
        let layer = self.nodes.get(&node).and_then(|then| then.content.clone());
        let now = || self.open_now(node);
        later.before(self.disk.store(), layer.as_ref(), now)
    }

    /// Opens a file's content on the disk now.
    ///
    /// # Errors
    /// As [`PastTree::content`].
    pub fn open_now(&self, node: NodeId) -> Result<std::fs::File> {
        let there = self.disk.node(node).map_err(|error| match error {
            Error::NotFound => self.lost_node(node),
            error => error,
        })?;
        if there.meta().is_dir() {
            return Err(Error::IsDirectory);
        }
        Ok(self.disk.store().open_file(&there)?.into())
    }

    fn lost_node(&self, node: NodeId) -> Error {
        let name = match (self.path(node), self.slot(node)) {
            (Some(path), _) => path.to_string(),
            (None, Some((dir, name))) => match self.path(dir) {
                Some(path) if path.is_root() => format!("/{}", escape(&name)),
                Some(path) => format!("{path}/{}", escape(&name)),
                None => escape(&name),
            },
            (None, None) => "it".to_owned(),
        };
        Error::Missing {
            what: format!("{name} is not in the store any more: it was purged, or removed behind the mount"),
            remedy: "`trumanfs log` says when it was purged, if it was; a backup of the store may have it.".to_owned(),
        }
    }

    /// Returns a node's differences for modification.
    pub fn difference_mut(&mut self, node: NodeId) -> &mut NodeOverlay {
        self.nodes.entry(node).or_default()
    }

    /// Drops the differences of a node that did not exist yet. They stay if it has a further name, which may have
    /// been made behind the mount.
    pub(in crate::operator::past) fn forget_unborn(&mut self, node: NodeId) {
        if !self.disk.has_other_places(node) {
            self.nodes.remove(&node);
        }
    }

    /// Resets a node, except for its names, to its state on the disk.
    pub(in crate::operator) fn forget_difference(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Ends the reversal of records: drops the data that only the reversal needs.
    pub(in crate::operator::past) fn end_reversal(&mut self) {
        self.by_ids = HashMap::default();
        self.stamps.end_reversal();
        self.dir_cache = DirCache::default();
        self.disk.forget_listings();
    }

    /// Notes that a node had another inode.
    pub fn set_ids(&mut self, node: NodeId, ids: InodeNumbers) {
        let inode = self.disk.inode(ids);
        if let Some(now) = self.ids(node) {
            self.by_ids.insert(self.disk.inode(now), None);
        }
        self.stamps.forget_birth(inode);
        self.by_ids.insert(inode, Some(node));
        self.difference_mut(node).ids = Some(ids);
    }

    /// Notes that a node did not exist yet, so that its inode may have been another's.
    pub fn unborn(&mut self, node: NodeId) {
        let Some(ids) = self.ids(node) else {
            return;
        };
        let inode = self.disk.inode(ids);
        self.stamps.reopen(inode);
        if self.disk.ids(node) == Some(ids) && !self.by_ids.contains_key(&inode) {
            self.unborn.insert(node);
        } else {
            self.by_ids.insert(inode, None);
        }
    }

    /// Returns the directory with an inode number, otherwise the parent of a path.
    pub(in crate::operator::past) fn dir_by_ids(
        &mut self,
        path: &WorldPath,
        ids: InodeNumbers,
    ) -> Result<NodeId> {
        if self.by_ids(ids).is_none() {
            self.disk.search(&HashSet::from([ids]))?;
        }
        match self.known_elsewhere(ids)? {
            Some(node) => Ok(node),
            None => self.dir_of(path),
        }
    }

    /// Begins with another record: directories are looked up anew.
    pub(in crate::operator::past) fn begin(&mut self, record: &Record, session: &Arc<str>) {
        self.last = None;
        self.stamps.begin(session, record.seq);
        self.note_session(record, session);
        self.in_doubt = self
            .disk
            .is_doubtful(session, &record.time, &LayerKind::Same);
    }

    /// Returns the parent directory of a path, making up nodes for directories that are no longer on the disk.
    ///
    /// # Errors
    /// As [`PastTree::lookup`].
    pub fn dir_of(&mut self, path: &WorldPath) -> Result<NodeId> {
        let mut at = ROOT;
        let above = path.parent().unwrap_or_default();
        for name in above.components() {
            at = match self.lookup(at, name.bytes())? {
                Some(node) => node,
                None => {
                    let lost = self.disk.make_lost_node(FileType::Directory);
                    self.set_name(at, name.bytes(), Some(lost));
                    lost
                }
            };
        }
        Ok(at)
    }
}
