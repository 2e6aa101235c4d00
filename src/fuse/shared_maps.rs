//! Shared maps that outlive their descriptors.
//!
//! A map of a file that is open in passthrough is one of the backing file: the kernel holds that, and tells of the
//! close of the file (RELEASE) although the map goes on (fs/backing-file.c, `backing_file_mmap`). What is stored
//! through it is seen by nobody. So a file that was open for reading and writing past the daemon, without which there
//! is no such map, counts as open for writing until nobody has its inode open. [`CacheKnowledge::Mapped`] says which
//! files that may be; the kernel says whether it is so, when somebody needs to know it.
//!
//! So the stamp of a file that its process still maps at a close waits until its last descriptor is gone, or for a seal.
//! It is taken then if no map is left and nothing was changed since the close; else the file has none, since nobody
//! knows whether the map changed it or somebody else.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::handles::DataPath;
use super::open_state::HomeWriters;
use super::page_cache::CacheKnowledge;
use super::{FileSystem, SharedState};
use crate::sys::fd::has_no_writer;
use crate::world::root::stat_fd;
use crate::world::{Meta, Node, SealListener};

/// Returns whether a file that is opened like this can be mapped so that the map outlives the descriptor.
pub(super) fn can_outlive(flags: OFlags, way: &DataPath) -> bool {
    flags & OFlags::RWMODE == OFlags::RDWR && matches!(way, DataPath::Passthrough(_))
}

/// The files that were closed and may still be mapped, as they were at the close.
#[derive(Debug, Default)]
pub struct ClosedMaps(Mutex<HashMap<u64, LeftAfter>>);

/// The state of a file at a close, and the last record then.
type LeftAfter = (Meta, u64);

impl ClosedMaps {
    /// Notes the state of a node at a close.
    pub(super) fn note(&self, number: u64, left: LeftAfter) {
        self.0.lock().insert(number, left);
    }

    /// Forgets the state of a node at an earlier close: somebody outside the home has written to the file.
    pub(super) fn forget(&self, number: u64) {
        self.0.lock().remove(&number);
    }
}

impl SealListener for HomeWriters {
    fn before_seal(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.stamp_closed_maps(false);
            shared.mark_held_files();
            shared.world.stamp_indexes();
            shared.world.keep_run_texts();
        }
    }
}

impl SharedState {
    /// Takes the stamp of a file whose descriptor is gone, if it is not mapped.
    pub(super) fn stamp_closed_map(&self, number: u64) {
        let Some(left) = self.closed_maps.0.lock().remove(&number) else {
            return;
        };
        if !self.stamp_if_unmapped(number, &left, false) {
            self.closed_maps.0.lock().entry(number).or_insert(left);
        }
    }

    /// Takes the stamps of files that were closed and are mapped no more. `may_wait` is true if there is time to wait for
    /// whoever looks at one.
    pub(super) fn stamp_closed_maps(&self, may_wait: bool) {
        let closed = std::mem::take(&mut *self.closed_maps.0.lock());
        for (number, left) in closed {
            if !self.stamp_if_unmapped(number, &left, may_wait) {
                self.closed_maps.0.lock().entry(number).or_insert(left);
            }
        }
    }

    /// Takes the stamp of a file that is as it was left. Returns false if that cannot be told yet.
    fn stamp_if_unmapped(&self, number: u64, (left, since): &LeftAfter, may_wait: bool) -> bool {
        let Ok(_turn) = self.handles.inode_lock(number, may_wait) else {
            return false;
        };
        if self.handles.is_open(number).1 {
            return false;
        }
        let root = self.world.root();
        let place = self.inodes.location(number);
        let node = place.and_then(|place| root.node_expecting(&place.path, left.id));
        let Ok(file) = node.and_then(|node| root.reopen_quietly(&node)) else {
            return true;
        };
        if self.is_mapped_file(number, file.as_fd()) {
            return false;
        }
        let is_as_left = |now: &Meta| (now.size, now.mtime) == (left.size, left.mtime);
        if stat_fd(file.as_fd()).is_ok_and(|now| is_as_left(&now)) {
            self.world.note_left_since(left, *since);
        }
        true
    }

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
