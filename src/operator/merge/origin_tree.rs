//! The origin as it is now, for a merge: the node at a path, leaving out those that the merge itself takes away.

use std::collections::HashSet;
use std::rc::Rc;

use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::{DiskTree, NodeId, PastTree};
use crate::world::store::layout::{STATE, TRASH};

/// The origin's tree.
pub(super) struct OriginTree<'a> {
    pub(super) tree: PastTree<'a>,
    /// The paths that the merge takes away, by moving or removing the nodes there.
    pub(super) leaving: HashSet<WorldPath>,
    /// The directories that the merge makes or moves there.
    pub(super) coming: HashSet<WorldPath>,
}

impl<'a> OriginTree<'a> {
    pub(super) fn of(store: &'a Store) -> OriginTree<'a> {
        OriginTree {
            tree: PastTree::now(Rc::new(DiskTree::new(store))),
            leaving: HashSet::new(),
            coming: HashSet::new(),
        }
    }

    /// Returns the node at a path.
    ///
    /// # Errors
    /// As [`PastTree::resolve`], with the path where this user may not look into a directory.
    pub(super) fn node_at(&self, path: &WorldPath) -> Result<Option<NodeId>> {
        let at = self.tree.resolve(path);
        at.map_err(|error| error.of_reading(|| path.to_string()))
    }

    /// Returns the node at a path, unless the merge takes it away.
    ///
    /// # Errors
    /// As [`PastTree::resolve`].
    pub(super) fn stays_at(&self, path: &WorldPath) -> Result<Option<NodeId>> {
        if self.leaving.contains(path) {
            Ok(None)
        } else {
            self.node_at(path)
        }
    }

    /// Returns whether the parent directory of a path will exist.
    ///
    /// # Errors
    /// As [`PastTree::resolve`].
    pub(super) fn has_parent_of(&self, path: &WorldPath) -> Result<bool> {
        let parent = path.parent().unwrap_or_default();
        let mut above = Some(parent.clone());
        while let Some(dir) = above {
            if self.coming.contains(&dir) {
                return Ok(true);
            }
            above = dir.parent();
        }
        let node = self.stays_at(&parent)?;
        Ok(node.is_some_and(|node| self.tree.kind(node).is_dir()))
    }

    /// Returns the first entry of a directory that the merge leaves there.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub(super) fn remaining_entry(
        &self,
        dir: NodeId,
        path: &WorldPath,
    ) -> Result<Option<WorldPath>> {
        for name in self.tree.children(dir)?.keys() {
            if path.is_root() && (**name == *TRASH || **name == *STATE) {
                continue;
            }
            let inner = path.join(crate::name::Name::new(name)?);
            if !self.leaving.contains(&inner) {
                return Ok(Some(inner));
            }
        }
        Ok(None)
    }
}
