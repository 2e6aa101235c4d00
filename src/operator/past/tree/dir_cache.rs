//! The directories that recent records named: consecutive records mostly name the same ones.
//!
//! Only a cache: an entry is dropped when a name on its path changes its meaning.

use crate::operator::past::disk::node_id::{NameSlot, NodeId};

/// The number of directories that are cached: two for moves, and some for processes that take turns.
const MAX_CACHED_DIRS: usize = 4;

/// Directories, each with its path and the names on it. The most recent one is last.
#[derive(Debug, Clone, Default)]
pub(super) struct DirCache(Vec<(Box<[u8]>, Vec<NameSlot>, NodeId)>);

impl DirCache {
    pub(super) fn find(&self, path: &[u8]) -> Option<NodeId> {
        let mut known = self.0.iter().rev();
        let found = known.find(|(known, ..)| **known == *path);
        found.map(|(_, _, node)| *node)
    }

    pub(super) fn add(&mut self, path: &[u8], way: Vec<NameSlot>, node: NodeId) {
        if self.0.len() >= MAX_CACHED_DIRS {
            self.0.remove(0);
        }
        self.0.push((path.into(), way, node));
    }

    /// Drops the entries whose path contains a name that changed.
    pub(super) fn forget(&mut self, place: NameSlot) {
        self.0.retain(|(_, way, _)| !way.contains(&place));
    }
}
