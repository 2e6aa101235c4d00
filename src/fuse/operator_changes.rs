//! An operator's changes to files while the home is mounted: under the inode lock, with the state of its opens.

use super::FileSystem;
use super::open_state::FileOpens;
use crate::error::Result;
use crate::world::keep::replace::NewContent;
use crate::world::{Caller, LocatedNode, Meta, SetAttrs};

impl FileSystem {
    /// Replaces a file's content.
    ///
    /// # Errors
    /// As [`World::put_content`](crate::world::World::put_content).
    pub fn put_content(
        &self,
        located: &LocatedNode,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Result<Meta> {
        // Also for a file that the kernel does not know: an open meanwhile waits for the lock of this number.
        let number = self.inodes().peek_or_reserve(located.node.meta().id);
        let _turn = self.shared.handles.inode_lock(number, true)?;
        let opens = FileOpens::for_request(self, number, None, true);
        let located = self.reload(located)?;
        self.world().put_content(&located, content, &opens, caller)
    }

    /// Sets attributes, including the size.
    ///
    /// # Errors
    /// As [`World::set_attr`](crate::world::World::set_attr).
    pub fn set_attr(
        &self,
        located: &LocatedNode,
        change: SetAttrs,
        caller: Caller,
    ) -> Result<Meta> {
        let number = self.inodes().peek_or_reserve(located.node.meta().id);
        let _turn = self.shared.handles.inode_lock(number, true)?;
        let opens = FileOpens::for_request(self, number, None, true);
        let located = self.reload(located)?;
        self.world()
            .set_attr(&located, change, None, &opens, caller)
    }

    /// Looks at a node again under its inode lock: its size may have changed, or another inode taken its place.
    fn reload(&self, located: &LocatedNode) -> Result<LocatedNode> {
        let id = located.node.meta().id;
        Ok(LocatedNode {
            node: self.world().root().node_expecting(&located.path, id)?,
            path: located.path.clone(),
            removed: located.removed,
        })
    }
}
