//! Requests about names: lookup, creation, removal, rename.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use fuser::{FileAttr, INodeNo, RenameFlags};

use super::FileSystem;
use super::attr::negative_attributes;
use super::counters::count;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::trash::trash_entries::EntryName;
use crate::world::view::in_trash;
use crate::world::{Caller, Dir, Meta, RenameMode};

impl FileSystem {
    /// Looks up an entry. A negative result is a success, too, if the kernel may cache it.
    pub(super) fn look_up(&self, parent: u64, name: &OsStr) -> Result<(Duration, FileAttr)> {
        let name = Name::new(name.as_bytes())?;
        let (dir, ttl) = self.listed_dir(parent)?;
        let found = match self.world().lookup(&dir, name) {
            Err(Error::NotFound) if self.has_gone(&dir) => {
                return Err(self.replaced(parent, Error::NotFound));
            }
            Err(Error::NotFound) if !ttl.is_zero() => return Ok((ttl, negative_attributes())),
            found => found?,
        };
        let attr = self.record_entry(parent, name, &found.meta);
        let ttl = if in_trash(&found.path()) {
            Duration::ZERO
        } else {
            self.entry_ttl(ttl, &attr)
        };
        Ok((ttl, attr))
    }

    /// Returns whether a directory that was found lately is removed by now, and lets go of it then.
    fn has_gone(&self, dir: &Dir) -> bool {
        let has_gone = rustix::fs::fstat(dir.as_fd()).is_ok_and(|dir| dir.st_nlink == 0);
        if has_gone {
            self.shared.dirs.forget(dir.id());
        }
        has_gone
    }

    /// Subtracts lookups of a node that the kernel has forgotten.
    pub(super) fn forget_lookups(&self, number: u64, lookups: u64) {
        count(&self.shared.counters.forget);
        if let Some(place) = self.inodes().forget(number, lookups) {
            self.inodes().dir_changed();
            self.unwatch(number, &place);
        }
    }

    /// Creates an entry with `act`, and records it for the reply to the kernel.
    pub(super) fn create_entry(
        &self,
        parent: INodeNo,
        name: &OsStr,
        act: impl FnOnce(&Dir, Name<'_>) -> Result<Meta>,
    ) -> Result<(Duration, FileAttr)> {
        let name = Name::new(name.as_bytes())?;
        let (dir, ttl) = self.listed_dir(parent.0)?;
        let meta = act(&dir, name).map_err(|error| match error {
            Error::NotFound if self.has_gone(&dir) => self.replaced(parent.0, error),
            error => error,
        })?;
        let attr = self.record_entry(parent.0, name, &meta);
        Ok((self.entry_ttl(ttl, &attr), attr))
    }

    /// Creates a FIFO, a socket or a regular file.
    pub(super) fn make_node(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        caller: Caller,
    ) -> Result<(Duration, FileAttr)> {
        let make = |dir: &Dir, name: Name<'_>| self.world().mknod(dir, name, mode, caller);
        self.create_entry(parent, name, make)
    }

    /// Creates a directory.
    pub(super) fn make_dir(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        caller: Caller,
    ) -> Result<(Duration, FileAttr)> {
        let make = |dir: &Dir, name: Name<'_>| self.world().mkdir(dir, name, mode, caller);
        self.create_entry(parent, name, make)
    }

    /// Creates a symlink.
    pub(super) fn make_symlink(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        caller: Caller,
    ) -> Result<(Duration, FileAttr)> {
        let target = target.as_os_str().as_bytes();
        let make = |dir: &Dir, name: Name<'_>| self.world().symlink(dir, name, target, caller);
        self.create_entry(parent, name, make)
    }

    /// Creates a further hard link to a file.
    pub(super) fn link_to(
        &self,
        number: u64,
        newparent: INodeNo,
        newname: &OsStr,
        may_wait: bool,
        caller: Caller,
    ) -> Result<(Duration, FileAttr)> {
        // A file with two links is not replaced when it is emptied, so a file that is being replaced must not
        // get a link.
        let _lock = self.shared.handles.inode_lock(number, may_wait)?;
        let located = self.locate(number)?;
        let make = |dir: &Dir, name: Name<'_>| self.world().link(&located, dir, name, caller);
        self.create_entry(newparent, newname, make)
    }

    /// Returns a symlink's target.
    pub(super) fn target_of(&self, number: u64) -> Result<Vec<u8>> {
        self.world().read_link(&self.locate(number)?)
    }

    /// Removes a file of any kind except a directory.
    pub(super) fn remove_file(&self, parent: INodeNo, name: &OsStr, caller: Caller) -> Result<()> {
        let name = Name::new(name.as_bytes())?;
        let dir = self.dir(parent.0)?;
        let moving = self.inodes().begin_move();
        moving.set_moves_no_dir();
        let removed = self.world().unlink(&dir, name, caller)?;
        self.inodes()
            .record_removal((parent.0, name), removed.id, removed.entry.bytes());
        Ok(())
    }

    /// Removes a directory.
    pub(super) fn remove_dir(&self, parent: INodeNo, name: &OsStr, caller: Caller) -> Result<()> {
        let name = Name::new(name.as_bytes())?;
        let dir = self.dir(parent.0)?;
        let moving = self.inodes().begin_move();
        // What the kernel has forgotten may be gathered at any time.
        let in_use = |entry: &EntryName| self.inodes().knows_entry(entry.bytes());
        let outcome = self.world().rmdir_gathering(&dir, name, caller, &in_use);
        if let Ok(removed) = &outcome {
            // It was empty, so no other one moved with it.
            self.shared.dirs.forget(removed.id);
            moving.set_moves_no_dir();
            self.inodes()
                .record_removal((parent.0, name), removed.id, removed.entry.bytes());
            self.inodes()
                .record_gathering(removed.id, &removed.gathered);
            self.inodes().mark_dead(removed.id);
        }
        drop(moving);
        self.world().gather_overdue();
        outcome.map(|_| ())
    }

    /// Moves an entry.
    pub(super) fn move_entry(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (newparent, newname): (INodeNo, &OsStr),
        flags: RenameFlags,
        caller: Caller,
    ) -> Result<()> {
        let how = match flags {
            f if f.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return Err(Error::Invalid),
        };
        let (name, newname) = (Name::new(name.as_bytes())?, Name::new(newname.as_bytes())?);
        let (dir, newdir) = (self.dir(parent.0)?, self.dir(newparent.0)?);
        let moving = self.inodes().begin_move();
        let outcome = self
            .world()
            .rename(&dir, name, &newdir, newname, how, caller);
        if let Ok(moved) = &outcome {
            let (from, to) = ((parent.0, name), (newparent.0, newname));
            if let Some(replaced) = &moved.replaced {
                self.inodes()
                    .record_removal(to, replaced.id, replaced.entry.bytes());
                if replaced.directory {
                    self.inodes().mark_dead(replaced.id);
                }
            }
            self.inodes().record_move(from, to, moved.id);
            if let Some(other) = moved.exchanged {
                self.inodes().record_move(to, from, other);
            }
            if !moved.directory {
                moving.set_moves_no_dir();
            }
        }
        outcome.map(|_| ())
    }
}
