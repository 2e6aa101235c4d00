//! Working on one thing that is already known: opening, attributes, sizes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FallocateFlags, FileType, Gid, OFlags, Timespec, Timestamps, Uid};

use super::meta::{Meta, Time};
use super::root::Dir;
use super::{Caller, Held, Identity, World};
use crate::error::{Error, Result};
use crate::journal::{Op, Was};

const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IXGRP: u32 = 0o010;

/// A time to be set (utimensat(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// It stays (`UTIME_OMIT`).
    #[default]
    Keep,
    /// The moment of the call (`UTIME_NOW`); needs only write permission.
    Now,
    /// This time.
    To(Time),
}

/// Attributes to be set together, as setattr does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: SetTime,
    /// Last change of content.
    pub mtime: SetTime,
}

impl Change {
    fn sets_times(&self) -> bool {
        (self.atime, self.mtime) != (SetTime::Keep, SetTime::Keep)
    }
}

impl World {
    /// Says whether a held thing may be changed.
    pub(super) fn changeable(&self, held: &Held) -> Result<()> {
        if held.removed {
            // Open files survive their removal, and stay as writable as they were.
            return Ok(());
        }
        self.view.changeable(&held.path, held.node.meta().is_dir())
    }

    /// Opens a regular file. `O_TRUNC` empties it.
    ///
    /// # Errors
    /// `EROFS`; `EINVAL` for what is no regular file; `EACCES`, `ETXTBSY` and the like as `open(2)` says.
    pub fn open_file(&self, held: &Held, flags: OFlags, caller: Caller) -> Result<OwnedFd> {
        if held.node.meta().is_dir() {
            return Err(Error::IsDirectory);
        }
        let access = flags & OFlags::RWMODE;
        let truncates = flags.contains(OFlags::TRUNC);
        if access == OFlags::RDONLY && !truncates {
            return self.root.reopen(&held.node, flags);
        }
        self.changeable(held)?;
        // Permission is found out by opening; only then is there something to record and, last, to empty.
        let file = self.root.reopen(&held.node, flags - OFlags::TRUNC)?;
        // O_TRUNC takes the right to write even with O_RDONLY, and a descriptor for reading cannot empty.
        let emptied = match access {
            OFlags::RDONLY => Some(self.root.reopen(&held.node, OFlags::WRONLY)?),
            _ => None,
        };
        let (size, mtime, mode) = before(held);
        let (path, ids) = (held.path.clone(), World::ids(held.node.meta().id));
        let op = if truncates {
            Op::Truncate {
                path,
                ids,
                size,
                to: 0,
                mtime,
                mode,
                kept: None,
                new: None,
            }
        } else {
            Op::Write {
                path,
                ids,
                size,
                mtime,
                mode,
                kept: None,
            }
        };
        let pending = self.journal.begin(op, &[], Some(&self.actor(caller)))?;
        if truncates {
            let emptied = emptied.as_ref().unwrap_or(&file);
            pending.settle(rustix::fs::ftruncate(emptied, 0).map_err(Error::os("ftruncate")))?;
        } else {
            pending.done();
        }
        // With passthrough the writes themselves pass by, with the daemon's rights.
        self.drop_setid(held, caller)?;
        Ok(file)
    }

    /// Sets attributes. `file` is the descriptor of an open file, where the caller has one: it may then be cut although
    /// its permissions no longer allow opening it.
    ///
    /// # Errors
    /// `EROFS`; what chmod(2), chown(2), truncate(2) and utimensat(2) say.
    pub fn set_attr(
        &self,
        held: &Held,
        change: Change,
        file: Option<BorrowedFd<'_>>,
        caller: Caller,
    ) -> Result<Meta> {
        self.changeable(held)?;
        if let Some(size) = change.size {
            self.truncate(held, size, file, caller)?;
        }
        if change.mode.is_some()
            || change.uid.is_some()
            || change.gid.is_some()
            || change.sets_times()
        {
            let op = attr_op(held, &change);
            let pending = self.journal.begin(op, &[], Some(&self.actor(caller)))?;
            pending.settle(self.apply(held, change))?;
        }
        held.node.stat()
    }

    fn truncate(
        &self,
        held: &Held,
        size: u64,
        file: Option<BorrowedFd<'_>>,
        caller: Caller,
    ) -> Result<()> {
        let opened;
        let file = match file {
            Some(file) => file,
            None => {
                opened = self.root.reopen(&held.node, OFlags::WRONLY)?;
                opened.as_fd()
            }
        };
        let (path, ids) = (held.path.clone(), World::ids(held.node.meta().id));
        let (was, mtime, mode) = before(held);
        let op = Op::Truncate {
            path,
            ids,
            size: was,
            to: size,
            mtime,
            mode,
            kept: None,
            new: None,
        };
        let pending = self.journal.begin(op, &[], Some(&self.actor(caller)))?;
        pending.settle(rustix::fs::ftruncate(file, size).map_err(Error::os("ftruncate")))?;
        self.drop_setid(held, caller)
    }

