//! Which inode a record is about.
//!
//! Owns the rule that the device of the store has no number in a journal: what number a disk has, the next boot may decide
//! otherwise, and that of a btrfs or a tmpfs each mount.

use super::{Op, Record};

/// Which inode: `[st_dev, st_ino]`. In a journal 0 is the device that the store is on.
pub type Ids = [u64; 2];

impl Record {
    /// Puts the number that the store's device has now where the journal says 0.
    #[must_use]
    pub fn on(mut self, device: u64) -> Record {
        self.op.each_ids(|ids| {
            if ids[0] == 0 {
                ids[0] = device;
            }
        });
        self
    }
}

impl Op {
    /// Puts 0 for the device of the store, as journals have it.
    pub(super) fn off(&mut self, device: u64) {
        self.each_ids(|ids| {
            if ids[0] == device {
                ids[0] = 0;
            }
        });
    }

    /// Visits all that it says of which inodes it is about.
    pub fn inodes(&self, mut visit: impl FnMut(Ids)) {
        match self {
            Op::Link { ids, .. }
            | Op::Write { ids, .. }
            | Op::Allocate { ids, .. }
            | Op::Attr { ids, .. }
            | Op::Xattr { ids, .. }
            | Op::Unlink { ids, .. }
            | Op::Rmdir { ids, .. } => visit(*ids),
            Op::Truncate { ids, new, .. } | Op::Content { ids, new, .. } => {
                visit(*ids);
                new.iter().copied().for_each(visit);
            }
            Op::Rename { ids, replaced, .. } | Op::Restore { ids, replaced, .. } => {
                visit(*ids);
                replaced.iter().map(|replaced| replaced.ids).for_each(visit);
            }
            Op::Exchange { ids, other, .. } => {
                visit(*ids);
                visit(*other);
            }
            Op::Begin { .. }
            | Op::End
            | Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Gather { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => {}
        }
    }

    /// As [`Op::inodes`], to change them.
    fn each_ids(&mut self, mut visit: impl FnMut(&mut Ids)) {
        match self {
            Op::Link { ids, .. }
            | Op::Write { ids, .. }
            | Op::Allocate { ids, .. }
            | Op::Attr { ids, .. }
            | Op::Xattr { ids, .. }
            | Op::Unlink { ids, .. }
            | Op::Rmdir { ids, .. } => visit(ids),
            Op::Truncate { ids, new, .. } | Op::Content { ids, new, .. } => {
                visit(ids);
                new.iter_mut().for_each(visit);
            }
            Op::Rename { ids, replaced, .. } | Op::Restore { ids, replaced, .. } => {
                visit(ids);
                let replaced = replaced.iter_mut().map(|replaced| &mut replaced.ids);
                replaced.for_each(visit);
            }
            Op::Exchange { ids, other, .. } => {
                visit(ids);
                visit(other);
            }
            Op::Begin { .. }
            | Op::End
            | Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Gather { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => {}
        }
    }
}
