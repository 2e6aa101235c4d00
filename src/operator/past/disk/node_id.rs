//! The numbers that stand for nodes and names.

use std::num::NonZeroU32;

use super::interner::NameId;

/// A file, directory or special file, independent of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NonZeroU32);

/// A directory and a name in it.
pub type DirSlot = (NodeId, Box<[u8]>);

/// A compact [`DirSlot`].
pub(in crate::operator) type NameSlot = (NodeId, NameId);

/// The root of the store.
pub const ROOT: NodeId = NodeId(NonZeroU32::MIN);

impl From<NonZeroU32> for NodeId {
    fn from(number: NonZeroU32) -> NodeId {
        NodeId(number)
    }
}

impl NodeId {
    /// Returns its number, from 1.
    pub(in crate::operator::past) fn number(self) -> NonZeroU32 {
        self.0
    }

    /// Returns its index, from 0.
    pub(in crate::operator::past) fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Returns the node with an index.
    pub(in crate::operator::past) fn numbered(index: usize) -> Option<NodeId> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(NodeId)
    }
}
