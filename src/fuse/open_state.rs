//! [`OpenState`] for one request about one file: how the kernel's opens affect keeping its content.
//!
//! With passthrough, writes through an open file are not seen. A file that has to be kept block by block is therefore
//! opened so that they are: through the page cache and the daemon, or, if it is already open in passthrough and this
//! open only writes, directly to the daemon (`FOPEN_DIRECT_IO` beside the backing file, which the kernel allows).
//! Content whose writes cannot be seen is copied whole. The user of an `FileOpens` holds the file's inode lock
//! ([`super::handles::HandleTable::inode_lock`]).

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::handle::Handle;
use super::{FileSystem, SharedState};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::world::{
    BlockVersion, Id, Meta, Node, OpenState, OpenWriters, StartedVersion, VersionRef, WriteStatus,
};

/// The opens of one file during one request. Created under the inode lock, before the file is looked at.
pub(super) struct FileOpens<'a> {
    fs: &'a FileSystem,
    number: u64,
    /// The access mode of the open in progress.
    access: OFlags,
    /// True if the open in progress is one with `O_APPEND`.
    appends: bool,
    /// The open file that the request comes through.
    handle: Option<&'a Handle>,
    /// True if there is time for a long copy.
    may_wait: bool,
    /// True if the file was open when the request took the inode lock.
    was_open: bool,
    /// True if the kernel itself truncates the file: until it has the reply it writes nothing back (fuse_set_nowrite).
    cuts: bool,
    /// The version started for the open in progress.
    started: RefCell<Option<StartedVersion>>,
    /// The length kept for the open in progress, if it only appends.
    length: Cell<Option<u64>>,
}

impl<'a> FileOpens<'a> {
    /// Returns the state for an open in progress.
    pub(super) fn for_open(
        fs: &'a FileSystem,
        number: u64,
        flags: OFlags,
        may_wait: bool,
    ) -> FileOpens<'a> {
        FileOpens {
            fs,
            number,
            access: flags & OFlags::RWMODE,
            appends: flags.contains(OFlags::APPEND),
            handle: None,
            may_wait,
            was_open: fs.shared.handles.is_open(number).0,
            cuts: false,
            started: RefCell::default(),
            length: Cell::new(None),
        }
    }

    /// Returns the state for a request through an open file, or by name.
    pub(super) fn for_request(
        fs: &'a FileSystem,
        number: u64,
        handle: Option<&'a Handle>,
        may_wait: bool,
    ) -> FileOpens<'a> {
        FileOpens {
            fs,
            number,
            access: OFlags::WRONLY,
            appends: false,
            handle,
            may_wait,
            was_open: fs.shared.handles.is_open(number).0,
            cuts: false,
            started: RefCell::default(),
            length: Cell::new(None),
        }
    }

    /// Marks the request as a truncation by the kernel.
    pub(super) fn for_truncation(mut self) -> FileOpens<'a> {
        self.cuts = true;
        self
    }

    /// Returns the length that was kept, if nothing else was.
    pub(super) fn appends_from(&self) -> Option<u64> {
        self.length.get()
    }

    /// Returns the version that was started.
    pub(super) fn into_started(self) -> Option<StartedVersion> {
        self.started.into_inner()
    }
}

