//! Creation of files, directories, FIFOs and sockets, symlinks, hard links.
//!
//! Only the kernel's exclusive creation (`O_EXCL`, mkdirat, …) decides whether a name is free, never an earlier check.
//! If a hidden entry has the name, the error is ENOENT and the hidden entry stays untouched.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::attr::without_new_set_ids;
use super::open_state::OpenState;
use super::root::{Dir, open_beneath, stat_fd};
use super::{Caller, FileOwnership, LocatedNode, World};
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::{EscapedBytes, Name, quoted};
use trumanfs_types::meta::Meta;

const S_ISGID: u32 = 0o2000;

/// A file opened for creation, new or already there.
#[derive(Debug)]
pub struct CreatedFile {
    /// The file's descriptor.
    pub file: OwnedFd,
    /// The file's attributes.
    pub meta: Meta,
}

impl World {
    /// Creates and opens a regular file. Without `O_EXCL`, an existing file is opened. For a caller who works for an
    /// agent, a new file has no set-user-id and no set-group-id bit.
    ///
    /// # Errors
    /// `EEXIST` with `O_EXCL`; `ENOENT` at a hidden name; `EROFS`; any error from `open(2)`.
    pub fn create(
        &self,
        dir: &Dir,
        name: Name<'_>,
        flags: OFlags,
        mode: u32,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<CreatedFile> {
        let path = self.view.admit_vacant_for(dir, name, false, caller)?;
        let (mode, dropped) = without_new_set_ids(mode, caller);
        let op = Op::Create {
            path,
            mode,
            dropped,
        };
        let names = self.names_lock.read();
        let pending = self
            .journal
            .begin(op, &[dir.dir_time()?], Some(&self.author(caller)))?;
        let seq = pending.seq();
        let made = {
            let _acting = self.act_as(caller);
            let exclusive =
                flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            open_beneath(
                dir.as_fd(),
                name.bytes(),
                exclusive,
                Mode::from_raw_mode(mode & 0o7777),
            )
        };
        let made = pending.with_outcome(made);
        drop(names);
        match made {
            Ok(file) => {
                let mut meta = stat_fd(file.as_fd())?;
                if self.lacks_setgid(&meta, mode) {
                    let mode = Mode::from_raw_mode(meta.permissions() | S_ISGID);
                    rustix::fs::fchmod(&file, mode).map_err(Error::os("fchmod"))?;
                    meta = stat_fd(file.as_fd())?;
                }
                self.journal.note_made(seq, &meta);
                self.note_volatile_made(dir, name, &meta, caller);
                Ok(CreatedFile { file, meta })
            }
            Err(Error::Exists) if !flags.contains(OFlags::EXCL) => {
                let located = self.locate(dir, name)?;
                let file = self.open_file(&located, flags - OFlags::CREATE, open_state, caller)?;
                Ok(CreatedFile {
                    file,
                    meta: located.node.stat()?,
                })
            }
            Err(Error::Exists) => Err(self.view.taken_error(dir, name)),
            Err(error) => Err(error),
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT` at a hidden name; `EROFS`; any error from `mkdir(2)`.
    pub fn mkdir(&self, dir: &Dir, name: Name<'_>, mode: u32, caller: Caller) -> Result<Meta> {
        let path = self.view.admit_vacant_for(dir, name, true, caller)?;
        self.create_recorded(dir, name, Op::Mkdir { path, mode }, caller, |dir| {
            rustix::fs::mkdirat(dir, name.bytes(), Mode::from_raw_mode(mode & 0o7777))
                .map_err(Error::os_on("mkdirat", || quoted(name.bytes())))
        })
    }

    /// Creates a FIFO, a socket or a regular file.
    ///
    /// # Errors
    /// `EPERM` for device nodes; else as [`World::mkdir`].
    pub fn mknod(&self, dir: &Dir, name: Name<'_>, mode: u32, caller: Caller) -> Result<Meta> {
        let kind = FileType::from_raw_mode(mode);
        if !matches!(
            kind,
            FileType::Fifo | FileType::Socket | FileType::RegularFile
        ) {
            return Err(Error::NotOffered);
        }
        let path = self.view.admit_vacant_for(dir, name, false, caller)?;
        let (mode, dropped) = without_new_set_ids(mode, caller);
        let op = Op::Mknod {
            path,
            mode,
            dropped,
        };
        self.create_recorded(dir, name, op, caller, |dir| {
            rustix::fs::mknodat(
                dir,
                name.bytes(),
                kind,
                Mode::from_raw_mode(mode & 0o7777),
                0,
            )
            .map_err(Error::os_on("mknodat", || quoted(name.bytes())))
        })
    }

    /// Creates a symlink.
    ///
    /// # Errors
    /// `EPERM` while symlinks are hidden, and for a target that could lead out; else as [`World::mkdir`].
    pub fn symlink(
        &self,
        dir: &Dir,
        name: Name<'_>,
        target: &[u8],
        caller: Caller,
    ) -> Result<Meta> {
        let path = self.view.admit_vacant_for(dir, name, false, caller)?;
        if !self.view.admits_target(dir.path(), target) {
            return Err(Error::NotOffered);
        }
        let op = Op::Symlink {
            path,
            target: EscapedBytes(target.to_vec()),
        };
        self.create_recorded(dir, name, op, caller, |dir| {
            rustix::fs::symlinkat(target, dir, name.bytes())
                .map_err(Error::os_on("symlinkat", || quoted(name.bytes())))
        })
    }

    /// Creates a further hard link to a file.
    ///
    /// # Errors
    /// `EPERM` for a directory; `EROFS` from or into the trash; else as [`World::mkdir`].
    pub fn link(
        &self,
        file: &LocatedNode,
        dir: &Dir,
        name: Name<'_>,
        caller: Caller,
    ) -> Result<Meta> {
        if file.node.meta().is_dir() {
            // The kernel reports a taken name before it reports the directory (do_linkat).
            return Err(match self.view.admit(dir, name) {
                Ok(_) => Error::Exists,
                Err(_) => Error::NotOffered,
            });
        }
        // A link outside the trash would let the occupant change what is in the trash.
        self.expect_changeable(file, caller)?;
        let path = self.view.admit_vacant_for(dir, name, false, caller)?;
        if file.node.meta().kind == FileType::Symlink {
            // A symlink that leads out from its new place could be created and would then be hidden.
            let target = self.read_link(file)?;
            if !self.view.admits_target(dir.path(), &target) {
                return Err(Error::NotOffered);
            }
        }
        let (from, ids) = (file.path.clone(), World::ids(file.node.meta().id));
        let (proc, number) = self.root.by_proc(&file.node);
        let (known, added) = (from.clone(), path.clone());
        let made =
            self.create_recorded(dir, name, Op::Link { path, from, ids }, caller, |dir| {
                rustix::fs::linkat(
                    proc,
                    number.as_str(),
                    dir,
                    name.bytes(),
                    AtFlags::SYMLINK_FOLLOW,
                )
                .map_err(Error::os_on("linkat", || quoted(name.bytes())))
            })?;
        self.links.note_names(made.id, [known, added]);
        Ok(made)
    }

    /// Returns whether a new file lacks a set-group-id bit that the caller may set. The store's kernel removed it
    /// because it does not know the caller's supplementary groups; the home's kernel has already decided.
    fn lacks_setgid(&self, made: &Meta, asked: u32) -> bool {
        self.identity == FileOwnership::Caller && asked & S_ISGID != 0 && made.mode & S_ISGID == 0
    }

    /// Records a creation, performs it, and returns the attributes of the new node.
    fn create_recorded(
        &self,
        dir: &Dir,
        name: Name<'_>,
        op: Op,
        caller: Caller,
        act: impl FnOnce(&Dir) -> Result<()>,
    ) -> Result<Meta> {
        let is_link = matches!(op, Op::Link { .. });
        let is_node = matches!(op, Op::Mknod { .. });
        let _names = self.names_lock.read();
        let pending = self
            .journal
            .begin(op, &[dir.dir_time()?], Some(&self.author(caller)))?;
        let seq = pending.seq();
        let outcome = {
            // A link creates no inode: the owner stays.
            let _acting = if is_link { None } else { self.act_as(caller) };
            act(dir)
        };
        match pending.with_outcome(outcome) {
            Ok(()) => {
                let meta = dir.stat(name)?;
                if is_node && meta.kind == FileType::RegularFile {
                    self.journal.note_made(seq, &meta);
                    self.journal.note_left(&meta);
                }
                if is_link {
                    self.journal.note_moved(seq, &meta);
                    self.note_volatile_link(&dir.path().join(name), &meta);
                } else {
                    self.note_volatile_made(dir, name, &meta, caller);
                }
                Ok(meta)
            }
            Err(Error::Exists) => Err(self.view.taken_error(dir, name)),
            Err(error) => Err(error),
        }
    }
}