    fn apply(&self, held: &Held, change: Change) -> Result<()> {
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(&held.node, "", uid, gid, AtFlags::EMPTY_PATH)
                .map_err(Error::os("chownat"))?;
        }
        if let Some(mode) = change.mode {
            self.root.chmod(&held.node, mode)?;
        }
        if change.sets_times() {
            let times = Timestamps {
                last_access: timespec(change.atime),
                last_modification: timespec(change.mtime),
            };
            rustix::fs::utimensat(&held.node, c"", &times, AtFlags::EMPTY_PATH)
                .map_err(Error::os("utimensat"))?;
        }
        Ok(())
    }

    /// Takes set-user-id and set-group-id from a file whose content was changed by an unprivileged caller. The store's
    /// kernel does it by itself where this thread is the caller; a daemon that is root must do it for them.
    pub fn drop_setid(&self, held: &Held, caller: Caller) -> Result<()> {
        let mode = held.node.meta().mode;
        let set = mode & S_ISUID != 0 || mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP;
        if self.identity == Identity::Thread || caller.uid == 0 || !set {
            return Ok(());
        }
        let drop = if mode & S_IXGRP == 0 {
            S_ISUID
        } else {
            S_ISUID | S_ISGID
        };
        self.root.chmod(&held.node, mode & !drop)
    }

    /// Reserves or frees space in an open file.
    ///
    /// # Errors
    /// `EROFS`; `EOPNOTSUPP` for a mode the store's file system does not know; what `fallocate(2)` says.
    pub fn allocate(
        &self,
        held: &Held,
        file: BorrowedFd<'_>,
        mode: u32,
        range: (u64, u64),
        caller: Caller,
    ) -> Result<()> {
        let flags = FallocateFlags::from_bits(mode).ok_or(Error::Unsupported)?;
        self.changeable(held)?;
        let (path, ids) = (held.path.clone(), World::ids(held.node.meta().id));
        let (size, mtime, _) = before(held);
        let pending = self.journal.begin(
            Op::Allocate {
                path,
                ids,
                mode,
                range,
                size,
                mtime,
                kept: None,
            },
            &[],
            Some(&self.actor(caller)),
        )?;
        pending.settle(
            rustix::fs::fallocate(file, flags, range.0, range.1).map_err(Error::os("fallocate")),
        )?;
        self.drop_setid(held, caller)
    }

    /// Says where a symlink leads.
    ///
    /// # Errors
    /// `EINVAL` for what is no symlink; `ENOENT` where it could lead out from where it is now.
    pub fn read_link(&self, held: &Held) -> Result<Vec<u8>> {
        if held.node.meta().kind != FileType::Symlink {
            return Err(Error::Invalid);
        }
        let target = rustix::fs::readlinkat(&held.node, c"", Vec::with_capacity(256))
            .map_err(Error::os("readlinkat"))?;
        let dir = held.path.parent().unwrap_or_default();
        if self.view.target_stays_inside(&dir, target.as_bytes()) {
            Ok(target.into_bytes())
        } else {
            Err(Error::NotFound)
        }
    }

    /// Checks what the acting thread may do (access(2), with the effective ids).
    ///
    /// # Errors
    /// `EACCES`; `EROFS` where writing is asked for and the thing is read-only.
    pub fn access(&self, held: &Held, wanted: rustix::fs::Access) -> Result<()> {
        if wanted.contains(rustix::fs::Access::WRITE_OK) {
            self.changeable(held)?;
        }
        if held.node.meta().kind == FileType::Symlink {
            return Ok(());
        }
        crate::sys::fd::access(held.node.as_fd(), wanted.bits()).map_err(Error::os("faccessat2"))
    }

    /// Waits until a directory's entries are on the disk.
    ///
    /// # Errors
    /// What `fsync(2)` says.
    pub fn sync_dir(&self, dir: &Dir) -> Result<()> {
        super::sync_dir(&self.root, dir)
    }
}

/// What a record says of a file before its content changes: size, time, and the permission bits that it may lose.
fn before(held: &Held) -> (u64, crate::journal::Stamp, Option<u32>) {
    let meta = held.node.meta();
    let loses = meta.mode & (S_ISUID | S_ISGID) != 0;
    (
        meta.size,
        (meta.mtime.sec, meta.mtime.nsec),
        loses.then(|| meta.permissions()),
    )
}

fn timespec(time: SetTime) -> Timespec {
    let special = |nsec: i64| Timespec {
        tv_sec: 0,
        tv_nsec: nsec,
    };
    match time {
        SetTime::Keep => special(rustix::fs::UTIME_OMIT),
        SetTime::Now => special(rustix::fs::UTIME_NOW),
        SetTime::To(time) => Timespec {
            tv_sec: time.sec,
            tv_nsec: i64::from(time.nsec),
        },
    }
}

fn attr_op(held: &Held, change: &Change) -> Op {
    let meta = held.node.meta();
    Op::Attr {
        path: held.path.clone(),
        ids: World::ids(meta.id),
        was: Was {
            mode: meta.permissions(),
            uid: meta.uid,
            gid: meta.gid,
            atime: (meta.atime.sec, meta.atime.nsec),
            mtime: (meta.mtime.sec, meta.mtime.nsec),
        },
        mode: change.mode.map(|mode| mode & 0o7777),
        uid: change.uid,
        gid: change.gid,
        times: change.sets_times(),
    }
}
