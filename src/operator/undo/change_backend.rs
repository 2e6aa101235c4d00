//! The backend of an undo's changes: the world in process, or the daemon's own while the store is mounted, which also
//! notifies the kernel.

use crate::error::Result;
use crate::name::Name;
use crate::world::keep::replace::NewContent;
use crate::world::{
    Caller, Dir, LocatedNode, Meta, NoOpenState, RemovedNode, RenameMode, RenameResult, SetAttrs,
    World,
};

/// The changes that an undo consists of.
pub trait ChangeBackend {
    /// Returns the world.
    fn world(&self) -> &World;

    /// Moves an entry.
    ///
    /// # Errors
    /// As [`World::rename`].
    fn rename(
        &self,
        from: (&Dir, Name<'_>),
        to: (&Dir, Name<'_>),
        how: RenameMode,
        caller: Caller,
    ) -> Result<RenameResult> {
        self.world().rename(from.0, from.1, to.0, to.1, how, caller)
    }

    /// Moves an entry to the trash, with everything below it.
    ///
    /// # Errors
    /// As [`World::discard`].
    fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode> {
        self.world().discard(dir, name, caller)
    }

    /// Replaces a file's content.
    ///
    /// # Errors
    /// As [`World::put_content`].
    fn put_content(
        &self,
        located: &LocatedNode,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Result<Meta> {
        self.world()
            .put_content(located, content, &NoOpenState, caller)
    }

    /// Sets attributes, including the size.
    ///
    /// # Errors
    /// As [`World::set_attr`].
    fn set_attr(&self, located: &LocatedNode, change: SetAttrs, caller: Caller) -> Result<Meta> {
        self.world()
            .set_attr(located, change, None, &NoOpenState, caller)
    }

    /// Notifies the backend of a new entry.
    fn note_new_entry(&self, _dir: &Dir, _name: Name<'_>) {}
}

/// The in-process world of a store that is not mounted.
#[derive(Debug)]
pub struct OfflineBackend<'w>(pub &'w World);

impl ChangeBackend for OfflineBackend<'_> {
    fn world(&self) -> &World {
        self.0
    }
}
