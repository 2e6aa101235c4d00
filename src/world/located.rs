//! A thing and its path, for operations that come without a name.

use super::root::Node;
use crate::name::WorldPath;

/// A node and its path, for operations that come without a name.
#[derive(Debug)]
pub struct Located {
    /// The node.
    pub node: Node,
    /// Its path; in the trash after it was removed.
    pub path: WorldPath,
    /// Whether it was removed while open: it stays as writable as it was before, wherever it lies.
    pub removed: bool,
}
