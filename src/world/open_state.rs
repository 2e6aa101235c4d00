//! The other opens of a file, as the caller of the world knows them, and hooks for the file's content.
//!
//! Keeping a content (`versions.rs`, `replace.rs`) depends on it: writes through an open file may bypass the daemon,
//! and an open file must not be left with another inode than its name has. The FUSE daemon implements it; in-process
//! users have [`NoOpenState`].

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::error::Result;
use crate::journal::VersionRef;
use crate::world::keep::blocks::BlockVersion;
use trumanfs_types::meta::Meta;

/// The other opens of a file, as the caller of the world knows them, and hooks for the file's content. The defaults
/// hold for a caller that sees nothing.
pub trait OpenState {
    /// Returns whether the file is open.
    fn is_open(&self) -> bool;
    /// Returns whether the file is open for writing or may be written to through a map: then its writers cannot change
    /// to another inode.
    fn is_written(&self) -> bool {
        false
    }
    /// Returns whether the open in progress only appends, although its flags do not say so.
    fn only_appends(&self) -> bool {
        false
    }
    /// Returns whether there is time for a long copy.
    fn may_wait(&self) -> bool {
        true
    }
    /// Returns whether every later write can be seen, including those of the open in progress.
    fn sees_writes(&self) -> bool {
        false
    }
    /// Returns whether an earlier record of the same open file has already kept the content that is about to be
    /// destroyed.
    fn is_covered(&self) -> bool {
        false
    }
    /// Returns the version that is now being saved block by block.
    fn block_version(&self) -> Option<Arc<BlockVersion>> {
        None
    }
    /// Returns the latest copy of the whole content made while the file has been open.
    fn latest_copy(&self) -> Option<VersionRef> {
        None
    }
    /// Reports that a version of the whole content has been started.
    fn note_version_started(&self, _begun: StartedVersion) {}
    /// Reports that the open in progress only appends, and that only this length has been kept: an operation that
    /// destroys a byte before it has to keep the content first.
    fn note_length_kept(&self, _length: u64) {}
    /// Returns whether another inode may take the file's place while it is open: all openers get the new inode, and no
    /// pending write can reach the old one.
    fn hands_over(&self) -> bool {
        false
    }
    /// Runs `act`, which puts another inode, open as `file`, in the file's place.
    ///
    /// # Errors
    /// Any error from `act` or from opening the new inode for the openers; the old inode then stays.
    fn replace_inode(
        &self,
        _new: &Meta,
        _file: BorrowedFd<'_>,
        act: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        act()
    }
}

/// A newly started version of a whole content.
#[derive(Debug, Clone, Default)]
pub struct StartedVersion {
    /// The version being saved block by block as the file is overwritten; absent if nothing is to be saved.
    pub blocks: Option<Arc<BlockVersion>>,
    /// The version that is a whole copy.
    pub copy: Option<VersionRef>,
}

/// The open state of an in-process user: nothing is open, and writes through open files are not seen.
#[derive(Debug, Clone, Copy)]
pub struct NoOpenState;

impl OpenState for NoOpenState {
    fn is_open(&self) -> bool {
        false
    }
}
