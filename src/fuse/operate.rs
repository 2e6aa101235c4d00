//! What an operator does to a file while the home is mounted: with the turn of the file, and knowing how it is open.

use super::FileSystem;
use super::door::Opens;
use crate::error::Result;
use crate::world::replace::NewContent;
use crate::world::{Caller, Change, Held, Meta};

impl FileSystem {
    /// Puts another content in a file's place.
    ///
    /// # Errors
    /// As [`World::put_content`](crate::world::World::put_content).
    pub fn put_content(
        &self,
        held: &Held,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Result<Meta> {
        // Also for a file that the kernel does not know: who opens it now waits for the turn of this number.
        let number = self.inodes().number_for_listing(held.node.meta().id);
        let _turn = self.shared.handles.turn(number, true)?;
        let opens = Opens::through(self, number, None, true);
        let held = self.again(held)?;
        self.world().put_content(&held, content, &opens, caller)
    }

    /// Sets attributes, the size too.
    ///
    /// # Errors
    /// As [`World::set_attr`](crate::world::World::set_attr).
    pub fn set_attr(&self, held: &Held, change: Change, caller: Caller) -> Result<Meta> {
        let number = self.inodes().number_for_listing(held.node.meta().id);
        let _turn = self.shared.handles.turn(number, true)?;
        let opens = Opens::through(self, number, None, true);
        let held = self.again(held)?;
        self.world().set_attr(&held, change, None, &opens, caller)
    }

    /// Looks at a thing again, now that it has its turn: its size may be another, or another inode in its place.
    fn again(&self, held: &Held) -> Result<Held> {
        let id = held.node.meta().id;
        Ok(Held {
            node: self.world().root().node_expecting(&held.path, id)?,
            path: held.path.clone(),
            removed: held.removed,
        })
    }
}
