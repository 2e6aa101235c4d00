//! The directories that records name: where they are, or were by their inode numbers.

use crate::error::Result;
use crate::journal::DirTime;
use crate::name::{Name, WorldPath};
use crate::operator::past::disk::node_id::{NodeId, ROOT};
use crate::operator::past::tree::past_tree::PastTree;

impl PastTree<'_> {
    /// As [`PastTree::resolve`], for a path in a record, through the cache.
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
    /// As [`PastTree::lookup`].
    pub fn dir_at(&mut self, path: &WorldPath, at: Option<&DirTime>) -> Result<NodeId> {
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
