//! The cache of listed directories. Names are compared by a keyed 64-bit hash.

use std::collections::HashMap;
use std::hash::RandomState;

use rustix::fs::FileType;

use crate::journal::InodeNumbers;
use crate::operator::past::disk::interner::NumberHash;
use crate::operator::past::disk::node_id::NodeId;

/// The inode and type of a directory entry.
pub(in crate::operator::past) type ListedInode = (InodeNumbers, FileType);

/// The cache of listings.
#[derive(Debug, Default)]
pub(in crate::operator::past) struct ListingCache {
    /// The number of lookups; `None` for a directory that must not be listed (again).
    pub(super) asked: HashMap<NodeId, Option<u32>, NumberHash>,
    /// The listings, the most recent one last.
    pub(super) read: Vec<(NodeId, DirListing)>,
    pub(super) hasher: RandomState,
}

/// A listing, sorted by the hashes of the names.
#[derive(Debug, Default)]
pub(super) struct DirListing {
    pub(super) hashes: Vec<u64>,
    pub(super) inodes: Vec<u64>,
    /// `Unknown` where a `statx` is needed.
    pub(super) kinds: Vec<FileType>,
}

impl DirListing {
    pub(super) fn get(&self, hash: u64) -> Option<(u64, FileType)> {
        let at = self.hashes.binary_search(&hash).ok()?;
        self.inodes
            .get(at)
            .copied()
            .zip(self.kinds.get(at).copied())
    }
}

impl ListingCache {
    pub(super) fn has(&self, dir: NodeId) -> bool {
        self.get(dir).is_some()
    }

    pub(super) fn get(&self, dir: NodeId) -> Option<&DirListing> {
        let mut read = self.read.iter().rev();
        read.find(|(read, _)| *read == dir)
            .map(|(_, listing)| listing)
    }

    /// Counts a lookup.
    pub(super) fn count(&mut self, dir: NodeId) -> Option<u32> {
        let count = self.asked.entry(dir).or_insert(Some(0)).as_mut()?;
        *count = count.saturating_add(1);
        Some(*count)
    }
}
