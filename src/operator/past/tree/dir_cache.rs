//! The directories that recent records named: consecutive records mostly name the same ones.
//!
//! Only a cache: an entry is dropped when a name on its path changes its meaning.

use crate::error::Result;
use crate::journal::At;
use crate::name::{Name, WorldPath};
use crate::operator::past::disk::disk_tree::{NameSlot, NodeId, ROOT};
use crate::operator::past::tree::past_tree::Tree;

/// How many directories are cached: two for moves, and some for processes that take turns.
const MANY: usize = 4;

/// Directories, each with its path and the names on it. The most recent one is last.
#[derive(Debug, Clone, Default)]
pub(super) struct DirCache(Vec<(Box<[u8]>, Vec<NameSlot>, NodeId)>);

impl DirCache {
    fn find(&self, path: &[u8]) -> Option<NodeId> {
        let mut known = self.0.iter().rev();
        let found = known.find(|(known, ..)| **known == *path);
        found.map(|(_, _, node)| *node)
    }

    fn add(&mut self, path: &[u8], way: Vec<NameSlot>, node: NodeId) {
        if self.0.len() >= MANY {
            self.0.remove(0);
        }
        self.0.push((path.into(), way, node));
    }

    /// Drops the entries whose path contains a name that changed.
    pub(super) fn forget(&mut self, place: NameSlot) {
        self.0.retain(|(_, way, _)| !way.contains(&place));
    }
}

impl Tree<'_> {
    /// As [`Tree::resolve`], for a path in a record, through the cache.
    pub(super) fn resolve_near(&mut self, path: &WorldPath) -> Result<Option<NodeId>> {
        match path.name() {
            None => Ok(Some(ROOT)),
            Some(name) => match self.dir_near(path)? {
                Some(dir) => self.lookup(dir, name.bytes()),
                None => Ok(None),
            },
        }
    }

    /// Returns the parent directory of a path.
    pub(super) fn dir_near(&mut self, path: &WorldPath) -> Result<Option<NodeId>> {
        let above = path.above();
        if let Some(node) = self.dir_cache.find(above) {
            return Ok(Some(node));
        }
        let mut way = Vec::new();
        let mut at = ROOT;
        for name in path.parent().unwrap_or_default().components() {
            let place = (at, self.disk().name_id(Name::bytes(name)));
            way.push(place);
            match self.lookup_id(place.0, place.1)? {
                Some(node) => at = node,
                None => return Ok(None),
            }
        }
        self.dir_cache.add(above, way, at);
        Ok(Some(at))
    }

    /// Returns the directory that a record names. It may have moved between the resolving of the path and the record,
    /// so its inode number takes precedence over the path.
    ///
    /// # Errors
    /// As [`Tree::lookup`].
    pub fn dir_at(&mut self, path: &WorldPath, at: Option<&At>) -> Result<NodeId> {
        let Some((_, _, number)) = at else {
            return self.dir_of(path);
        };
        let ids = [self.disk().store().root().id().0, *number];
        if let Some(node) = self.dir_near(path)?
            && self.ids(node).is_none_or(|known| known == ids)
        {
            return Ok(node);
        }
        let above = path.above();
        if let Some((of, known, node)) = &self.last
            && (&**of, known) == (above, number)
        {
            return Ok(*node);
        }
        let node = self.dir_by_ids(path, ids)?;
        self.last = Some((above.into(), *number, node));
        Ok(node)
    }
}
