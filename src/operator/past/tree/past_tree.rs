//! The store's tree as it was at a point: what differs from the disk, and nothing else.
//!
//! Owns names, attributes and contents of a moment. A tree starts as what is on the disk now and is taken back record by
//! record (`effect.rs`); what no record touched is read from the disk when it is asked for. So memory grows with what was
//! touched, not with the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::{Ids, Record, Stamp};
use crate::name::{WorldPath, escape};
use crate::operator::past::disk::disk_tree::{DiskTree, NodeId, ROOT};
use crate::operator::past::disk::inode::Inode;
use crate::operator::past::disk::interner::{ByNumber, NameId};
use crate::operator::past::disk::node_set::NodeSet;
use crate::operator::past::tree::content::Content;
use crate::operator::past::tree::dir_cache::DirCache;
use crate::operator::past::tree::layer::{Kind, Layer};
use crate::operator::past::tree::parents::Parents;
use crate::world::Xattrs;

/// The attributes of a node at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What kind of thing.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content: seconds and nanoseconds.
    pub mtime: Stamp,
}

/// What of a node differs from what is on the disk.
#[derive(Debug, Clone, Default)]
pub struct Difference {
    /// The inode that it was then.
    pub ids: Option<Ids>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last change of content.
    pub mtime: Option<Stamp>,
    /// Extended attributes, by name; `None` for one that was not there.
    pub xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The content, over what is on the disk.
    pub content: Option<Arc<Layer>>,
}

/// The store's tree at a point.
#[derive(Debug, Clone)]
pub struct Tree<'a> {
    pub(in crate::operator::past) disk: Rc<DiskTree<'a>>,
    pub(in crate::operator::past) names:
        HashMap<NodeId, HashMap<NameId, Option<NodeId>, ByNumber>, ByNumber>,
    nodes: HashMap<NodeId, Box<Difference>, ByNumber>,
    /// Inodes that are, or are not, another node than on the disk.
    by_ids: HashMap<Inode, Option<NodeId>, ByNumber>,
    /// Nodes that were not there yet, so that their inodes (those of the disk) were not theirs; `by_ids` counts for more.
    unborn: NodeSet,
    /// Files that records speak of, and that something else stands in the place of without a record.
    pub(in crate::operator) displaced: Vec<NodeId>,
    /// Whether the present record is one of the last before the power went: later ones may have been lost.
    pub(in crate::operator::past) in_doubt: bool,
    /// Where names were given to nodes.
    pub(super) parents: Parents,
    pub(super) dir_cache: DirCache,
    /// The directory that the present record was asked for last and that was not at its path: the path, its number, and
    /// which it is.
    pub(in crate::operator::past) last: Option<(Box<[u8]>, u64, NodeId)>,
}

impl<'a> Tree<'a> {
    /// The tree that is on the disk now.
    pub fn now(disk: Rc<DiskTree<'a>>) -> Tree<'a> {
        Tree {
            disk,
            names: HashMap::default(),
            nodes: HashMap::default(),
            by_ids: HashMap::default(),
            unborn: NodeSet::default(),
            displaced: Vec::new(),
            in_doubt: false,
            parents: Parents::default(),
            dir_cache: DirCache::default(),
            last: None,
        }
    }

    /// Returns what the tree stands on.
    pub fn disk(&self) -> &Rc<DiskTree<'a>> {
        &self.disk
    }

    /// Returns the nodes whose attributes or contents may differ from those on the disk.
    pub fn changed_nodes(&self) -> impl Iterator<Item = (NodeId, &Difference)> {
        self.nodes
            .iter()
            .map(|(node, difference)| (*node, &**difference))
    }

    /// Returns what of a node differs from the disk.
    pub fn difference(&self, node: NodeId) -> Option<&Difference> {
        self.nodes.get(&node).map(|difference| &**difference)
    }

    /// Returns what kind of thing a node is.
    pub fn kind(&self, node: NodeId) -> FileType {
        self.disk.kind(node)
    }

    /// Returns whether nothing of a node is on the disk any more: it was purged, or removed behind the mount.
    pub fn is_lost(&self, node: NodeId) -> bool {
        !self.disk.is_on_disk(node)
    }

    /// Returns which inode a node was; `None` where nobody knows.
    pub fn ids(&self, node: NodeId) -> Option<Ids> {
        let then = self.nodes.get(&node).and_then(|difference| difference.ids);
        then.or_else(|| self.disk.ids(node))
    }

