//! A thing and its path, for operations that come without a name.

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
    /// Its path; in the trash after it was removed.
    pub path: WorldPath,
    /// Whether it was removed while open: it stays as writable as it was before, wherever it lies.
    pub removed: bool,
}

impl LocatedNode {
    /// Opens what the view has found.
    ///
    /// # Errors
    /// `ENOENT` where something else has its name by now.
    pub(super) fn of(found: &VisibleEntry<'_>) -> Result<LocatedNode> {
        let node = found.dir.node(found.name)?;
        match node.meta().id == found.meta.id {
            true => Ok(LocatedNode {
                node,
                path: found.path(),
                removed: false,
            }),
            false => Err(Error::NotFound),
        }
    }
}

/// Returns the attributes of what is at a path of the store, if anything is.
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
