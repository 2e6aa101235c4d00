//! Who carries out what an operator wants: the world in process, or the daemon's own while the store is mounted, which
//! then also tells the kernel.

use crate::error::Result;
use crate::name::Name;
use crate::world::replace::NewContent;
use crate::world::{
    Caller, Dir, Located, Meta, Moved, NoOpenState, Removed, Renaming, SetAttrs, World,
};

/// The changes that an undo is made of.
pub trait Applier {
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
        how: Renaming,
        caller: Caller,
    ) -> Result<Moved> {
        self.world().rename(from.0, from.1, to.0, to.1, how, caller)
    }

    /// Moves an entry into the trash, with all that is below it.
    ///
    /// # Errors
    /// As [`World::discard`].
    fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<Removed> {
        self.world().discard(dir, name, caller)
    }

    /// Puts another content in a file's place.
    ///
    /// # Errors
    /// As [`World::put_content`].
    fn put_content(
        &self,
        located: &Located,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Result<Meta> {
        self.world()
            .put_content(located, content, &NoOpenState, caller)
    }

    /// Sets attributes, the size too.
    ///
    /// # Errors
    /// As [`World::set_attr`].
    fn set_attr(&self, located: &Located, change: SetAttrs, caller: Caller) -> Result<Meta> {
        self.world()
            .set_attr(located, change, None, &NoOpenState, caller)
    }

    /// Is told that something was made.
    fn made(&self, _dir: &Dir, _name: Name<'_>) {}
}

/// The world in process, where nothing is mounted.
#[derive(Debug)]
pub struct InProcess<'w>(pub &'w World);

impl Applier for InProcess<'_> {
    fn world(&self) -> &World {
        self.0
    }
}