impl OpenState for FileOpens<'_> {
    fn is_open(&self) -> bool {
        // An open file may have been written and closed since the file was looked at.
        self.was_open
            || self.fs.shared.handles.is_open(self.number).0
            || self.fs.is_mapped(self.number)
    }

    fn is_written(&self) -> bool {
        self.fs.shared.handles.is_open(self.number).1 || self.fs.is_mapped(self.number)
    }

    fn only_appends(&self) -> bool {
        self.appends
    }

    fn may_wait(&self) -> bool {
        self.may_wait
    }

    fn sees_writes(&self) -> bool {
        let passthrough = self.fs.shared.mechanisms.lock().passthrough;
        self.fs
            .shared
            .handles
            .sees_writes(self.number, self.access, passthrough)
            && !self.fs.is_mapped(self.number)
    }

    fn is_covered(&self) -> bool {
        self.handle.is_some_and(Handle::is_covered)
    }

    fn block_version(&self) -> Option<Arc<BlockVersion>> {
        self.fs.shared.handles.block_version(self.number)
    }

    fn latest_copy(&self) -> Option<VersionRef> {
        self.fs.shared.handles.latest_copy(self.number)
    }

    fn note_version_started(&self, started: StartedVersion) {
        if let Some(handle) = self.handle {
            handle.cover();
        }
        self.fs
            .shared
            .handles
            .set_started(self.number, started.clone());
        self.started.replace(Some(started));
    }

    fn note_length_kept(&self, length: u64) {
        self.length.set(Some(length));
    }

    fn hands_over(&self) -> bool {
        self.cuts && !self.fs.shared.mechanisms.lock().passthrough
    }

    fn replace_inode(
        &self,
        new: &Meta,
        file: BorrowedFd<'_>,
        act: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (inodes, handles) = (self.fs.inodes(), &self.fs.shared.handles);
        let file = rustix::io::fcntl_dupfd_cloexec(file, 0).map_err(Error::os("fcntl"))?;
        let node = Node::from_fd(file)?;
        let root = self.fs.world().root();
        let opened = handles.reopen_handles(self.number, |flags| root.reopen(&node, flags))?;
        // A lookup that does not find the old inode meanwhile tries again.
        let moving = inodes.begin_move();
        moving.set_moves_no_dir();
        inodes.expect_replacement(self.number, new.id);
        let outcome = act();
        inodes.record_replacement(self.number, new.id, outcome.is_ok().then_some(new.born));
        if outcome.is_ok() {
            handles.hand_over(self.number, opened);
        }
        outcome
    }
}

/// The files that are open through the home, for making versions final.
#[derive(Debug)]
pub struct HomeWriters(pub std::sync::Weak<SharedState>);

impl OpenWriters for HomeWriters {
    fn write_status(&self, id: Id, path: &WorldPath) -> WriteStatus {
        let Some(shared) = self.0.upgrade() else {
            return WriteStatus::Busy;
        };
        // A file that the kernel does not know will most likely get this number, and nobody has it open.
        let number = shared.inodes.peek_or_reserve(id);
        let Ok(turn) = shared.handles.inode_lock(number, false) else {
            return WriteStatus::Busy;
        };
        if shared.handles.is_open(number).1 {
            return WriteStatus::Written;
        }
        let place = shared.inodes.location(number).map(|place| place.path);
        let root = shared.world.root();
        let node = root.node_expecting(place.as_ref().unwrap_or(path), id);
        let node = node.or_else(|_| root.node_expecting(path, id));
        let file = node.and_then(|node| root.reopen_quietly(&node)).ok();
        let is_mapped = match &file {
            Some(file) => shared.is_mapped_file(number, file.as_fd()),
            None => shared.is_mapped(number, || None),
        };
        drop(turn);
        if is_mapped {
            WriteStatus::Mapped
        } else {
            WriteStatus::AtRest(file)
        }
    }

    fn if_unwritten(&self, id: Id, look: &mut dyn FnMut()) -> bool {
        let Some(shared) = self.0.upgrade() else {
            return false;
        };
        let number = shared.inodes.peek_or_reserve(id);
        let Ok(_turn) = shared.handles.inode_lock(number, false) else {
            return false;
        };
        if !shared.handles.is_open(number).1 {
            look();
        }
        true
    }
}

/// The state of a file that already existed when it was to be created: its opens are not known, so nothing is assumed.
#[derive(Debug, Default)]
pub(super) struct UnseenOpens {
    appends: bool,
    length: Cell<Option<u64>>,
}

impl UnseenOpens {
    /// Returns the state for an open with such flags.
    pub(super) fn for_open(flags: OFlags) -> UnseenOpens {
        UnseenOpens {
            appends: flags.contains(OFlags::APPEND),
            length: Cell::new(None),
        }
    }

    /// Returns the length that was kept, if nothing else was.
    pub(super) fn appends_from(&self) -> Option<u64> {
        self.length.get()
    }
}

impl OpenState for UnseenOpens {
    fn is_open(&self) -> bool {
        true
    }

    fn only_appends(&self) -> bool {
        self.appends
    }

    fn note_length_kept(&self, length: u64) {
        self.length.set(Some(length));
    }
}
