//! The attributes of an open node: permission bits, owner, times; and access checks.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::open_state::{NoOpenState, OpenState};
use super::{Caller, FileOwnership, LocatedNode, World};
use crate::error::{Error, Result};
use crate::journal::{FormerAttrs, Op, SetIdRights};
use crate::name::WorldPath;
use trumanfs_types::attrs::{SetAttrs, SetTime};
use trumanfs_types::meta::Meta;

const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IXGRP: u32 = 0o010;

/// The set-user-id and set-group-id bits.
pub(super) const SET_IDS: u32 = S_ISUID | S_ISGID;

impl World {
    /// Sets attributes. `file` is the caller's descriptor, if the file is open: it may be truncated even if its
    /// permissions no longer allow opening it.
    ///
    /// # Errors
    /// `EROFS`; `EPERM` if a caller who works for an agent would add set-user-id or set-group-id to a file; any error
    /// from chmod(2), chown(2), truncate(2) or utimensat(2).
    pub fn set_attr(
        &self,
        located: &LocatedNode,
        change: SetAttrs,
        file: Option<BorrowedFd<'_>>,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<Meta> {
        self.expect_changeable(located, caller)?;
        let meta = located.node.meta();
        let added = change.mode.unwrap_or(0) & SET_IDS & !meta.mode;
        if added != 0 && !meta.is_dir() && caller.origin.is_for_agent() {
            return Err(Error::os("chmod")(Errno::PERM));
        }
        self.expect_no_outside_name(located, open_state, caller)?;
        let moved;
        let mut located = located;
        if let Some(size) = change.size
            && let Some(node) = self.truncate(located, size, file, open_state, caller)?
        {
            moved = LocatedNode {
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
            // A truncation's record has the former mtime; the writeback cache sends a new mtime with each truncation.
            let only_time = SetAttrs {
                size: change.size,
                mtime: change.mtime,
                ..SetAttrs::default()
            };
            if change.size.is_some() && change == only_time {
                match self.apply_attrs(located, change, caller) {
                    // The file belongs to another user: the store's kernel has set the time.
                    Err(error) if error.errno() == Errno::PERM => {}
                    applied => applied?,
                }
                let after = located.node.stat()?;
                self.note_content_changed(&after, open_state);
                return Ok(after);
            }
            if change.uid.is_some() || change.gid.is_some() {
                self.note_capability(located, caller)?;
            }
            let op = attr_op(&located.path, located.node.meta(), &change);
            let pending = self.journal.begin(op, &[], Some(&self.author(caller)))?;
            let seq = pending.seq();
            pending.with_outcome(self.apply_attrs(located, change, caller))?;
            if change.size.is_none() {
                let after = located.node.stat()?;
                let before = located.node.meta();
                self.journal.note_attributes(seq, before, &after);
                return Ok(after);
            }
        }
        let after = located.node.stat()?;
        if change.size.is_some() {
            self.note_content_changed(&after, open_state);
        }
        Ok(after)
    }

    fn apply_attrs(&self, located: &LocatedNode, change: SetAttrs, caller: Caller) -> Result<()> {
        let mut change = change;
        if change.uid.is_some() || change.gid.is_some() {
            // The store's kernel sees the acting thread, which may be root, and not the caller.
            let meta = located.node.meta();
            if self.identity == FileOwnership::Caller && meta.mode & SET_IDS != 0 && !meta.is_dir()
            {
                change.mode = change.mode.or(bits_left(meta, &SetIdRights::of(caller)));
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

    /// Clears set-user-id and set-group-id of a file whose content an unprivileged caller changed. The store's kernel
    /// does so itself if this thread is the caller; a daemon running as root must do it instead.
    pub fn drop_setid(&self, located: &LocatedNode, caller: Caller) -> Result<()> {
        if self.identity != FileOwnership::Caller && !caller.origin.is_for_agent() {
            return Ok(());
        }
        match without_setid(located.node.meta(), caller) {
            Some(mode) => self.root.chmod(&located.node, mode),
            None => Ok(()),
        }
    }

    /// Clears set-user-id and set-group-id of a file that a caller who works for an agent has opened for writing: a
    /// shared map changes the content without a request. The record of the open has the mode before.
    pub(super) fn drop_setid_at_open(&self, located: &LocatedNode, caller: Caller) -> Result<()> {
        if !caller.origin.is_for_agent() {
            return Ok(());
        }
        match self.drop_setid(located, caller) {
            // The file is another user's, so its bits stay, as in any other file system.
            Err(Error::Os {
                errno: Errno::PERM, ..
            }) => Ok(()),
            dropped => dropped,
        }
    }

    /// Removes the privileges that a file gives to those who run it: set-user-id, set-group-id, capabilities. The
    /// kernel asks for it when a process without `CAP_FSETID` is about to write, and on a chown(2) that changes
    /// neither owner nor group. It does not say which, so a file open for writing is assumed to be written.
    ///
    /// # Errors
    /// `EROFS`; `EPERM` for a chown(2) by a user other than the owner that would remove something.
    pub fn drop_privileges(
        &self,
        located: &LocatedNode,
        writing: bool,
        caller: Caller,
    ) -> Result<Meta> {
        self.expect_changeable(located, caller)?;
        let meta = located.node.meta();
        if meta.is_dir() {
            return located.node.stat();
        }
        let rights = SetIdRights::of(caller);
        let left = bits_left(meta, &rights).filter(|_| self.identity == FileOwnership::Caller);
        if left.is_some() && !writing && caller.uid != meta.uid && !rights.acts_as_owner() {
            return Err(Error::os("chown")(Errno::PERM));
        }
        if meta.mode & SET_IDS != 0 {
            self.expect_no_outside_name(located, &NoOpenState, caller)?;
        }
        self.note_capability(located, caller)?;
        let change = SetAttrs {
            mode: left,
            ..SetAttrs::default()
        };
        let pending = match meta.mode & SET_IDS {
            0 => None,
            _ => Some(self.journal.begin(
                attr_op(&located.path, meta, &change),
                &[],
                Some(&self.author(caller)),
            )?),
        };
        // The same call makes the store's kernel do the same; but a daemon running as root counts as a member of every
        // group.
        let act = || {
            match rustix::fs::chownat(&located.node, "", None, None, AtFlags::EMPTY_PATH) {
                // The file belongs to another user: the write itself removes what it must.
                Err(Errno::PERM) if writing => {}
                done => done.map_err(Error::os("chownat"))?,
            }
            match left {
                Some(mode) => self.root.chmod(&located.node, mode),
                None => Ok(()),
            }
        };
        match pending {
            Some(pending) => pending.with_outcome(act()),
            None => act(),
        }?;
        located.node.stat()
    }

    /// Checks the acting thread's access (access(2), with the effective ids).
    ///
    /// # Errors
    /// `EACCES`; `EROFS` if write access is asked for and the node is read-only.
    pub fn access(&self, located: &LocatedNode, wanted: rustix::fs::Access) -> Result<()> {
        if wanted.contains(rustix::fs::Access::WRITE_OK) {
            let is_dir = located.node.meta().is_dir();
            if !located.removed {
                self.view.expect_changeable(&located.path, is_dir)?;
            }
        }
        if located.node.meta().kind == FileType::Symlink {
            return Ok(());
        }
        crate::sys::fd::access(located.node.as_fd(), wanted.bits()).map_err(Error::os("faccessat2"))
    }
}

/// Returns an error if set-group-id was requested and chmod(2) dropped it, which chmod(2) does without an error for a
/// caller that is neither root nor in the file's group.
pub fn check_set_gid(asked: &SetAttrs, now: &Meta) -> Result<()> {
    let mode = asked.mode.unwrap_or(0);
    if mode & !now.mode & S_ISGID == 0 {
        return Ok(());
    }
    Err(Error::refused(
        format!(
            "its mode is {:o} instead of {mode:o}: only root and members of group {} can give it set-group-id",
            now.permissions(),
            now.gid
        ),
        "",
    ))
}

/// Splits the permission bits requested for a new file into those that it gets, and the set-user-id and set-group-id
/// bits that a caller who works for an agent does not get.
pub(super) fn without_new_set_ids(mode: u32, caller: Caller) -> (u32, Option<u32>) {
    let dropped = if caller.origin.is_for_agent() {
        mode & SET_IDS
    } else {
        0
    };
    (mode & !dropped, Some(dropped).filter(|bits| *bits != 0))
}

/// Returns the permission bits left after a caller changes the content; `None` if all stay.
pub(super) fn without_setid(meta: &Meta, caller: Caller) -> Option<u32> {
    if meta.mode & SET_IDS == 0 {
        return None;
    }
    if caller.origin.is_for_agent() {
        return Some(meta.permissions() & !SET_IDS);
    }
    let rights = SetIdRights::of(caller);
    bits_left(meta, &rights).filter(|_| !rights.keeps())
}

/// Returns the permission bits left after the bits to be cleared are gone; `None` if all stay. Set-group-id without
/// group execute permission once meant mandatory locking; members of the group keep it (`setattr_should_drop_sgid`).
fn bits_left(meta: &Meta, rights: &SetIdRights) -> Option<u32> {
    let mode = meta.permissions();
    let goes = if mode & S_IXGRP == 0 && rights.is_in(meta.gid) {
        S_ISUID
    } else {
        SET_IDS
    };
    (mode & goes != 0).then_some(mode & !goes)
}

/// Sets the times of an open file.
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

fn attr_op(path: &WorldPath, meta: &Meta, change: &SetAttrs) -> Op {
    Op::Attr {
        path: path.clone(),
        ids: World::ids(meta.id),
        was: FormerAttrs {
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