    /// Returns the node that an inode was.
    pub fn by_ids(&self, ids: Ids) -> Option<NodeId> {
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
    /// [`Error::Missing`] for what is not on the disk any more; what `statx(2)` says.
    pub fn meta(&self, node: NodeId) -> Result<Attributes> {
        let meta = self.disk.stat(node).map_err(|error| match error {
            Error::NotFound => self.gone(node),
            error => error,
        })?;
        let then = self.nodes.get(&node);
        let content = then.and_then(|then| then.content.as_ref());
        Ok(Attributes {
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

    /// Returns the extended attributes of a node, of every kind.
    ///
    /// # Errors
    /// As [`Tree::meta`].
    pub fn xattrs(&self, node: NodeId) -> Result<Xattrs> {
        let there = self.disk.node(node).map_err(|error| match error {
            Error::NotFound => self.gone(node),
            error => error,
        })?;
        let mut xattrs = crate::world::xattrs(there.as_fd())?;
        let then = self.nodes.get(&node).map(|then| &then.xattrs);
        for (name, value) in then.into_iter().flatten() {
            match value {
                Some(value) => xattrs.insert(name.clone(), value.clone()),
                None => xattrs.remove(name),
            };
        }
        Ok(xattrs)
    }

    /// Returns where a symlink led.
    ///
    /// # Errors
    /// As [`Tree::meta`]; `EINVAL` for what is no symlink.
    pub fn target(&self, node: NodeId) -> Result<Vec<u8>> {
        let there = self.disk.node(node).map_err(|_| self.gone(node))?;
        let target = rustix::fs::readlinkat(&there, c"", Vec::with_capacity(256));
        Ok(target.map_err(Error::os("readlinkat"))?.into_bytes())
    }

    /// Opens the content of a file.
    ///
    /// # Errors
    /// [`Error::Missing`] naming what is not there any more; `EISDIR`; [`Error::Damaged`] where a version is not what its
    /// record says.
    pub fn content(&self, node: NodeId) -> Result<Content> {
        let layer = self.nodes.get(&node).and_then(|then| then.content.clone());
        Content::open(self.disk.store(), layer.as_ref(), || self.open_now(node))
    }

    /// As [`Tree::content`], for who does not want the bytes ([`Content::look`]).
    ///
    /// # Errors
    /// As [`Tree::content`].
    pub fn look_at_content(&self, node: NodeId) -> Result<Content> {
        let layer = self.nodes.get(&node).and_then(|then| then.content.clone());
        Content::look(self.disk.store(), layer.as_ref(), || self.open_now(node))
    }

    /// Opens what a file has on the disk now.
    ///
    /// # Errors
    /// As [`Tree::content`].
    pub fn open_now(&self, node: NodeId) -> Result<std::fs::File> {
        let there = self.disk.node(node).map_err(|error| match error {
            Error::NotFound => self.gone(node),
            error => error,
        })?;
        if there.meta().is_dir() {
            return Err(Error::IsDirectory);
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW;
        Ok(self.disk.store().root().reopen(&there, flags)?.into())
    }

    fn gone(&self, node: NodeId) -> Error {
        let name = match (self.path(node), self.slot(node)) {
            (Some(path), _) => path.to_string(),
            (None, Some((_, name))) => escape(&name),
            (None, None) => "it".to_owned(),
        };
        Error::Missing {
            what: format!("{name} is not in the store any more: it was purged, or removed behind the mount"),
            remedy: "`trumanfs log` says when it was purged, if it was; a backup of the store may have it.".to_owned(),
        }
    }

    /// Gives access to what of a node differs from the disk.
    pub fn difference_mut(&mut self, node: NodeId) -> &mut Difference {
        self.nodes.entry(node).or_default()
    }

    /// Forgets what was found out about a node that was not there yet. Not where it has a further name, which somebody may
    /// have made behind the mount.
    pub(in crate::operator::past) fn forget_unborn(&mut self, node: NodeId) {
        if !self.disk.has_other_places(node) {
            self.nodes.remove(&node);
        }
    }

    /// Lets a node be as it is on the disk, but for its names.
    pub(in crate::operator) fn forget_difference(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Says that no further record is taken back: what is needed for that only is dropped.
    pub(in crate::operator::past) fn rest(&mut self) {
        self.by_ids = HashMap::default();
        self.dir_cache = DirCache::default();
        self.disk.forget_listings();
    }

    /// Notes that a node was another inode.
    pub fn set_ids(&mut self, node: NodeId, ids: Ids) {
        if let Some(now) = self.ids(node) {
            self.by_ids.insert(self.disk.inode(now), None);
        }
        self.by_ids.insert(self.disk.inode(ids), Some(node));
        self.difference_mut(node).ids = Some(ids);
    }

    /// Notes that a node was not there yet, so that its inode may have been another's.
    pub fn unborn(&mut self, node: NodeId) {
        let Some(ids) = self.ids(node) else {
            return;
        };
        let inode = self.disk.inode(ids);
        if self.disk.ids(node) == Some(ids) && !self.by_ids.contains_key(&inode) {
            self.unborn.insert(node);
        } else {
            self.by_ids.insert(inode, None);
        }
    }

    /// The directory with an inode number, or else the one that a path's last name is in.
    pub(in crate::operator::past) fn dir_by_ids(
        &mut self,
        path: &WorldPath,
        ids: Ids,
    ) -> Result<NodeId> {
        if self.by_ids(ids).is_none() {
            self.disk.search(&HashSet::from([ids]))?;
        }
        match self.by_ids(ids) {
            Some(node) => Ok(node),
            None => self.dir_of(path),
        }
    }

    /// Says that another record is looked at: directories may be others.
    pub(in crate::operator::past) fn begin(&mut self, record: &Record, session: &Arc<str>) {
        self.last = None;
        self.in_doubt = self.disk.is_doubtful(session, &record.time, &Kind::Same);
    }

    /// Returns the directory that a path's last name is in, making up those that are not on the disk any more.
    ///
    /// # Errors
    /// As [`Tree::lookup`].
    pub fn dir_of(&mut self, path: &WorldPath) -> Result<NodeId> {
        let mut at = ROOT;
        let above = path.parent().unwrap_or_default();
        for name in above.components() {
            at = match self.lookup(at, name.bytes())? {
                Some(node) => node,
                None => {
                    let lost = self.disk.lost(FileType::Directory);
                    self.set_name(at, name.bytes(), Some(lost));
                    lost
                }
            };
        }
        Ok(at)
    }
}
