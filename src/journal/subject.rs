//! What an operation is about: its paths, its inodes, what went to the trash and what was kept.
//!
//! Owns, for each operation, which of its fields are which. And the rule that the device of the store has no number in a
//! journal: what number a disk has, the next boot may decide otherwise, and that of a btrfs or a tmpfs each mount.

use super::ids::Ids;
use super::op::{Kept, Op, Replaced};
use super::record::Record;
use crate::name::{Escaped, WorldPath};

/// A thing that became an entry of the trash: removed by itself, or replaced by what came in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trashed<'a> {
    /// Where it stood.
    pub path: &'a WorldPath,
    /// Which inode it is.
    pub ids: Ids,
    /// The entry.
    pub entry: &'a Escaped,
}

/// The inodes that an operation names, from a borrowed or a mutable one.
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
                let replaced = replaced.$as_option().map(|Replaced { ids, .. }| ids);
                [Some(ids), replaced]
            }
            Op::Exchange { ids, other, .. } => [Some(ids), Some(other)],
            Op::Begin { .. }
            | Op::End
            | Op::Run { .. }
            | Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Gather { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => [None, None],
        };
        one.into_iter().chain(other)
    }};
}

impl Record {
    /// Puts the number that the store's device has now where the journal says 0.
    #[must_use]
    pub fn on(mut self, device: u64) -> Record {
        for ids in self.op.ids_mut().filter(|ids| ids[0] == 0) {
            ids[0] = device;
        }
        self
    }
}

impl Op {
    /// Puts 0 for the device of the store, as journals have it.
    pub(super) fn off(&mut self, device: u64) {
        for ids in self.ids_mut().filter(|ids| ids[0] == device) {
            ids[0] = 0;
        }
    }

    /// Returns the path that the operation is about: where the thing is or, of what moved or went, was.
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
            | Op::End
            | Op::Run { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => None,
        }
    }

    /// Returns where the thing went, or of two that changed places, where the other one was.
    pub fn to(&self) -> Option<&WorldPath> {
        match self {
            Op::Rename { to, .. } | Op::Exchange { to, .. } | Op::Restore { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Returns both: [`Op::path`], then [`Op::to`].
    pub fn paths(&self) -> impl Iterator<Item = &WorldPath> {
        self.path().into_iter().chain(self.to())
    }

    /// Returns the inodes that the operation is about.
    pub fn ids(&self) -> impl Iterator<Item = &Ids> {
        ids_of!(self, as_ref)
    }

    fn ids_mut(&mut self) -> impl Iterator<Item = &mut Ids> {
        ids_of!(self, as_mut)
    }

    /// Returns what became an entry of the trash.
    pub fn trashed(&self) -> Option<Trashed<'_>> {
        match self {
            Op::Unlink { path, ids, trash } | Op::Rmdir { path, ids, trash } => Some(Trashed {
                path,
                ids: *ids,
                entry: trash,
            }),
            Op::Rename { to, replaced, .. } | Op::Restore { to, replaced, .. } => {
                replaced.as_ref().map(|Replaced { ids, trash }| Trashed {
                    path: to,
                    ids: *ids,
                    entry: trash,
                })
            }
            _ => None,
        }
    }

    /// Returns what the content of a file was before it changed: how it was kept, where it was, and its size in bytes.
    pub fn content(&self) -> Option<(Option<Kept>, u64)> {
        match self {
            Op::Write { kept, size, .. }
            | Op::Truncate { kept, size, .. }
            | Op::Content { kept, size, .. }
            | Op::Allocate { kept, size, .. } => Some((*kept, *size)),
            _ => None,
        }
    }

    /// Returns how the content before was kept, where it was, and its size in bytes.
    pub fn kept(&self) -> Option<(Kept, u64)> {
        let (kept, size) = self.content()?;
        Some((kept?, size))
    }

    /// Returns the paths whose directories get or lose an entry by the operation, in the order of the record's times.
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
            // What gathering changes lies in the trash.
            Op::Gather { .. }
            | Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Content { .. }
            | Op::Allocate { .. }
            | Op::Attr { .. }
            | Op::Xattr { .. }
            | Op::Begin { .. }
            | Op::End
            | Op::Run { .. }
            | Op::Checkpoint { .. }
            | Op::Undo { .. }
            | Op::Purge { .. }
            | Op::Evict { .. }
            | Op::Abort { .. } => false,
        };
        self.paths().filter(move |_| changes)
    }
}
