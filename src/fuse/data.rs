//! Opening, closing, syncing, reading and writing of files. With passthrough the kernel reads and writes by itself, and
//! only the others arrive here.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    BackingId, FileAttr, FileHandle, FopenFlags, INodeNo, OpenFlags, ReplyData, ReplyEmpty,
    Request, WriteFlags,
};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use super::counters::counted;
use super::handle::{Handle, HandleSpec};
use super::handles::{DataPath, EmptyingGuard};
use super::open_state::{FileOpens, UnseenOpens};
use super::page_cache::{CacheKnowledge, FileDigest, digest_for_read};
use super::reply::OpenReply;
use super::shared_maps::can_outlive;
use super::{FileSystem, MountMechanisms, handle_flags};
use crate::error::{Error, Result};
use crate::sys::process_maps::may_write_through_a_map;
use crate::world::root::stat_fd;
use crate::world::{Caller, Meta, Origin, StartedVersion};

/// The time for which the end of a home waits for acts that go on aside: a disk may hang.
const ASIDE_LIMIT: Duration = Duration::from_secs(5);

/// The state of an open in progress: what has been kept of the file, and how it will be opened.
#[derive(Debug, Default)]
pub(super) struct OpenPlan {
    /// The version that has been started.
    started: Option<StartedVersion>,
    /// The size of the file, if it was opened only for appending.
    appends_from: Option<u64>,
    /// True if the page cache is bypassed.
    uncached: bool,
    /// True if the open empties the file.
    empties: bool,
    /// The digest of a file that is small and only read.
    look: Option<FileDigest>,
}

impl OpenPlan {
    /// Returns the value for a newly created file, of which nothing is kept, or for one that was there after all and is
    /// opened only for appending.
    pub(super) fn of_new(uncached: bool, appends_from: Option<u64>) -> OpenPlan {
        OpenPlan {
            uncached,
            appends_from,
            ..OpenPlan::default()
        }
    }
}

impl FileSystem {
    /// Returns an open file.
    pub(super) fn handle(&self, number: FileHandle) -> Result<Arc<Handle>> {
        self.world().expect_lock()?;
        let handle = self.shared.handles.get(number.0);
        handle.ok_or_else(|| Error::os("handle")(Errno::BADF))
    }

