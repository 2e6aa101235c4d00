//! Requests about attributes, including extended ones.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use fuser::{AccessFlags, FileAttr, FileHandle};
use rustix::io::Errno;

use super::FileSystem;
use super::attr::{attributes, from_system_time};
use super::open_state::FileOpens;
use crate::error::{Error, Result};
use crate::world::root::stat_fd;
use crate::world::view::in_trash;
use crate::world::{Caller, LocatedNode, Meta, SetAttrs, SetTime, Time};

impl FileSystem {
    /// Translates attributes, with a number and a link count, and with the owner that this home shows.
    pub(super) fn shown_attributes(&self, number: u64, nlink: u32, meta: &Meta) -> FileAttr {
        attributes(number, nlink, self.shared.options.shown_owner, meta)
    }

    /// Returns attributes for the kernel, and how long it may cache them.
    pub(super) fn attributes_of(
        &self,
        located: &LocatedNode,
        meta: &Meta,
        number: u64,
    ) -> (Duration, FileAttr) {
        let attr = self.shown_attributes(number, self.link_count(located, meta), meta);
        (self.entry_ttl(self.ttl_of(number, located), &attr), attr)
    }

    /// Returns the attributes of a node.
    pub(super) fn get_attributes(&self, number: u64) -> Result<(Duration, FileAttr)> {
        match self.locate_held(number) {
            Ok(located) => Ok(self.attributes_of(&located, located.node.meta(), number)),
            // Its trash entry was purged while it was open: the open file survives that too.
            Err(error) => {
                let handle = self.shared.handles.of_node(number).ok_or(error)?;
                let meta = stat_fd(handle.as_fd())?;
                Ok((
                    Duration::ZERO,
                    self.shown_attributes(number, meta.nlink, &meta),
                ))
            }
        }
    }

    /// Sets attributes, including the size. `ctime` is what the kernel shows as the time of this change, where it keeps
    /// such times (with the writeback cache).
    pub(super) fn set_attributes(
        &self,
        number: u64,
        (change, ctime): (SetAttrs, Option<SystemTime>),
        fh: Option<FileHandle>,
        may_wait: bool,
        caller: Caller,
    ) -> Result<(Duration, fuser::FileAttr)> {
        // Needed for every attribute: a new inode with the old attributes may be about to take the file's place.
        let _turn = self.shared.handles.inode_lock(number, may_wait)?;
        let ctime = ctime.map(from_system_time);
        let handle = fh
            .and_then(|fh| self.shared.handles.get(fh.0))
            .filter(|handle| handle.writes);
        let file = handle.as_ref().map(|handle| handle.as_fd());
        let opens =
            FileOpens::for_request(self, number, handle.as_deref(), may_wait).for_truncation();
        let mut located = self.locate_held(number)?;
        if sent_unasked(change, ctime, located.node.meta()) {
            if change.mtime == SetTime::To(located.node.meta().mtime) {
                return Ok(self.attributes_of(&located, located.node.meta(), number));
            }
            // This is about the removal itself. Its failure would be that of somebody's next close(2).
            located.removed |= in_trash(&located.path);
        }
        // An empty SETATTR asks to remove what a write or a chown(2) removes (FUSE_HANDLE_KILLPRIV_V2): fuse_setattr
        // leaves that to the file system, and never sends an empty one for another reason.
        if change == SetAttrs::default() {
            let writing = self.shared.handles.is_open(number).1;
            let meta = self.world().drop_privileges(&located, writing, caller)?;
            return Ok(self.attributes_of(&located, &meta, number));
        }
        let meta = match self
            .world()
            .set_attr(&located, change, file, &opens, caller)
        {
            // The kernel flushes the times of what was written to a file of somebody else, whose times only the store's
            // kernel may set; and it has.
            Err(error)
                if error.errno() == Errno::PERM
                    && only_mtime(change)
                    && ctime.is_some()
                    && self.shared.handles.is_open(number).1 =>
            {
                located.node.stat()?
            }
            set => set?,
        };
        if meta.is_dir() {
            // Perhaps it may not be searched any more.
            self.inodes().dir_changed();
        }
        Ok(self.attributes_of(&located, &meta, number))
    }

    /// Checks whether the acting thread may access a node.
    pub(super) fn may_access(&self, number: u64, mask: AccessFlags) -> Result<()> {
        let wanted = rustix::fs::Access::from_bits_truncate(mask.bits().cast_unsigned());
        self.world().access(&self.locate(number)?, wanted)
    }

    /// Returns an extended attribute.
    pub(super) fn get_xattr(&self, number: u64, name: &OsStr) -> Result<Vec<u8>> {
        self.offers_xattrs()?;
        self.world()
            .get_xattr(&self.locate(number)?, name.as_bytes())
    }

    /// Returns the names of the extended attributes.
    pub(super) fn list_xattr(&self, number: u64) -> Result<Vec<u8>> {
        self.offers_xattrs()?;
        self.world().list_xattr(&self.locate(number)?)
    }

    /// Sets an extended attribute, with flags; without a value, removes it.
    pub(super) fn set_xattr(
        &self,
        number: u64,
        name: &OsStr,
        value: Option<(&[u8], i32)>,
        may_wait: bool,
        caller: Caller,
    ) -> Result<()> {
        self.offers_xattrs()?;
        let _lock = self.shared.handles.inode_lock(number, may_wait)?;
        let (located, name) = (self.locate_held(number)?, name.as_bytes());
        match value {
            Some((value, flags)) => {
                let flags = flags.cast_unsigned();
                self.world().set_xattr(&located, name, value, flags, caller)
            }
            None => self.world().remove_xattr(&located, name, caller),
        }
    }

    /// Returns ENOSYS if extended attributes are not supported: the kernel then never asks again.
    fn offers_xattrs(&self) -> Result<()> {
        if self.shared.options.xattr {
            Ok(())
        } else {
            Err(Error::os("xattr")(Errno::NOSYS))
        }
    }
}

/// The delay with which the kernel may note the time of an act.
const MAX_TIME_DELAY: Duration = Duration::from_millis(100);

/// Returns whether the kernel sends a file's times by itself. With the writeback cache it does so after each change of
/// the file's names (fuse_update_ctime_in_cache, fuse_flush_times), and the store's file has changed with that already.
/// A program that sets only the mtime so soon after another change of the file is taken for the kernel.
fn sent_unasked(change: SetAttrs, ctime: Option<Time>, meta: &Meta) -> bool {
    let since_1970 = |time: Time| {
        let sec = u64::try_from(time.sec).unwrap_or(0);
        Duration::new(sec, time.nsec)
    };
    only_mtime(change)
        && ctime.is_some_and(|ctime| since_1970(ctime) <= since_1970(meta.ctime) + MAX_TIME_DELAY)
}

/// Returns whether a change sets nothing but the mtime.
fn only_mtime(change: SetAttrs) -> bool {
    let only_time = SetAttrs {
        mtime: change.mtime,
        ..SetAttrs::default()
    };
    change == only_time && matches!(change.mtime, SetTime::To(_))
}
