//! Requests about the content of open files. With passthrough the kernel reads and writes by itself, and only opening,
//! syncing and seeking come here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackingId, CopyFileRangeFlags, FileHandle, FopenFlags, INodeNo};
use rustix::fs::OFlags;

use super::handles::{Asked, Emptying, Handle, Way};
use super::open_state::Opens;
use super::{FileSystem, Mechanisms, handle_flags};
use crate::error::{Error, Result};
use crate::world::{Caller, SetAttrs, StartedVersion};

/// How much one request copies, in bytes.
const COPIED_AT_ONCE: u64 = 32 << 20;

/// What has been kept of a file that is opened.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The version that has been begun.
    started: Option<StartedVersion>,
    /// The size, where it was opened only to be appended to.
    appends_from: Option<u64>,
    /// Whether the page cache has to be left out.
    uncached: bool,
    /// Whether its opening empties it.
    empties: bool,
}

impl Kept {
    /// What there is to keep of a file that was just made.
    pub(super) fn of_new(uncached: bool) -> Kept {
        Kept {
            uncached,
            ..Kept::default()
        }
    }
}

impl FileSystem {
    /// Does something that waits for a disk in a thread of its own: as many such requests as there are workers would
    /// bring the whole home to a stop.
    pub(super) fn spawn_blocking(&self, act: impl FnOnce(&FileSystem) + Send + 'static) {
        let fs = self.clone();
        // Where no thread can be had, the closure is dropped and the reply with it, for which fuser answers EIO.
        let spawned = std::thread::Builder::new()
            .name("sync".to_owned())
            .spawn(move || act(&fs));
        if let Err(error) = spawned {
            log::warn!("no thread for syncing: {error}");
        }
    }

