//! The interface by which the world asks its caller whether a file is open for writing.

use std::os::fd::OwnedFd;

use crate::name::WorldPath;
use crate::world::root::Root;
use trumanfs_types::meta::Id;

/// The status of a file's writers.
#[derive(Debug)]
pub enum WriteStatus {
    /// The file is not open for writing. It comes open for reading; absent if it cannot be found.
    AtRest(Option<OwnedFd>),
    /// The file is open for writing.
    Written,
    /// The file may be written to through a map. No close will report the end of the map.
    Mapped,
    /// Another thread holds the file's inode lock.
    Busy,
}

/// The table of files that are open for writing.
pub trait OpenWriters: Send + Sync + std::fmt::Debug {
    /// Returns the status of a file's writers. `path` is its last known path.
    fn write_status(&self, id: Id, path: &WorldPath) -> WriteStatus;
    /// Calls `look` under a file's inode lock, unless the file is open for writing. Returns false if another thread
    /// holds the lock.
    fn if_unwritten(&self, id: Id, look: &mut dyn FnMut()) -> bool;
}

/// The table of a world used in process, once it has closed all its own files.
#[derive(Debug)]
pub(in crate::world) struct NoWriters<'a>(pub(in crate::world) &'a Root);

impl OpenWriters for NoWriters<'_> {
    fn write_status(&self, id: Id, path: &WorldPath) -> WriteStatus {
        let node = self.0.node_expecting(path, id);
        WriteStatus::AtRest(node.and_then(|node| self.0.reopen_quietly(&node)).ok())
    }

    fn if_unwritten(&self, _id: Id, look: &mut dyn FnMut()) -> bool {
        look();
        true
    }
}
