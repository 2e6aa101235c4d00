//! Requests about ranges of open files: reserving and freeing space, finding data and holes, copying from one file to
//! another.

use std::os::fd::AsFd;

use fuser::{CopyFileRangeFlags, FileHandle, INodeNo};
use rustix::io::Errno;

use super::FileSystem;
use super::open_state::FileOpens;
use crate::error::{Error, Result};
use crate::world::Caller;

/// The size in bytes above which a copy runs on a thread of its own.
const LONG_COPY: u64 = 4 << 20;

/// The most bytes copied by one request.
const COPIED_AT_ONCE: u64 = 32 << 20;

impl FileSystem {
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
        let opens = FileOpens::for_request(self, number, Some(&handle), may_wait);
        let located = self.locate_held(number)?;
        self.world()
            .allocate(&located, handle.as_fd(), mode, range, &opens, caller)?;
        self.note_written(&handle).map(drop)
    }

    /// Finds the next data or hole in an open file.
    pub(super) fn seek_to(&self, fh: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        if self.shared.mechanisms.lock().writeback {
            // Data held back by the page cache are not in the store's file yet. After ENOSYS the kernel treats files
            // as having no holes.
            return Err(Error::os("lseek")(Errno::NOSYS));
        }
        let handle = self.handle(fh)?;
        // A negative offset is passed on: ENXIO on most file systems.
        let at = offset.cast_unsigned();
        let to = match whence {
            3 => rustix::fs::SeekFrom::Data(at), // SEEK_DATA; the kernel answers all but these two itself
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
        (fh_in, mut offset_in): (FileHandle, u64),
        (fh_out, mut offset_out): (FileHandle, u64),
        (len, flags): (u64, CopyFileRangeFlags),
        may_wait: bool,
        caller: Caller,
    ) -> Result<u32> {
        // What is overwritten is first copied, so this takes twice as long as elsewhere.
        if !may_wait && len > LONG_COPY {
            return Err(Error::TakesLong);
        }
        if !flags.is_empty() {
            return Err(Error::Invalid);
        }
        let (from, to) = (self.handle(fh_in)?, self.handle(fh_out)?);
        // A part at a time, as the call allows: other requests wait meanwhile.
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
        self.world().drop_setid(&self.locate(ino_out.0)?, caller)?;
        self.note_written(&to)?;
        self.invalidate_attributes(ino_out.0);
        Ok(u32::try_from(copied).unwrap_or(u32::MAX))
    }
}
