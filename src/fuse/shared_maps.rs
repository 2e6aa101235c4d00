//! Shared maps that outlive their descriptors.
//!
//! A map of a file that is open in passthrough is one of the backing file: the kernel holds that, and tells of the
//! close of the file (RELEASE) although the map goes on (fs/backing-file.c, `backing_file_mmap`). What is stored
//! through it is seen by nobody. So a file that was open for reading and writing past the daemon, without which there
//! is no such map, counts as open for writing until nobody has its inode open. [`CacheKnowledge::Mapped`] says which
//! files that may be; the kernel says whether it is so, when somebody needs to know it.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;

use super::handles::DataPath;
use super::page_cache::CacheKnowledge;
use super::{FileSystem, SharedState};
use crate::sys::fd::has_no_writer;
use crate::world::Node;

/// Returns whether a file that is opened like this can be mapped so that the map outlives the descriptor.
pub(super) fn can_outlive(flags: OFlags, way: &DataPath) -> bool {
    flags & OFlags::RWMODE == OFlags::RDWR && matches!(way, DataPath::Passthrough(_))
}

impl SharedState {
    /// Returns whether a node that nobody has open for writing may still be written to through a map. Needs its inode
    /// lock.
    pub(super) fn is_mapped(&self, number: u64, node: impl FnOnce() -> Option<Node>) -> bool {
        if self.inodes.cache_knowledge(number) != CacheKnowledge::Mapped {
            return false;
        }
        let root = self.world.root();
        let file = node().and_then(|node| root.reopen_quietly(&node).ok());
        file.is_none_or(|file| self.is_mapped_file(number, file.as_fd()))
    }

    /// The same, given the file, open for reading only.
    pub(super) fn is_mapped_file(&self, number: u64, file: BorrowedFd<'_>) -> bool {
        if self.inodes.cache_knowledge(number) != CacheKnowledge::Mapped {
            return false;
        }
        // Where the kernel cannot tell, it may be.
        let is_mapped = !has_no_writer(file).unwrap_or(false);
        if !is_mapped {
            self.inodes
                .set_cache_knowledge(number, CacheKnowledge::Nothing);
        }
        is_mapped
    }
}

impl FileSystem {
    /// Returns whether a node that nobody has open for writing may still be written to through a map. Needs its inode
    /// lock.
    pub(super) fn is_mapped(&self, number: u64) -> bool {
        let node = || self.locate(number).ok().map(|located| located.node);
        self.shared.is_mapped(number, node)
    }
}
