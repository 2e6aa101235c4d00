//! The content of an open node: opening, size, space. Content is kept before it is destroyed (`versions.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, FileType, OFlags};

use super::attr::SET_IDS;
use super::open_state::OpenState;
use super::root::{Dir, Node};
use super::{Caller, LocatedNode, World, holes};
use crate::error::{Error, Result};
use crate::journal::{InodeNumbers, KeepMethod, Op, VersionRef};
use crate::world::keep::choice::DestroyScope;

impl World {
    /// Checks that an open node may be changed.
    pub(super) fn expect_changeable(&self, located: &LocatedNode, caller: Caller) -> Result<()> {
        if located.removed {
            // Open files survive their removal, and stay as writable as they were.
            return Ok(());
        }
        let is_dir = located.node.meta().is_dir();
        self.view
            .expect_changeable_for(&located.path, is_dir, caller)
    }

    /// Opens a regular file. `O_TRUNC` empties it. Content that may be destroyed through it is first kept.
    ///
    /// # Errors
    /// `EROFS`; `EINVAL` if it is not a regular file; `ENOSPC` if its content cannot be kept; any error from
    /// `open(2)`, such as `EACCES` and `ETXTBSY`.
    pub fn open_file(
        &self,
        located: &LocatedNode,
        flags: OFlags,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<OwnedFd> {
        if located.node.meta().is_dir() {
            return Err(Error::IsDirectory);
        }
        let access = flags & OFlags::RWMODE;
        let truncates = flags.contains(OFlags::TRUNC);
        if access == OFlags::RDONLY && !truncates {
            return self.root.reopen(&located.node, flags);
        }
        self.expect_changeable(located, caller)?;
        self.keep_for_undo(located, caller);
        // Opening checks the permission; only then is there something to record and, last, to empty.
        let file = self.root.reopen(&located.node, flags - OFlags::TRUNC)?;
        self.expect_no_outside_name(located, open_state, caller)?;
        self.note_capability(located, caller)?;
        if !truncates {
            let appends = access == OFlags::WRONLY
                && (flags.contains(OFlags::APPEND) || open_state.only_appends());
            let keeping = if appends {
                self.keep_before_append(located, open_state, caller.origin.run)?
            } else {
                self.keep(located, DestroyScope::Anything, open_state)?
            };
            let op = write_op(located, keeping.kept);
            let grows = keeping
                .kept
                .is_none_or(|kept| kept.how == KeepMethod::Length);
            self.journal.note(op, Some(&self.author(caller)))?;
            self.confirm_kept(keeping, open_state, caller);
            if appends && grows {
                open_state.note_length_kept(located.node.meta().size);
            }
            self.drop_setid_at_open(located, caller)?;
            return Ok(file);
        }
        // O_TRUNC needs write permission even with O_RDONLY, but a read-only descriptor cannot empty the file. Nor can
        // one with both bits of the access mode set, which is for ioctls only (open(2)).
        let emptied = match access {
            OFlags::WRONLY | OFlags::RDWR => None,
            _ => Some(self.root.reopen(&located.node, OFlags::WRONLY)?),
        };
        let moved = self.empty_by_moving(
            located,
            file.as_fd(),
            flags,
            open_state,
            |kept, new| truncate_op(located, 0, Some(kept), Some(new)),
            caller,
        )?;
        if let Some((file, _)) = moved {
            return Ok(file);
        }
        let size = located.node.meta().size;
        let keeping = self.keep(located, DestroyScope::Range(0, size), open_state)?;
        let op = truncate_op(located, 0, keeping.kept, None);
        let pending = self.journal.begin(op, &[], Some(&self.author(caller)))?;
        let emptied = emptied.as_ref().unwrap_or(&file);
        pending.with_outcome(rustix::fs::ftruncate(emptied, 0).map_err(Error::os("ftruncate")))?;
        self.confirm_kept(keeping, open_state, caller);
        self.drop_setid(located, caller)?;
        Ok(file)
    }

    /// Truncates or extends a file. Returns the inode that has taken its place, if any.
    pub(super) fn truncate(
        &self,
        located: &LocatedNode,
        size: u64,
        file: Option<BorrowedFd<'_>>,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<Option<Node>> {
        let opened;
        let file = match file {
            Some(file) => file,
            None => {
                opened = self.root.reopen(&located.node, OFlags::WRONLY)?;
                opened.as_fd()
            }
        };
        self.note_capability(located, caller)?;
        self.keep_for_undo(located, caller);
        let was = located.node.meta().size;
        if size == 0 {
            let moved = self.empty_by_moving(
                located,
                file,
                OFlags::WRONLY,
                open_state,
                |kept, new| truncate_op(located, 0, Some(kept), Some(new)),
                caller,
            )?;
            if let Some((file, _)) = moved {
                return Node::from_fd(file).map(Some);
            }
        }
        let destroys = if size < was {
            DestroyScope::Range(size, was)
        } else {
            DestroyScope::Nothing
        };
        let keeping = self.keep(located, destroys, open_state)?;
        let op = truncate_op(located, size, keeping.kept, None);
        let pending = self.journal.begin(op, &[], Some(&self.author(caller)))?;
        pending.with_outcome(rustix::fs::ftruncate(file, size).map_err(Error::os("ftruncate")))?;
        self.confirm_kept(keeping, open_state, caller);
        self.drop_setid(located, caller)?;
        Ok(None)
    }

    /// Reserves or frees space in an open file.
    ///
    /// # Errors
    /// `EROFS`; `EOPNOTSUPP` for a mode that the store's file system does not support; any error from `fallocate(2)`.
    pub fn allocate(
        &self,
        located: &LocatedNode,
        file: BorrowedFd<'_>,
        mode: u32,
        range: (u64, u64),
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<()> {
        let flags = FallocateFlags::from_bits(mode).ok_or(Error::Unsupported)?;
        self.expect_changeable(located, caller)?;
        self.keep_for_undo(located, caller);
        let mut destroys = destroy_scope(flags, range);
        let to = range
            .0
            .saturating_add(range.1)
            .min(located.node.meta().size);
        // Allocating space destroys no byte, but it fills the file's holes.
        if destroys == DestroyScope::Nothing
            && range.0 < to
            && let Ok(source) = self.root.open_to_read(&located.node)
            && holes::has_hole(source.as_fd(), range.0, to)
        {
            destroys = DestroyScope::Range(range.0, to);
        }
        let keeping = self.keep(located, destroys, open_state)?;
        let (path, ids) = (located.path.clone(), World::ids(located.node.meta().id));
        let (size, mtime, _) = state_before(located);
        let pending = self.journal.begin(
            Op::Allocate {
                path,
                ids,
                mode,
                range,
                size,
                mtime,
                kept: keeping.kept,
            },
            &[],
            Some(&self.author(caller)),
        )?;
        pending.with_outcome(
            rustix::fs::fallocate(file, flags, range.0, range.1).map_err(Error::os("fallocate")),
        )?;
        self.confirm_kept(keeping, open_state, caller);
        self.drop_setid(located, caller)
    }

    /// Keeps the content that copy_file_range(2), or a write through the daemon, is about to overwrite in an open file.
    ///
    /// # Errors
    /// `ENOSPC` if it cannot be kept; it must then not be overwritten.
    pub fn before_overwriting(
        &self,
        located: &LocatedNode,
        range: (u64, u64),
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<()> {
        let to = range.0.saturating_add(range.1);
        let keeping = self.keep(located, DestroyScope::Range(range.0, to), open_state)?;
        if keeping.kept.is_some() {
            let op = write_op(located, keeping.kept);
            self.journal.note(op, Some(&self.author(caller)))?;
        }
        self.confirm_kept(keeping, open_state, caller);
        Ok(())
    }

    /// Returns a symlink's target.
    ///
    /// # Errors
    /// `EINVAL` if it is not a symlink; `ENOENT` if it could lead out of the store from its present place.
    pub fn read_link(&self, located: &LocatedNode) -> Result<Vec<u8>> {
        if located.node.meta().kind != FileType::Symlink {
            return Err(Error::Invalid);
        }
        let target = rustix::fs::readlinkat(&located.node, c"", Vec::with_capacity(256))
            .map_err(Error::os("readlinkat"))?;
        let dir = located.path.parent().unwrap_or_default();
        if self.view.admits_target(&dir, target.as_bytes()) {
            Ok(target.into_bytes())
        } else {
            Err(Error::NotFound)
        }
    }

    /// Waits until a directory's entries are on disk.
    ///
    /// # Errors
    /// Any error from `fsync(2)`.
    pub fn sync_dir(&self, dir: &Dir) -> Result<()> {
        super::sync_dir(&self.root, dir)
    }
}

/// Returns the range that a fallocate(2) is about to destroy.
fn destroy_scope(flags: FallocateFlags, (from, length): (u64, u64)) -> DestroyScope {
    let shifts = FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE;
    let clears = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
    if flags.intersects(shifts) {
        // Everything behind the offset moves.
        DestroyScope::Range(from, u64::MAX)
    } else if flags.intersects(clears) {
        DestroyScope::Range(from, from.saturating_add(length))
    } else {
        DestroyScope::Nothing
    }
}

/// Returns the record of opening a file for writing.
fn write_op(located: &LocatedNode, kept: Option<VersionRef>) -> Op {
    let (size, mtime, mode) = state_before(located);
    Op::Write {
        path: located.path.clone(),
        ids: World::ids(located.node.meta().id),
        size,
        mtime,
        mode,
        kept,
    }
}

/// Returns the record of truncating or extending a file.
fn truncate_op(
    located: &LocatedNode,
    to: u64,
    kept: Option<VersionRef>,
    new: Option<InodeNumbers>,
) -> Op {
    let (size, mtime, mode) = state_before(located);
    Op::Truncate {
        path: located.path.clone(),
        ids: World::ids(located.node.meta().id),
        size,
        to,
        mtime,
        mode,
        kept,
        new,
    }
}

/// Returns the state of a file before its content changes, for a record: size, time, and the permission bits if some
/// may be lost.
fn state_before(located: &LocatedNode) -> (u64, crate::journal::FileTime, Option<u32>) {
    let meta = located.node.meta();
    let loses = meta.mode & SET_IDS != 0;
    (
        meta.size,
        (meta.mtime.sec, meta.mtime.nsec),
        loses.then(|| meta.permissions()),
    )
}
