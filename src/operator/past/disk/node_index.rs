//! The index of everything known about the disk: nodes, their names, and names known to be absent.
//!
//! Assigns the nodes' numbers. Never accesses the disk itself.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::rc::Rc;

use rustix::fs::FileType;

use crate::journal::InodeNumbers;
use crate::operator::past::disk::compact_inode::{CompactInode, DeviceTable};
use crate::operator::past::disk::interner::{NameId, NameInterner, NumberHash};
use crate::operator::past::disk::listings::ListingCache;
use crate::operator::past::disk::node_id::{NameSlot, NodeId, ROOT};
use crate::operator::past::disk::number_table::NumberTable;
use crate::world::store::layout::STATE;
use crate::world::{Dir, Meta};

/// The nodes and names known so far.
#[derive(Debug, Default)]
pub(super) struct NodeIndex {
    pub(super) interner: NameInterner,
    pub(super) nodes: Vec<DiskNode>,
    pub(super) devices: DeviceTable,
    /// Node numbers by inode.
    by_ids: NumberTable,
    pub(super) entries: HashMap<NodeId, KnownEntries, NumberHash>,
    /// Further names of files with several links.
    pub(super) others: HashMap<NodeId, Vec<NameSlot>, NumberHash>,
    pub(super) listings: ListingCache,
    pub(super) open: HashMap<NodeId, Rc<Dir>, NumberHash>,
    /// Inodes for which the whole store has been searched.
    pub(super) searched: HashSet<InodeNumbers>,
    /// A cache of attributes: directories are read again and again.
    pub(super) stats: HashMap<NodeId, Meta, NumberHash>,
}

/// A node's inode, type and place on disk.
#[derive(Debug)]
pub(super) struct DiskNode {
    pub(super) inode: Option<CompactInode>,
    pub(super) kind: FileType,
    /// A name of the node; `None` for a node that is no longer on the disk.
    pub(super) at: Option<NameSlot>,
}

/// The known names of a directory.
#[derive(Debug, Default)]
pub(super) struct KnownEntries {
    pub(super) known: HashMap<NameId, Option<NodeId>, NumberHash>,
    pub(super) whole: bool,
}

impl NodeIndex {
    /// Returns the knowledge about a name, without accessing the disk.
    pub(super) fn known(&self, dir: NodeId, name_id: NameId) -> Option<Option<NodeId>> {
        let base = self.nodes.get(dir.index())?;
        let nothing = base.kind != FileType::Directory
            || (base.at.is_none() && dir != ROOT)
            || (dir == ROOT && self.interner.text(name_id) == STATE);
        if nothing {
            return Some(None);
        }
        let entries = self.entries.get(&dir)?;
        match entries.known.get(&name_id) {
            Some(known) => Some(*known),
            None => entries.whole.then_some(None),
        }
    }

    pub(super) fn is_whole(&self, dir: NodeId) -> bool {
        self.entries.get(&dir).is_some_and(|entries| entries.whole)
    }

    pub(super) fn intern(&mut self, ids: InodeNumbers, kind: FileType, place: NameSlot) -> NodeId {
        let inode = self.devices.inode(ids);
        if let Some(node) = self.by_inode(inode) {
            self.others.entry(node).or_default().push(place);
            return node;
        }
        self.push_known(inode, kind, Some(place))
    }

    /// Makes a node for a file that is no longer on the disk.
    pub(super) fn push_lost(&mut self, kind: FileType) -> NodeId {
        self.push(None, kind, None)
    }

    pub(super) fn by_inode(&self, inode: CompactInode) -> Option<NodeId> {
        let is_it = |number| self.inode(number) == Some(inode);
        self.by_ids.find(hash(inode), is_it).map(NodeId::from)
    }

    fn inode(&self, number: NonZeroU32) -> Option<CompactInode> {
        self.nodes.get(NodeId::from(number).index())?.inode
    }

    /// Makes a node that can be found by its inode.
    pub(super) fn push_known(
        &mut self,
        inode: CompactInode,
        kind: FileType,
        at: Option<NameSlot>,
    ) -> NodeId {
        let node = self.push(Some(inode), kind, at);
        let mut by_ids = std::mem::take(&mut self.by_ids);
        by_ids.insert(hash(inode), node.number(), |known| {
            self.inode(known).map(hash)
        });
        self.by_ids = by_ids;
        node
    }

    fn push(
        &mut self,
        inode: Option<CompactInode>,
        kind: FileType,
        at: Option<NameSlot>,
    ) -> NodeId {
        self.nodes.push(DiskNode { inode, kind, at });
        // Four billion nodes do not fit into memory.
        let number = u32::try_from(self.nodes.len()).ok();
        NodeId::from(number.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
    }
}

fn hash(inode: CompactInode) -> u64 {
    NumberHash::default().hash_one(inode)
}
