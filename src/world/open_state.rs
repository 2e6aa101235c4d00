//! What the way into the world knows of a file's other opens, and what it has to hear of the file's content.
//!
//! Keeping (`versions.rs`, `replace.rs`) depends on it: writes through an open file may pass the daemon by, and who has a
//! file open must not be left with another inode than the name means. The FUSE daemon is one door; who works in process has
//! [`NoOpenState`].

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::blocks::Blocks;
use super::meta::Meta;
use crate::error::Result;
use crate::journal::Kept;

/// What the way into the world knows of a file's other opens, and has to hear of its content. What it says by itself is
/// what is true of somebody who sees nothing.
pub trait OpenState {
    /// Returns whether the file is open.
    fn is_open(&self) -> bool;
    /// Returns whether there is time to copy much.
    fn may_wait(&self) -> bool {
        true
    }
    /// Returns whether every write that may come can be seen, those of the open under way too.
    fn sees_writes(&self) -> bool {
        false
    }
    /// Returns whether an earlier record of the same open file has kept what is about to be destroyed.
    fn is_covered(&self) -> bool {
        false
    }
    /// Returns the version that is saved block by block at this time.
    fn blocks(&self) -> Option<Arc<Blocks>> {
        None
    }
    /// Returns the copy that was made of the whole content last, while the file has been open.
    fn copy(&self) -> Option<Kept> {
        None
    }
    /// A version of the whole content has been begun.
    fn kept(&self, _begun: StartedVersion) {}
    /// Returns whether another inode may take the file's place although it is open: whoever has it open gets the new one,
    /// and nothing that is still to be written can go to the old one.
    fn hands_over(&self) -> bool {
        false
    }
    /// Lets another inode, open as `file`, take the file's place.
    ///
    /// # Errors
    /// Those of `act`, and of opening the new inode for others; then it has not.
    fn replace(
        &self,
        _new: &Meta,
        _file: BorrowedFd<'_>,
        act: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        act()
    }
}

/// A version of a whole content, from now on.
#[derive(Debug, Clone, Default)]
pub struct StartedVersion {
    /// The one that is saved as the file is overwritten; else there is nothing to save.
    pub blocks: Option<Arc<Blocks>>,
    /// The one that is a copy.
    pub copy: Option<Kept>,
}

/// The door of who works in process: nothing is open, and nobody sees what is written through an open file.
#[derive(Debug, Clone, Copy)]
pub struct NoOpenState;

impl OpenState for NoOpenState {
    fn is_open(&self) -> bool {
        false
    }
}