    /// Does something at once if it does not take long, else in a thread of its own.
    pub(super) fn at_once_or_aside<R: Send + 'static, T>(
        &self,
        reply: R,
        act: impl Fn(&FileSystem, &R, bool) -> Result<T> + Send + 'static,
        answer: impl FnOnce(R, Result<T>) + Send + 'static,
    ) {
        match act(self, &reply, false) {
            Err(Error::TakesLong) => self.spawn_blocking(move |fs| {
                let done = act(fs, &reply, true);
                answer(reply, done);
            }),
            done => answer(reply, done),
        }
    }

    /// Returns an open file.
    pub(super) fn handle(&self, number: FileHandle) -> Result<Arc<Handle>> {
        let bad = Error::Os {
            call: "handle",
            errno: rustix::io::Errno::BADF,
        };
        self.shared.handles.get(number.0).ok_or(bad)
    }

    /// Opens a file for a handle, and says how the kernel shall treat it.
    pub(super) fn open_handle(
        &self,
        ino: INodeNo,
        flags: i32,
        caller: Caller,
        may_wait: bool,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Result<(FileHandle, FopenFlags, Way)> {
        let mechanisms = *self.shared.mechanisms.lock();
        let _turn = self.shared.handles.inode_lock(ino.0, may_wait)?;
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let empties = asked.contains(OFlags::TRUNC);
        let emptying = empties.then(|| self.shared.handles.emptying(ino.0));
        let opens = Opens::opening(self, ino.0, asked, may_wait);
        let located = self.located(ino.0)?;
        let wanted = handle_flags(flags, mechanisms) | asked & OFlags::APPEND;
        let opened = self.world().open_file(&located, wanted, &opens, caller);
        let meta = located.node.meta();
        if meta.mode & 0o6000 != 0 {
            // Opening for writing may take these bits away, and its answer cannot say so.
            self.attributes_changed(ino.0);
        }
        let mut only_writes = false;
        let file = match opened {
            // The page cache would like to read what it is only allowed to write: then it is left out.
            Err(Error::Os {
                errno: rustix::io::Errno::ACCESS,
                ..
            }) if mechanisms.writeback => {
                let asked = handle_flags(flags, Mechanisms::default()) | asked & OFlags::APPEND;
                only_writes = true;
                self.world().open_file(&located, asked, &opens, caller)?
            }
            file => file?,
        };
        let only = OFlags::RWMODE | OFlags::APPEND | OFlags::TRUNC;
        // The page cache writes back whole pages, old bytes too: there it is an open like any other.
        let appends = !mechanisms.writeback && asked & only == OFlags::WRONLY | OFlags::APPEND;
        let writes = asked & OFlags::RWMODE != OFlags::RDONLY;
        let kept = Kept {
            appends_from: appends.then_some(meta.size),
            started: opens.started(),
            uncached: only_writes || writes && self.writes_through(mechanisms),
            empties: emptying.map(Emptying::goes_on).is_some(),
        };
        Ok(self.add_handle(ino, caller.pid, file, flags, kept, register))
    }

    /// Returns whether a write has to reach the store before it succeeds. The page cache takes what the disk has no room for (writeback), and
    /// only fsync and close would tell of it.
    pub(super) fn writes_through(&self, mechanisms: Mechanisms) -> bool {
        mechanisms.writeback && self.world().is_room_scarce()
    }

    /// Notes an open file, and says how the kernel shall treat it.
    pub(super) fn add_handle(
        &self,
        ino: INodeNo,
        by: u32,
        file: OwnedFd,
        flags: i32,
        kept: Kept,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> (FileHandle, FopenFlags, Way) {
        let passthrough = self.shared.mechanisms.lock().passthrough;
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        let writes = flags & OFlags::RWMODE != OFlags::RDONLY;
        let asked = Asked {
            by,
            writes,
            maps: writes && (!passthrough || flags & OFlags::RWMODE == OFlags::RDWR),
            empties: kept.empties,
            flags,
            started: kept.started,
            appends_from: kept.appends_from,
        };
        let (number, way) = self.shared.handles.add(ino.0, file, asked, |fd| {
            passthrough.then(|| register(fd).ok()).flatten()
        });
        let served = match way {
            Way::Passthrough(_) => FopenFlags::empty(),
            Way::Direct(_) => FopenFlags::FOPEN_DIRECT_IO,
            Way::Served if kept.uncached || flags.contains(OFlags::DIRECT) => {
                FopenFlags::FOPEN_DIRECT_IO
            }
            // What the page cache has may be older than what was written past it.
            Way::Served if passthrough => FopenFlags::empty(),
            // Changes made behind the mount are noticed and invalidate; else the attributes' life is short and the
            // kernel compares the time of change (AUTO_INVAL_DATA).
            Way::Served => FopenFlags::FOPEN_KEEP_CACHE,
        };
        (FileHandle(number), served | FopenFlags::FOPEN_NOFLUSH, way)
    }

    /// Sets attributes, the size among them.
    pub(super) fn set_attributes(
        &self,
        number: u64,
        change: SetAttrs,
        fh: Option<FileHandle>,
        may_wait: bool,
        caller: Caller,
    ) -> Result<(Duration, fuser::FileAttr)> {
        // Whatever it is: another inode may be about to take the file's place, with the attributes that it had.
        let _turn = self.shared.handles.inode_lock(number, may_wait)?;
        let handle = fh
            .and_then(|fh| self.shared.handles.get(fh.0))
            .filter(|handle| handle.writes);
        let file = handle.as_ref().map(|handle| handle.as_fd());
        let opens = Opens::through(self, number, handle.as_deref(), may_wait).cutting();
        let located = self.held_by_user(number)?;
        // Nothing to be set is the kernel's way to say what a write, or chown(2), takes away (FUSE_HANDLE_KILLPRIV_V2): fuse_setattr leaves
        // it to the file system, and has nothing else to ask for.
        if change == SetAttrs::default() {
            let writing = self.shared.handles.is_open(number).1;
            let meta = self.world().drop_privileges(&located, writing, caller)?;
            return Ok(self.attributes_of(&located, &meta, number));
        }
        let meta = self
            .world()
            .set_attr(&located, change, file, &opens, caller)?;
        Ok(self.attributes_of(&located, &meta, number))
    }

    /// Reserves or frees space in an open file.
    pub(super) fn allocate(
        &self,
        number: u64,
        fh: FileHandle,
        mode: u32,
        range: (u64, u64),
        may_wait: bool,
        caller: Caller,
    ) -> Result<()> {
        let _turn = self.shared.handles.inode_lock(number, may_wait)?;
        let handle = self.handle(fh)?;
        let opens = Opens::through(self, number, Some(&handle), may_wait);
        let located = self.held_by_user(number)?;
        self.world()
            .allocate(&located, handle.as_fd(), mode, range, &opens, caller)
    }

    /// Keeps what is about to be overwritten through an open file, where no version of it has been begun yet or where it
    /// is saved block by block.
    fn before_overwriting(&self, handle: &Handle, range: (u64, u64), caller: Caller) -> Result<()> {
        let number = handle.node();
        if handle.is_covered() {
            return match self.shared.handles.blocks(number) {
                Some(blocks) => blocks.save(range.0, range.0.saturating_add(range.1)),
                None => Ok(()),
            };
        }
        if range.0 >= handle.appends_from {
            return Ok(());
        }
        let _turn = self.shared.handles.inode_lock(number, true)?;
        let opens = Opens::through(self, number, Some(handle), true);
        let located = self.held_by_user(number)?;
        self.world()
            .before_overwriting(&located, range, &opens, caller)
    }

    /// Reads from an open file.
    pub(super) fn read_at(&self, fh: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>> {
        let handle = self.handle(fh)?;
        let mut data = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        // A short read means the end of the file to the kernel, so go on until it is that.
        while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(handle.as_fd(), rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(Error::os("pread")(errno)),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// Writes to an open file.
    pub(super) fn write_at(
        &self,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        caller: Caller,
    ) -> Result<u32> {
        let handle = self.handle(fh)?;
        self.before_overwriting(&handle, (offset, data.len() as u64), caller)?;
        let mut written = 0;
        while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pwrite(handle.as_fd(), rest, offset + written as u64) {
                Ok(n) => written += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) if written > 0 => break,
                Err(errno) => return Err(Error::os("pwrite")(errno)),
            }
        }
        Ok(u32::try_from(written).unwrap_or(u32::MAX))
    }

    /// Finds data or a hole in an open file.
    pub(super) fn seek_to(&self, fh: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        if self.shared.mechanisms.lock().writeback {
            // What the page cache holds back is not in the store's file yet. ENOSYS: the kernel takes files for whole.
            return Err(Error::Os {
                call: "lseek",
                errno: rustix::io::Errno::NOSYS,
            });
        }
        let handle = self.handle(fh)?;
        // A negative offset goes on as it is: ENXIO on most file systems.
        let at = offset.cast_unsigned();
        let to = match whence {
            3 => rustix::fs::SeekFrom::Data(at), // SEEK_DATA; the kernel answers all but these two by itself
            4 => rustix::fs::SeekFrom::Hole(at), // SEEK_HOLE
            _ => return Err(Error::Invalid),
        };
        let at = rustix::fs::seek(handle.as_fd(), to).map_err(Error::os("lseek"))?;
        i64::try_from(at).map_err(|_| Error::Invalid)
    }

    /// Copies a range from one open file to another.
    pub(super) fn copy(
        &self,
        ino_out: INodeNo,
        caller: Caller,
        (fh_in, mut offset_in): (FileHandle, u64),
        (fh_out, mut offset_out): (FileHandle, u64),
        len: u64,
        flags: CopyFileRangeFlags,
    ) -> Result<u32> {
        if !flags.is_empty() {
            return Err(Error::Invalid);
        }
        let (from, to) = (self.handle(fh_in)?, self.handle(fh_out)?);
        // A part at a time, which the call allows: other requests wait meanwhile.
        let len = len.min(COPIED_AT_ONCE);
        self.before_overwriting(&to, (offset_out, len), caller)?;
        let len = usize::try_from(len).unwrap_or(0);
        let copied = rustix::fs::copy_file_range(
            from.as_fd(),
            Some(&mut offset_in),
            to.as_fd(),
            Some(&mut offset_out),
            len,
        );
        let copied = copied.map_err(Error::os("copy_file_range"))?;
        self.world().drop_setid(&self.located(ino_out.0)?, caller)?;
        self.attributes_changed(ino_out.0);
        Ok(u32::try_from(copied).unwrap_or(u32::MAX))
    }
}
