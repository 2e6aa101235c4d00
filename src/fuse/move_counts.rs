//! Moves, which make paths outdated that were computed before; and those of directories also descriptors that were
//! found by them.
//!
//! Owns the counts of them in the inode table. No lock: atomic numbers.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::inodes::InodeTable;

/// A move in progress, into the trash too; it ends when dropped.
#[derive(Debug)]
#[must_use = "the move lasts as long as this"]
pub struct MoveGuard<'a> {
    inodes: &'a InodeTable,
    moves_no_dir: Cell<bool>,
}

impl MoveGuard<'_> {
    /// Says that no directory moves: those that were found before are still there.
    pub fn set_moves_no_dir(&self) {
        self.moves_no_dir.set(true);
    }
}

impl Drop for MoveGuard<'_> {
    fn drop(&mut self) {
        if !self.moves_no_dir.get() {
            self.inodes.dir_changed();
        }
        self.inodes.moved.fetch_add(1, Ordering::SeqCst);
        self.inodes.moving.fetch_sub(1, Ordering::SeqCst);
    }
}

impl InodeTable {
    /// Announces that something may be about to move; paths may be wrong until the guard is dropped.
    pub fn begin_move(&self) -> MoveGuard<'_> {
        self.moving.fetch_add(1, Ordering::SeqCst);
        MoveGuard {
            inodes: self,
            moves_no_dir: Cell::new(false),
        }
    }

    /// Notes that a directory may have moved, or changed its permissions or its mark.
    pub fn dir_changed(&self) {
        self.dir_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the count of such changes.
    pub fn dir_changes(&self) -> u64 {
        self.dir_changes.load(Ordering::SeqCst)
    }

    /// Returns the count of moves, for [`InodeTable::moved_since`].
    pub fn move_count(&self) -> u64 {
        self.moved.load(Ordering::SeqCst)
    }

    /// Returns whether something is moving, or has moved since then.
    pub fn moved_since(&self, before: u64) -> bool {
        self.moving.load(Ordering::SeqCst) > 0 || self.move_count() != before
    }
}