    /// Opens a file for a handle, and returns how the kernel is to treat it.
    pub(super) fn open_handle(
        &self,
        ino: INodeNo,
        flags: i32,
        caller: Caller,
        may_wait: bool,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Result<OpenReply> {
        let mechanisms = *self.shared.mechanisms.lock();
        let _turn = self.shared.handles.inode_lock(ino.0, may_wait)?;
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let empties = asked.contains(OFlags::TRUNC);
        let emptying = empties.then(|| self.shared.handles.begin_emptying(ino.0));
        let opens = FileOpens::for_open(self, ino.0, asked, may_wait);
        let located = self.locate(ino.0)?;
        let append_only = Cell::new(false);
        let open = |flags: OFlags| {
            match self.world().open_file(&located, flags, &opens, caller) {
                // One that may only be appended to (chattr +a): pages that are written back would be, too.
                Err(Error::Os {
                    errno: Errno::PERM, ..
                }) if asked.contains(OFlags::APPEND) => {
                    append_only.set(true);
                    let flags = flags | OFlags::APPEND;
                    self.world().open_file(&located, flags, &opens, caller)
                }
                opened => opened,
            }
        };
        let opened = open(handle_flags(flags, mechanisms));
        let meta = located.node.meta();
        if meta.mode & 0o6000 != 0 {
            // Opening for writing may clear these bits, and the reply cannot report it.
            self.invalidate_attributes(ino.0);
        }
        let mut only_writes = false;
        let file = match opened {
            // The page cache would read the file, but its mode allows only writing: bypass the cache.
            Err(Error::Os {
                errno: Errno::ACCESS,
                ..
            }) if mechanisms.writeback => {
                only_writes = true;
                open(handle_flags(flags, MountMechanisms::default()))?
            }
            file => file?,
        };
        let writes = asked & OFlags::RWMODE != OFlags::RDONLY;
        let kept = OpenPlan {
            appends_from: opens.appends_from(),
            started: opens.into_started(),
            uncached: only_writes || append_only.get() || writes && self.writes_through(mechanisms),
            empties: emptying.map(EmptyingGuard::confirm).is_some(),
            look: digest_for_read(asked, meta).filter(|_| mechanisms.passthrough),
        };
        Ok(self.add_handle(ino, caller, file, flags, kept, register))
    }

    /// Creates and opens a file, and returns how the kernel is to treat it.
    pub(super) fn create_handle(
        &self,
        parent: INodeNo,
        name: &OsStr,
        (flags, mode): (i32, u32),
        caller: Caller,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Result<(Duration, FileAttr, OpenReply)> {
        let mechanisms = *self.shared.mechanisms.lock();
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let wanted = handle_flags(flags, mechanisms) | asked & OFlags::EXCL;
        let unseen = UnseenOpens::for_open(asked);
        let mut file = None;
        let (ttl, attr) = self.create_entry(parent, name, |dir, name| {
            let created = self
                .world()
                .create(dir, name, wanted, mode, &unseen, caller)?;
            file = Some(created.file);
            Ok(created.meta)
        })?;
        let file = file.ok_or(Error::NotFound)?;
        let kept = OpenPlan::of_new(self.writes_through(mechanisms), unseen.appends_from());
        let opened = self.add_handle(attr.ino, caller, file, flags, kept, register);
        Ok((ttl, attr, opened))
    }

    /// Closes a handle. The caller does not wait for what happens after the reply.
    pub(super) fn close_handle(&self, number: u64, fh: FileHandle, reply: ReplyEmpty) {
        let closed = self.shared.handles.remove(fh.0);
        reply.ok();
        let Some((handle, ends_writing)) = closed else {
            return;
        };
        if handle.maps {
            self.invalidate_attributes(number);
        }
        if !ends_writing {
            return;
        }
        let mut seen = handle.seen.lock().take();
        if let Some(before) = self.shared.unmark_held_file(number, handle.as_fd()) {
            self.world().note_state_as(&before);
            self.shared.closed_maps.forget(number);
            seen = Some(before);
        }
        if let Err(Error::TakesLong) = self.end_writing(&handle, seen, false) {
            let handle = handle.clone();
            self.spawn_blocking(move |fs| drop(fs.end_writing(&handle, seen, true)));
        }
        if handle.maps {
            // Its own descriptor must not count as somebody who writes.
            drop(handle);
            self.shared.stamp_closed_map(number);
        }
    }

    /// Closes what is still open when the home has ended: by then the kernel drops the closes that it has not told of
    /// (fuse_abort_conn). Where the connection was cut, a program may still write past the daemon.
    pub fn close_all(&self) {
        self.shared.aside.wait_for_all(ASIDE_LIMIT);
        for number in self.shared.handles.numbers() {
            let Some((handle, ends_writing)) = self.shared.handles.remove(number) else {
                continue;
            };
            if handle.hidden.is_some() {
                let knowledge = CacheKnowledge::Mapped;
                self.inodes().set_cache_knowledge(handle.node(), knowledge);
            }
            if ends_writing {
                let seen = handle.seen.lock().take();
                let _ = self.end_writing(&handle, seen, true);
            }
        }
        // Before what is left is copied.
        self.shared.stamp_closed_maps(true);
    }

    /// Has a file stamped whose last open for writing has ended, if nobody has opened it again. `seen` is its state when
    /// it was last looked at through the handle.
    ///
    /// # Errors
    /// As [`HandleTable::inode_lock`](super::handles::HandleTable::inode_lock); those of `fstat(2)`.
    fn end_writing(&self, handle: &Handle, seen: Option<Meta>, may_wait: bool) -> Result<()> {
        let handles = &self.shared.handles;
        let turn = handles.inode_lock(handle.node(), may_wait)?;
        let meta = seen.map_or_else(|| stat_fd(handle.as_fd()), Ok)?;
        if !handles.is_open(handle.node()).1 {
            self.world().note_closed(&meta, handle.hidden.is_none());
        }
        drop(turn);
        let finalizer = self.world().finalizer();
        if finalizer.waiting_count() > 0 {
            finalizer.note_closed(meta.id);
        }
        Ok(())
    }

    /// Waits until an open file is on disk.
    pub(super) fn sync(&self, number: u64, fh: FileHandle, datasync: bool) -> Result<()> {
        let handle = self.handle(fh)?;
        if handle.maps {
            self.invalidate_attributes(number);
        }
        if datasync {
            rustix::fs::fdatasync(handle.as_fd()).map_err(Error::os("fdatasync"))
        } else {
            rustix::fs::fsync(handle.as_fd()).map_err(Error::os("fsync"))
        }
    }

    /// Waits until the entries of a directory are on disk.
    pub(super) fn sync_dir(&self, number: u64) -> Result<()> {
        self.world().sync_dir(&self.dir(number)?)
    }

    /// Returns whether a write must reach the store before it succeeds. With writeback, the page cache accepts data
    /// that the disk has no space for, and only fsync and close would report it.
    pub(super) fn writes_through(&self, mechanisms: MountMechanisms) -> bool {
        mechanisms.writeback && self.world().is_room_scarce()
    }

    /// Registers an open file, and returns how the kernel is to treat it.
    pub(super) fn add_handle(
        &self,
        ino: INodeNo,
        by: Caller,
        file: OwnedFd,
        flags: i32,
        kept: OpenPlan,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> OpenReply {
        let passthrough = self.shared.mechanisms.lock().passthrough;
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        let writes = flags & OFlags::RWMODE != OFlags::RDONLY;
        if !writes {
            // A map that may have been there is gone, perhaps.
            self.shared.is_mapped_file(ino.0, file.as_fd());
        }
        let known = self.inodes().cache_knowledge(ino.0);
        let asked = HandleSpec {
            by: by.pid,
            origin: by.origin,
            writes,
            maps: writes && (!passthrough || flags & OFlags::RWMODE == OFlags::RDWR),
            empties: kept.empties,
            flags,
            started: kept.started,
            appends_from: kept.appends_from,
            cached: kept.look.is_some_and(|look| known.is_read_again(look)),
            // Without passthrough the kernel keeps the times of what is written, and only where it writes itself: it
            // has its own way past its page cache for these.
            uncached: kept.uncached || (passthrough && flags.contains(OFlags::DIRECT)),
        };
        let uncached = asked.uncached;
        let (number, way) = self.shared.handles.add(ino.0, file, asked, |fd| {
            passthrough.then(|| register(fd).ok()).flatten()
        });
        let past = !matches!(way, DataPath::Served);
        let now = known.after_open(kept.look, past, can_outlive(flags, &way));
        self.inodes().set_cache_knowledge(ino.0, now);
        let true_pages = now == known && matches!(now, CacheKnowledge::Cached(_));
        let served = match way {
            DataPath::Passthrough(_) => FopenFlags::empty(),
            DataPath::Direct(_) => FopenFlags::FOPEN_DIRECT_IO,
            DataPath::Served if uncached => FopenFlags::FOPEN_DIRECT_IO,
            DataPath::Served if true_pages => FopenFlags::FOPEN_KEEP_CACHE,
            // The page cache may be older than what was written past it.
            DataPath::Served if passthrough => FopenFlags::empty(),
            // Changes behind the mount are noticed and invalidate the cache; otherwise attributes are cached briefly
            // and the kernel compares mtimes (AUTO_INVAL_DATA).
            DataPath::Served => FopenFlags::FOPEN_KEEP_CACHE,
        };
        // Only what is written past the daemon is stamped when it is closed; the rest with each write.
        let flush = match way.hides_writes(flags) {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_NOFLUSH,
        };
        (FileHandle(number), served | flush, way)
    }

    /// Takes a stamp of a file that was written past the daemon, before its close(2) returns: after that its owner may
    /// change it. Under the inode lock, as what another request changes is between two states.
    ///
    /// # Errors
    /// As [`HandleTable::inode_lock`](super::handles::HandleTable::inode_lock).
    pub(super) fn note_flushed(&self, fh: FileHandle, process: u32, may_wait: bool) -> Result<()> {
        let handle = self.shared.handles.get(fh.0);
        let Some(handle) = handle.filter(|handle| handle.hidden.is_some()) else {
            return Ok(());
        };
        let _turn = self.shared.handles.inode_lock(handle.node(), may_wait)?;
        // Before the file is looked at: what a writer who is gone has written is seen then.
        let is_last = self.shared.handles.writer_count(handle.node()) == 1;
        let since = self.world().newest_for_stamps();
        let now = stat_fd(handle.as_fd());
        // After the file was looked at: whoever had saved it by then has closed it.
        let mixed = self.shared.left_before_mixed(handle.node());
        let left = match mixed.map_or(now, Ok) {
            Ok(left) => left,
            Err(error) => {
                log::debug!("a file that was closed has no stamp: {error}");
                return Ok(());
            }
        };
        *handle.seen.lock() = Some(left);
        if mixed.is_some() {
            self.world().note_state_as(&left);
            self.shared.closed_maps.forget(handle.node());
        } else if handle.maps && may_write_through_a_map(process) {
            // A map of it may outlive the close: what was seen before is no state to stamp.
            self.world().forget_state(left.id);
            self.shared.closed_maps.note(handle.node(), (left, since));
            self.world().wake_sealing();
        } else if is_last {
            self.world().note_closing(&left);
        } else {
            let _ = self.world().note_state(&*handle);
        }
        Ok(())
    }

    /// Notes the state of a file after a write that came here.
    pub(super) fn note_written(&self, handle: &Handle) -> Result<Meta> {
        let now = self.world().note_state(handle)?;
        if let Some(before) = self.shared.left_before_mixed(handle.node()) {
            self.world().note_state_as(&before);
        }
        *handle.seen.lock() = Some(now);
        Ok(now)
    }

    /// Returns the run of a write: that which opened the file, where the page cache writes back without a process.
    fn run_of(&self, handle: &Handle, caller: Caller) -> Origin {
        match caller.pid {
            0 => handle.origin,
            thread => self.shared.runs.origin_of(thread),
        }
    }

    /// Keeps what is about to be overwritten through an open file, unless a version that covers it has been started. A
    /// version saved block by block is extended.
    pub(super) fn before_overwriting(
        &self,
        handle: &Handle,
        range: (u64, u64),
        caller: Caller,
    ) -> Result<()> {
        let number = handle.node();
        if handle.is_covered() {
            return match self.shared.handles.block_version(number) {
                Some(blocks) => blocks.save(range.0, range.0.saturating_add(range.1)),
                None => Ok(()),
            };
        }
        if range.0 >= handle.appends_from {
            return Ok(());
        }
        let _turn = self.shared.handles.inode_lock(number, true)?;
        let opens = FileOpens::for_request(self, number, Some(handle), true);
        let located = self.locate_held(number)?;
        let caller = caller.for_run(self.run_of(handle, caller));
        self.world()
            .before_overwriting(&located, range, &opens, caller)
    }

    /// Answers a read.
    pub(super) fn read_for(
        &self,
        req: &Request,
        ino: INodeNo,
        (fh, offset, size): (FileHandle, u64, u32),
        reply: ReplyData,
    ) {
        let handle = self.handle(fh);
        // A small file is there at once, and its reader goes on.
        let info = if handle.as_ref().is_ok_and(|handle| handle.cached) {
            self.begin_request(req, ino, counted!(read))
        } else {
            self.begin_long_request(req, ino, counted!(read))
        };
        let data = handle.and_then(|handle| self.read_from(&handle, offset, size));
        self.answer(info, reply, data);
    }

    /// Reads from an open file.
    fn read_from(&self, handle: &Handle, offset: u64, size: u32) -> Result<Vec<u8>> {
        let mut data = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        // The kernel takes a short read for the end of the file, so this reads until that.
        while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(handle.as_fd(), rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::os("pread")(errno)),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// Writes to an open file. `open_flags` are those that the program's descriptor has now.
    pub(super) fn write_at(
        &self,
        number: u64,
        (fh, offset): (FileHandle, u64),
        data: &[u8],
        (flags, open_flags): (WriteFlags, OpenFlags),
        caller: Caller,
    ) -> Result<u32> {
        let handle = self.handle(fh)?;
        // The kernel's size of a file can be late. What passes the page cache is appended at the file's true end.
        let open_flags = OFlags::from_bits_retain(open_flags.0.cast_unsigned());
        let appends = handle.uncached && open_flags.contains(OFlags::APPEND);
        let how = if appends {
            ReadWriteFlags::APPEND
        } else {
            self.before_overwriting(&handle, (offset, data.len() as u64), caller)?;
            ReadWriteFlags::empty()
        };
        let mut written = 0;
        while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            let at = offset + written as u64;
            match rustix::io::pwritev2(handle.as_fd(), &[IoSlice::new(rest)], at, how) {
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(_) if written > 0 => break,
                Err(errno) => return Err(Error::os("pwritev2")(errno)),
            }
        }
        let left = self.note_written(&handle)?;
        if appends && left.size != offset + written as u64 {
            self.invalidate_attributes(number);
        }
        if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            let caller = caller.for_run(self.run_of(&handle, caller));
            self.world().drop_setid(&self.locate(number)?, caller)?;
        }
        Ok(u32::try_from(written).unwrap_or(u32::MAX))
    }
}
