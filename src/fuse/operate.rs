//! What an operator does to a file while the home is mounted: with the turn of the file, and knowing how it is open.

use super::FileSystem;
use super::open_state::Opens;
use crate::error::Result;
use crate::world::replace::NewContent;
use crate::world::{Caller, Located, Meta, SetAttrs};

impl FileSystem {
    /// Puts another content in a file's place.
    ///
    /// # Errors
    /// As [`World::put_content`](crate::world::World::put_content).
    pub fn put_content(
        &self,
        located: &Located,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Result<Meta> {
        // Also for a file that the kernel does not know: who opens it now waits for the turn of this number.
        let number = self.inodes().peek_or_reserve(located.node.meta().id);
        let _turn = self.shared.handles.inode_lock(number, true)?;
        let opens = Opens::through(self, number, None, true);
        let located = self.again(located)?;
        self.world().put_content(&located, content, &opens, caller)
    }

    /// Sets attributes, the size too.
    ///
    /// # Errors
    /// As [`World::set_attr`](crate::world::World::set_attr).
    pub fn set_attr(&self, located: &Located, change: SetAttrs, caller: Caller) -> Result<Meta> {
        let number = self.inodes().peek_or_reserve(located.node.meta().id);
        let _turn = self.shared.handles.inode_lock(number, true)?;
        let opens = Opens::through(self, number, None, true);
        let located = self.again(located)?;
        self.world()
            .set_attr(&located, change, None, &opens, caller)
    }

    /// Looks at a thing again, now that it has its turn: its size may be another, or another inode in its place.
    fn again(&self, located: &Located) -> Result<Located> {
        let id = located.node.meta().id;
        Ok(Located {
            node: self.world().root().node_expecting(&located.path, id)?,
            path: located.path.clone(),
            removed: located.removed,
        })
    }
}
