//! Removal: a move into the trash, never an unlink.
//!
//! `unlink` is one `renameat2(RENAME_NOREPLACE)`. So is `rmdir`, for a directory that the occupant sees as empty;
//! entries that the same process removed from it are then gathered under the directory's entry (`gather.rs`), so that
//! `rm -rf` leaves one entry with the original tree. If any of this fails, the node stays in its place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::root::{Dir, Node, open_beneath};
use super::view::VisibleEntry;
use super::{Caller, World};
use crate::error::{Error, Result};
use crate::journal::{Author, Op};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::store::layout::TRASH;
use crate::world::store::reserve;
use crate::world::trash::gatherer::GatherJob;
use crate::world::trash::trash_entries::{
    EntryName, GatherCandidate, has_arrived, rename_noreplace,
};
use trumanfs_types::meta::{Id, Meta};

/// A removed node: the result of a removal.
#[derive(Debug, Clone)]
pub struct RemovedNode {
    /// The removed inode.
    pub id: Id,
    /// The node's trash entry.
    pub entry: EntryName,
    /// True if it was a directory.
    pub directory: bool,
    /// The former trash entries gathered under it by now, and their names there.
    pub gathered: Vec<GatherCandidate>,
}

impl RemovedNode {
    /// Returns the node's present path.
    ///
    /// # Errors
    /// None for a real removal.
    pub fn path(&self) -> Result<WorldPath> {
        Ok(WorldPath::parse(TRASH)?.join(self.entry.name()?))
    }
}

