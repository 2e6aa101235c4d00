//! The attributes of one thing that is already known: permission bits, owner, times; and who may do what.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::meta::{Meta, Time};
use super::open_state::OpenState;
use super::{Caller, Identity, Located, World};
use crate::error::{Error, Result};
use crate::journal::{Op, Rights, Was};

const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IXGRP: u32 = 0o010;

/// Set-user-id and set-group-id.
pub(super) const SET_IDS: u32 = S_ISUID | S_ISGID;

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
pub struct SetAttrs {
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

impl SetAttrs {
    fn sets_times(&self) -> bool {
        (self.atime, self.mtime) != (SetTime::Keep, SetTime::Keep)
    }
}

impl World {
    /// Sets attributes. `file` is the descriptor of an open file, where the caller has one: it may then be cut although
    /// its permissions no longer allow opening it.
    ///
    /// # Errors
    /// `EROFS`; what chmod(2), chown(2), truncate(2) and utimensat(2) say.
    pub fn set_attr(
        &self,
        located: &Located,
        change: SetAttrs,
        file: Option<BorrowedFd<'_>>,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<Meta> {
        self.changeable(located, caller)?;
        let moved;
        let mut located = located;
        if let Some(size) = change.size
            && let Some(node) = self.truncate(located, size, file, open_state, caller)?
        {
            moved = Located {
                node,
                path: located.path.clone(),
                removed: false,
            };
            located = &moved;
        }
        if change.mode.is_some()
            || change.uid.is_some()
            || change.gid.is_some()
            || change.sets_times()
        {
            // The record of a cut says the time before it; the writeback cache sets it with each.
            let only_time = SetAttrs {
                size: change.size,
                mtime: change.mtime,
                ..SetAttrs::default()
            };
            if change.size.is_some() && change == only_time {
                self.apply(located, change, caller)?;
                return located.node.stat();
            }
            if change.uid.is_some() || change.gid.is_some() {
                self.note_capability(located, caller)?;
            }
            let op = attr_op(located, &change);
            let pending = self.journal.begin(op, &[], Some(&self.author(caller)))?;
            pending.settle(self.apply(located, change, caller))?;
        }
        located.node.stat()
    }

    fn apply(&self, located: &Located, change: SetAttrs, caller: Caller) -> Result<()> {
        let mut change = change;
        if change.uid.is_some() || change.gid.is_some() {
            // The store's kernel knows the acting thread, which may be root, and not the caller.
            let meta = located.node.meta();
            if self.identity == Identity::Caller && meta.mode & SET_IDS != 0 && !meta.is_dir() {
                change.mode = change.mode.or(left(meta, &Rights::of(caller)));
            }
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(&located.node, "", uid, gid, AtFlags::EMPTY_PATH)
                .map_err(Error::os("chownat"))?;
        }
        if let Some(mode) = change.mode {
            self.root.chmod(&located.node, mode)?;
        }
        if change.sets_times() {
            set_times(located.node.as_fd(), &change)?;
        }
        Ok(())
    }

    /// Takes set-user-id and set-group-id from a file whose content was changed by an unprivileged caller. The store's
    /// kernel does it by itself where this thread is the caller; a daemon that is root must do it for them.
    pub fn drop_setid(&self, located: &Located, caller: Caller) -> Result<()> {
        if self.identity != Identity::Caller {
            return Ok(());
        }
        match without_setid(located.node.meta(), caller) {
            Some(mode) => self.root.chmod(&located.node, mode),
            None => Ok(()),
        }
    }

    /// Takes from a file what it gives to whoever runs it: set-user-id, set-group-id, a capability. The kernel wishes it where somebody without
    /// the capability to keep them is about to write, and for a chown(2) that changes neither owner nor group; it does not say which, so a
    /// file that is open for writing is taken to be written to.
    ///
    /// # Errors
    /// `EROFS`; `EPERM` for a chown(2) by another than the owner that would take something away.
    pub fn drop_privileges(
        &self,
        located: &Located,
        writing: bool,
        caller: Caller,
    ) -> Result<Meta> {
        self.changeable(located, caller)?;
        let meta = located.node.meta();
        if meta.is_dir() {
            return located.node.stat();
        }
        let rights = Rights::of(caller);
        let left = left(meta, &rights).filter(|_| self.identity == Identity::Caller);
        if left.is_some() && !writing && caller.uid != meta.uid && !rights.acts_as_owner() {
            return Err(Error::os("chown")(Errno::PERM));
        }
        self.note_capability(located, caller)?;
        let change = SetAttrs {
            mode: left,
            ..SetAttrs::default()
        };
        let pending = match meta.mode & SET_IDS {
            0 => None,
            _ => Some(self.journal.begin(
                attr_op(located, &change),
                &[],
                Some(&self.author(caller)),
            )?),
        };
        // For the same call the store's kernel does the same; but a daemon that is root counts as one of every group.
        let act = || {
            match rustix::fs::chownat(&located.node, "", None, None, AtFlags::EMPTY_PATH) {
                // To a file of somebody else: what the write takes away it takes away itself.
                Err(Errno::PERM) if writing => {}
                done => done.map_err(Error::os("chownat"))?,
            }
            match left {
                Some(mode) => self.root.chmod(&located.node, mode),
                None => Ok(()),
            }
        };
        match pending {
            Some(pending) => pending.settle(act()),
            None => act(),
        }?;
        located.node.stat()
    }

    /// Checks what the acting thread may do (access(2), with the effective ids).
    ///
    /// # Errors
    /// `EACCES`; `EROFS` where writing is asked for and the thing is read-only.
    pub fn access(&self, located: &Located, wanted: rustix::fs::Access) -> Result<()> {
        if wanted.contains(rustix::fs::Access::WRITE_OK) {
            let is_dir = located.node.meta().is_dir();
            if !located.removed {
                self.view.changeable(&located.path, is_dir)?;
            }
        }
        if located.node.meta().kind == FileType::Symlink {
            return Ok(());
        }
        crate::sys::fd::access(located.node.as_fd(), wanted.bits()).map_err(Error::os("faccessat2"))
    }
}

/// Returns the permission bits that a file is left with when a caller changes its content; `None` where all stay.
pub(super) fn without_setid(meta: &Meta, caller: Caller) -> Option<u32> {
    if meta.mode & SET_IDS == 0 {
        return None;
    }
    let rights = Rights::of(caller);
    left(meta, &rights).filter(|_| !rights.keeps())
}

/// Without the group's right to run, set-group-id meant mandatory locks once: that one stays with those of the group
/// (`setattr_should_drop_sgid`).
fn left(meta: &Meta, rights: &Rights) -> Option<u32> {
    let mode = meta.permissions();
    let goes = if mode & S_IXGRP == 0 && rights.is_in(meta.gid) {
        S_ISUID
    } else {
        SET_IDS
    };
    (mode & goes != 0).then_some(mode & !goes)
}

/// Sets the times of what a descriptor stands for.
pub(super) fn set_times(file: BorrowedFd<'_>, change: &SetAttrs) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(change.atime),
        last_modification: timespec(change.mtime),
    };
    rustix::fs::utimensat(file, c"", &times, AtFlags::EMPTY_PATH).map_err(Error::os("utimensat"))
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

fn attr_op(located: &Located, change: &SetAttrs) -> Op {
    let meta = located.node.meta();
    Op::Attr {
        path: located.path.clone(),
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
