//! The backend for changes to a mounted home: each change goes through the live world, then the inode table and the
//! kernel are updated.
//!
//! Must not run on a thread that answers requests: invalidating an entry waits for requests in progress.

use std::sync::Arc;

use crate::error::Result;
use crate::fuse::{CacheInvalidator, FileSystem, SharedState};
use crate::name::Name;
use crate::operator::undo::ChangeBackend;
use crate::world::keep::replace::NewContent;
use crate::world::view::in_trash;
use crate::world::{
    Caller, Dir, LocatedNode, Meta, RemovedNode, RenameMode, RenameResult, SetAttrs, World,
};

/// The backend of a mounted home.
pub(super) struct LiveBackend<'l> {
    shared: &'l Arc<SharedState>,
    fs: FileSystem,
    kernel: &'l dyn CacheInvalidator,
}

impl<'l> LiveBackend<'l> {
    /// Creates the backend for a served home.
    pub(super) fn new(
        shared: &'l Arc<SharedState>,
        kernel: &'l dyn CacheInvalidator,
    ) -> LiveBackend<'l> {
        LiveBackend {
            shared,
            fs: FileSystem::new(shared.clone()),
            kernel,
        }
    }

    fn number(&self, dir: &Dir) -> Option<u64> {
        self.shared.inodes.number_of(dir.id())
    }

    /// Makes the kernel look an entry up again.
    fn invalidate(&self, dir: &Dir, name: Name<'_>) {
        if let Some(number) = self.number(dir) {
            self.kernel.invalidate_entry(number, name.bytes());
        }
    }

    /// Invalidates what the kernel knows of a node. With the writeback cache the kernel trusts its own size and times
    /// until it forgets the node: so it has to look up its names again.
    fn changed_within(&self, id: crate::world::Id, content: bool) {
        let Some(number) = self.shared.inodes.number_of(id) else {
            return;
        };
        self.kernel.invalidate_inode(number, content);
        if self.shared.mechanisms.lock().writeback {
            for (parent, name) in self.shared.inodes.names_of(number) {
                self.kernel.invalidate_entry(parent, &name);
            }
        }
    }
}

impl ChangeBackend for LiveBackend<'_> {
    fn world(&self) -> &World {
        &self.shared.world
    }

    fn rename(
        &self,
        from: (&Dir, Name<'_>),
        to: (&Dir, Name<'_>),
        how: RenameMode,
        caller: Caller,
    ) -> Result<RenameResult> {
        let inodes = &self.shared.inodes;
        let (parent, new_parent) = (self.number(from.0), self.number(to.0));
        let moved = {
            let _moving = inodes.begin_move();
            let moved = self
                .world()
                .rename(from.0, from.1, to.0, to.1, how, caller)?;
            match (parent, new_parent) {
                (_, Some(new)) if in_trash(from.0.path()) => {
                    inodes.record_restore((new, to.1), moved.id);
                }
                (Some(old), Some(new)) => {
                    inodes.record_move((old, from.1), (new, to.1), moved.id);
                    if let Some(other) = moved.exchanged {
                        inodes.record_move((new, to.1), (old, from.1), other);
                    }
                }
                // The kernel knows no entries of a directory that it does not know.
                _ => {}
            }
            moved
        };
        self.invalidate(from.0, from.1);
        self.invalidate(to.0, to.1);
        self.changed_within(moved.id, false);
        Ok(moved)
    }

    fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode> {
        let inodes = &self.shared.inodes;
        let removed = {
            let _moving = inodes.begin_move();
            let removed = self.world().discard(dir, name, caller)?;
            if let Some(parent) = self.number(dir) {
                inodes.record_removal((parent, name), removed.id, removed.entry.bytes());
            }
            removed
        };
        self.invalidate(dir, name);
        self.changed_within(removed.id, false);
        Ok(removed)
    }

    fn put_content(
        &self,
        located: &LocatedNode,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Result<Meta> {
        // Data still to be written back belong to the old content, which is kept.
        self.changed_within(located.node.meta().id, true);
        let meta = self.fs.put_content(located, content, caller)?;
        self.changed_within(meta.id, true);
        Ok(meta)
    }

    fn set_attr(&self, located: &LocatedNode, change: SetAttrs, caller: Caller) -> Result<Meta> {
        let meta = self.fs.set_attr(located, change, caller)?;
        match self.shared.inodes.number_of(meta.id) {
            // Who works in a directory keeps it: its name leads there as before.
            Some(number) if meta.is_dir() => self.kernel.invalidate_inode(number, false),
            _ => self.changed_within(meta.id, change.size.is_some()),
        }
        Ok(meta)
    }

    fn note_new_entry(&self, dir: &Dir, name: Name<'_>) {
        self.invalidate(dir, name);
    }
}