impl World {
    /// Removes a file of any kind except a directory.
    ///
    /// # Errors
    /// `EISDIR`; `ENOENT`; `EROFS`; any error from `renameat2(2)` or the journal's `write(2)`. On failure nothing has
    /// changed.
    pub fn unlink(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode> {
        let _names = self.names_lock.read();
        let found = self.view.admit(dir, name)?;
        // The kernel checks for a directory before permission to change it (may_delete), as in `rmdir`.
        if found.meta.is_dir() {
            return Err(Error::IsDirectory);
        }
        self.view.expect_changeable(&found.path(), false)?;
        let author = self.author(caller);
        self.sync_entry_before_loss(&found, false)?;
        let entry = self.move_to_trash(
            &found,
            |path, ids, trash| Op::Unlink { path, ids, trash },
            &author,
        )?;
        Ok(self.remember_removal(&author, &found, entry, Vec::new()))
    }

    /// Removes a directory that the occupant sees as empty; hidden contents go with it.
    ///
    /// # Errors
    /// `ENOTDIR`; `ENOTEMPTY`; else as [`World::unlink`].
    pub fn rmdir(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode> {
        self.rmdir_gathering(dir, name, caller, &|_| false)
    }

    /// Removes a directory like [`World::rmdir`]. `in_use` returns, for the trash entry of a former removal, whether
    /// the caller still uses that node; such removals are gathered before this function returns.
    ///
    /// # Errors
    /// As [`World::rmdir`].
    pub fn rmdir_gathering(
        &self,
        dir: &Dir,
        name: Name<'_>,
        caller: Caller,
        in_use: &dyn Fn(&EntryName) -> bool,
    ) -> Result<RemovedNode> {
        let found = self.view.admit(dir, name)?;
        if !found.meta.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.view.expect_changeable(&found.path(), true)?;
        self.expect_empty(&found, caller)?;
        let author = self.author(caller);
        let names = self.names_lock.read();
        let entry = self.move_to_trash(
            &found,
            |path, ids, trash| Op::Rmdir { path, ids, trash },
            &author,
        )?;
        drop(names);
        let gathering = GatherJob {
            author: author.clone(),
            path: found.path(),
            entry: entry.clone(),
            id: found.meta.id,
            removals: Vec::new(),
        };
        let gathered = self.gather(gathering, in_use);
        Ok(self.remember_removal(&author, &found, entry, gathered))
    }

    /// Moves a file, or a directory with everything in it, into the trash as one entry. For operators, and for the
    /// shell's `rm -r` on an unmounted store; rmdir(2) takes only an empty directory.
    ///
    /// # Errors
    /// `ENOENT`; `EROFS`; any error from `renameat2(2)` or the journal's `write(2)`. On failure nothing has changed.
    pub fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode> {
        let mut names = Some(self.names_lock.read());
        let found = self.view.admit_for(dir, name, caller)?;
        let directory = found.meta.is_dir();
        self.view
            .expect_changeable_for(&found.path(), directory, caller)?;
        if directory {
            names = None;
            self.before_moving(&found, caller)?;
        }
        let op = |path, ids, trash| {
            if directory {
                Op::Rmdir { path, ids, trash }
            } else {
                Op::Unlink { path, ids, trash }
            }
        };
        self.sync_entry_before_loss(&found, true)?;
        let names = names.unwrap_or_else(|| self.names_lock.read());
        let entry = self.move_to_trash(&found, op, &self.author(caller))?;
        drop(names);
        Ok(RemovedNode {
            id: found.meta.id,
            entry,
            directory,
            gathered: Vec::new(),
        })
    }

    /// Remembers that a process has removed something, in case it removes the directory next.
    fn remember_removal(
        &self,
        author: &Author,
        found: &VisibleEntry<'_>,
        entry: EntryName,
        gathered: Vec<GatherCandidate>,
    ) -> RemovedNode {
        let removal = GatherCandidate {
            entry: entry.clone(),
            name: found.name.bytes().to_vec(),
            id: found.meta.id,
        };
        // What is volatile is deleted on its own, and not with its directory.
        if !self.volatile.is_waiting(&entry) {
            self.trash
                .remember(author.actor.pid, found.dir.id(), removal);
        }
        RemovedNode {
            id: found.meta.id,
            directory: found.meta.is_dir(),
            entry,
            gathered,
        }
    }

    /// Checks that the occupant sees a directory as empty.
    pub(super) fn expect_empty(&self, found: &VisibleEntry<'_>, caller: Caller) -> Result<()> {
        self.expect_nothing_protected(&found.path(), caller)?;
        let child = found.dir.child(found.name)?;
        if child.id() != found.meta.id {
            return Err(Error::NotFound);
        }
        let shows_nothing = || {
            let mut empty = true;
            let listed = self.list(&child, 0, |entry| {
                empty = matches!(entry.name, b"." | b"..");
                empty
            });
            listed.map(|()| empty)
        };
        // Only a user who may remove it from its parent gets here; rmdir(2) needs no permission to read it.
        let empty = self
            .root
            .lender()
            .with_access(child.as_fd(), 0, shows_nothing)?;
        if !empty {
            return Err(Error::NotEmpty);
        }
        // In the trash, a pattern with a slash would no longer match its hidden contents.
        self.before_moving(found, caller)
    }

    /// Moves an entry into the trash, recorded, and verifies what arrived.
    pub(super) fn move_to_trash(
        &self,
        found: &VisibleEntry<'_>,
        op: impl Fn(WorldPath, crate::journal::InodeNumbers, EscapedBytes) -> Op,
        author: &Author,
    ) -> Result<EntryName> {
        let trash = self.trash.dir(&self.root)?;
        loop {
            let entry = self.trash.new_entry_name(found.name);
            let record = op(
                found.path(),
                World::ids(found.meta.id),
                EscapedBytes(entry.bytes().to_vec()),
            );
            let at = [found.dir.dir_time()?];
            let volatility = self.volatility_at(&found.path(), &found.meta);
            let pending = self.journal.begin(record, &at, Some(author))?;
            match pending.with_outcome(self.move_verified(found, &trash, &entry)) {
                // Only a clock that was ahead can have taken the name; the next microsecond is tried.
                Err(Error::Exists) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.count_arrival(&found.meta);
                    let trash = WorldPath::parse(TRASH)?;
                    let name = entry.name()?;
                    self.links.note_move(|| (found.path(), trash.join(name)));
                    self.note_volatile_removal(volatility, (found, &entry), author);
                    return Ok(entry);
                }
            }
        }
    }

    /// Counts a node that has come into the trash.
    pub(super) fn count_arrival(&self, meta: &Meta) {
        if !meta.is_dir() && meta.nlink > 1 {
            self.state.count_link(meta.id, true);
        }
        self.trash.add_bytes(self.bytes_in_trash(meta));
    }

    /// Performs the move. If another node arrived, it goes back. If the open trash is no longer the store's, the node
    /// goes back too, and then into the present trash.
    pub(super) fn move_verified(
        &self,
        found: &VisibleEntry<'_>,
        trash: &Arc<OwnedFd>,
        entry: &EntryName,
    ) -> Result<()> {
        let mut trash = trash.clone();
        loop {
            let error = match self.try_move(found, trash.as_fd(), entry) {
                Ok(()) => return Ok(()),
                Err(Error::Exists) => return Err(Error::Exists),
                Err(error) => error,
            };
            match self.trash.reopen_if_replaced(&self.root, &trash)? {
                Some(other) => trash = other,
                None => return Err(error),
            }
        }
    }

    fn try_move(
        &self,
        found: &VisibleEntry<'_>,
        trash: BorrowedFd<'_>,
        entry: &EntryName,
    ) -> Result<()> {
        let name = entry.name()?;
        self.move_lending_bits(found.dir.as_fd(), found.name, trash, name)?;
        if !has_arrived(&self.root, entry, found.meta.id) {
            rename_noreplace(trash, name, found.dir, found.name)?;
            return Err(Error::NotFound);
        }
        Ok(())
    }

    /// Moves an entry, including a directory that its owner may not write to. Moving a directory changes its `..`, for
    /// which the kernel requires write permission on the directory itself; removing one does not. So the permission is
    /// granted for the moment of the move. On a full disk a piece of the reserve is freed, and the move tried again.
    pub(super) fn move_lending_bits(
        &self,
        from: BorrowedFd<'_>,
        name: Name<'_>,
        to: BorrowedFd<'_>,
        new: Name<'_>,
    ) -> Result<()> {
        let mut moved = rename_noreplace(from, name, to, new);
        while moved.as_ref().is_err_and(reserve::is_full)
            && self
                .removal_reserve
                .as_ref()
                .is_some_and(reserve::free_piece)
        {
            moved = rename_noreplace(from, name, to, new);
        }
        let denied = match moved {
            Err(error) if error.errno() == rustix::io::Errno::ACCESS => error,
            moved => return moved,
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = Node::from_fd(open_beneath(from, name.bytes(), flags, Mode::empty())?)?;
        if !node.meta().is_dir() {
            return Err(denied);
        }
        let lender = self.root.lender();
        lender.with_access(node.as_fd(), 0, || rename_noreplace(from, name, to, new))
    }
}
