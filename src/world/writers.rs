//! Who has files open for writing, as far as the world has to know: whether a file is at rest.

use std::os::fd::OwnedFd;

use super::meta::Id;
use super::root::Root;
use crate::name::WorldPath;

/// What a file is doing.
#[derive(Debug)]
pub enum Rest {
    /// Nobody has it open for writing. Here it is, open for reading; absent where it cannot be found.
    AtRest(Option<OwnedFd>),
    /// It is being written.
    Written,
    /// Somebody has its turn just now.
    Busy,
}

/// Knows who has files open.
pub trait Writers: Send + Sync + std::fmt::Debug {
    /// Finds out whether a file is at rest, and calls `look` with the answer in the file's turn, unless it is busy. `path`:
    /// where it was last.
    fn rest(&self, id: Id, path: &WorldPath, look: &mut dyn FnMut(bool)) -> Rest;
}

/// Where nobody but the world itself has files open, and has closed them all.
#[derive(Debug)]
pub(super) struct NobodyWrites<'a>(pub(super) &'a Root);

impl Writers for NobodyWrites<'_> {
    fn rest(&self, id: Id, path: &WorldPath, look: &mut dyn FnMut(bool)) -> Rest {
        look(true);
        let node = self.0.node_expecting(path, id);
        Rest::AtRest(node.and_then(|node| self.0.reopen_quietly(&node)).ok())
    }
}
