//! The subject of an operation: its paths, its inodes, what it moved to the trash and what it kept.
//!
//! Owns, for each operation, the meaning of its fields. Also the rule that the store's own device has no number in a
//! journal: a disk's number may change with the next boot, and that of a btrfs or a tmpfs with each mount.

use super::former::{ReplacedFile, VersionRef};
use super::ids::InodeNumbers;
use super::op::Op;
use super::record::Record;
use crate::name::{EscapedBytes, WorldPath};

/// A file or directory that became an entry of the trash: removed, or replaced by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrashedNode<'a> {
    /// The path before.
    pub path: &'a WorldPath,
    /// The node's inode.
    pub ids: InodeNumbers,
    /// The node's entry in the trash.
    pub entry: &'a EscapedBytes,
}

/// Iterates over the inodes of an operation, borrowed or mutable.
macro_rules! ids_of {
    ($op:expr, $as_option:ident) => {{
        let [one, other] = match $op {
            Op::Link { ids, .. }
            | Op::Write { ids, .. }
            | Op::Allocate { ids, .. }
            | Op::Attr { ids, .. }
            | Op::Xattr { ids, .. }
            | Op::Unlink { ids, .. }
            | Op::Rmdir { ids, .. } => [Some(ids), None],
            Op::Truncate { ids, new, .. } | Op::Content { ids, new, .. } => {
                [Some(ids), new.$as_option()]
            }
            Op::Rename { ids, replaced, .. } | Op::Restore { ids, replaced, .. } => {
                let replaced = replaced.$as_option().map(|ReplacedFile { ids, .. }| ids);
                [Some(ids), replaced]
            }
            Op::Exchange { ids, other, .. } => [Some(ids), Some(other)],
            Op::Begin { .. }
            | Op::End { .. }
            | Op::Run { .. }
            | Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Gather { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Accept { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => [None, None],
        };
        one.into_iter().chain(other)
    }};
}

impl Record {
    /// Replaces 0 by the current number of the store's device.
    #[must_use]
    pub fn with_device(mut self, device: u64) -> Record {
        for ids in self.op.ids_mut().filter(|ids| ids[0] == 0) {
            ids[0] = device;
        }
        self
    }
}

impl Op {
    /// Replaces the number of the store's device by 0, as in journals.
    pub(super) fn clear_device(&mut self, device: u64) {
        for ids in self.ids_mut().filter(|ids| ids[0] == device) {
            ids[0] = 0;
        }
    }

    /// Returns the path of the subject; the path before, if it moved or went.
    pub fn path(&self) -> Option<&WorldPath> {
        match self {
            Op::Create { path, .. }
            | Op::Mkdir { path, .. }
            | Op::Mknod { path, .. }
            | Op::Symlink { path, .. }
            | Op::Link { path, .. }
            | Op::Write { path, .. }
            | Op::Truncate { path, .. }
            | Op::Content { path, .. }
            | Op::Allocate { path, .. }
            | Op::Attr { path, .. }
            | Op::Xattr { path, .. }
            | Op::Unlink { path, .. }
            | Op::Rmdir { path, .. }
            | Op::Gather { path, .. }
            | Op::Rename { path, .. }
            | Op::Exchange { path, .. }
            | Op::Restore { path, .. } => Some(path),
            Op::Begin { .. }
            | Op::End { .. }
            | Op::Run { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Accept { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => None,
        }
    }

    /// Returns the path of a file whose content or attributes changed, and its inode after.
    pub fn changed_file(&self) -> Option<(&WorldPath, InodeNumbers)> {
        match self {
            Op::Truncate { path, ids, new, .. } | Op::Content { path, ids, new, .. } => {
                Some((path, new.unwrap_or(*ids)))
            }
            Op::Write { path, ids, .. }
            | Op::Allocate { path, ids, .. }
            | Op::Attr { path, ids, .. }
            | Op::Xattr { path, ids, .. } => Some((path, *ids)),
            _ => None,
        }
    }

    /// As [`Op::changed_file`], with the path to be corrected.
    pub fn changed_file_mut(&mut self) -> Option<(&mut WorldPath, InodeNumbers)> {
        match self {
            Op::Truncate { path, ids, new, .. } | Op::Content { path, ids, new, .. } => {
                let ids = new.unwrap_or(*ids);
                Some((path, ids))
            }
            Op::Write { path, ids, .. }
            | Op::Allocate { path, ids, .. }
            | Op::Attr { path, ids, .. }
            | Op::Xattr { path, ids, .. } => Some((path, *ids)),
            _ => None,
        }
    }

    /// Returns the path after, or the second path of an exchange.
    pub fn to(&self) -> Option<&WorldPath> {
        match self {
            Op::Rename { to, .. } | Op::Exchange { to, .. } | Op::Restore { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Returns [`Op::path`], then [`Op::to`].
    pub fn paths(&self) -> impl Iterator<Item = &WorldPath> {
        self.path().into_iter().chain(self.to())
    }

    /// Iterates over the inodes of the operation.
    pub fn ids(&self) -> impl Iterator<Item = &InodeNumbers> {
        ids_of!(self, as_ref)
    }

    fn ids_mut(&mut self) -> impl Iterator<Item = &mut InodeNumbers> {
        ids_of!(self, as_mut)
    }

    /// Returns what the operation moved to the trash.
    pub fn trashed(&self) -> Option<TrashedNode<'_>> {
        match self {
            Op::Unlink { path, ids, trash } | Op::Rmdir { path, ids, trash } => Some(TrashedNode {
                path,
                ids: *ids,
                entry: trash,
            }),
            Op::Rename { to, replaced, .. } | Op::Restore { to, replaced, .. } => replaced
                .as_ref()
                .map(|ReplacedFile { ids, trash }| TrashedNode {
                    path: to,
                    ids: *ids,
                    entry: trash,
                }),
            _ => None,
        }
    }

    /// Returns a file's content before the change: how and where it was kept, and its size in bytes.
    pub fn content(&self) -> Option<(Option<VersionRef>, u64)> {
        match self {
            Op::Write { kept, size, .. }
            | Op::Truncate { kept, size, .. }
            | Op::Content { kept, size, .. }
            | Op::Allocate { kept, size, .. } => Some((*kept, *size)),
            _ => None,
        }
    }

    /// Returns how and where the content before was kept, and its size in bytes.
    pub fn kept(&self) -> Option<(VersionRef, u64)> {
        let (kept, size) = self.content()?;
        Some((kept?, size))
    }

    /// Iterates over the paths whose directories gain or lose an entry, in the order of the record's times.
    pub fn changed_dirs(&self) -> impl Iterator<Item = &WorldPath> {
        let changes = match self {
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::Exchange { .. }
            | Op::Restore { .. } => true,
            // Gathering only changes the trash.
            Op::Gather { .. }
            | Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Content { .. }
            | Op::Allocate { .. }
            | Op::Attr { .. }
            | Op::Xattr { .. }
            | Op::Begin { .. }
            | Op::End { .. }
            | Op::Run { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Accept { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => false,
        };
        self.paths().filter(move |_| changes)
    }
}
