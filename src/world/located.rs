//! A node with its path, for operations that come without a name.

use super::root::{Node, Root};
use super::view::VisibleEntry;
use crate::error::{Error, Result};
use crate::name::WorldPath;
use trumanfs_types::meta::Meta;

/// A node and its path, for operations that come without a name.
#[derive(Debug)]
pub struct LocatedNode {
    /// The node.
    pub node: Node,
    /// The node's path; in the trash after the node was removed.
    pub path: WorldPath,
    /// True if the node was removed while open: it stays as writable as it was before, wherever it lies.
    pub removed: bool,
}

impl LocatedNode {
    /// Opens an entry that the view has admitted.
    ///
    /// # Errors
    /// `ENOENT` if another node has its name by now.
    pub(super) fn of(found: &VisibleEntry<'_>) -> Result<LocatedNode> {
        let node = found.dir.node(found.name)?;
        if node.meta().id == found.meta.id {
            Ok(LocatedNode {
                node,
                path: found.path(),
                removed: false,
            })
        } else {
            Err(Error::NotFound)
        }
    }
}

/// Returns the attributes of the node at a path of the store, if there is one.
///
/// # Errors
/// Any other error from the system calls.
pub(super) fn stat(root: &Root, path: &WorldPath) -> Result<Option<Meta>> {
    let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
        return Ok(None);
    };
    match root.dir(&parent).and_then(|dir| dir.stat(name)) {
        Ok(meta) => Ok(Some(meta)),
        Err(Error::NotFound | Error::NotDirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
