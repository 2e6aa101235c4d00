//! Copies the content of one file into another: in the kernel where possible, holes as holes, otherwise in chunks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::call::{Call, from_io_error};
use crate::stream::CHUNK;
use trumanfs_types::error::Error;

/// The size of one `copy_file_range`, in bytes.
const RANGE_SIZE: usize = 8 << 20;

/// The reason for which a content could not be copied.
pub(super) enum CopyError {
    /// The line's time limit has passed.
    TimedOut(io::Error),
    /// The source could not be read.
    Read(Error),
    /// The destination could not be written.
    Write(Error),
}

/// Copies all of a file into an empty one.
///
/// # Errors
/// See [`CopyError`].
pub(super) fn copy_content(call: &Call<'_>, from: &File, to: &File) -> Result<(), CopyError> {
    let mut copying = ContentCopier {
        call,
        from,
        to,
        in_kernel: true,
        chunk: Vec::new(),
    };
    let mut at = 0;
    loop {
        call.check().map_err(CopyError::TimedOut)?;
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole follows.
            Err(Errno::NXIO) => break,
            Err(_) => return copying.copy_range(at, u64::MAX).map(drop),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start)).unwrap_or(u64::MAX);
        at = copying.copy_range(start, end)?;
        if at < end {
            return Ok(());
        }
    }
    let length = from
        .metadata()
        .map_err(|error| CopyError::Read(from_io_error(&error)))?
        .len();
    if length > at {
        to.set_len(length)
            .map_err(|error| CopyError::Write(from_io_error(&error)))?;
    }
    Ok(())
}

/// The state of copying one file's content.
struct ContentCopier<'a> {
    call: &'a Call<'a>,
    from: &'a File,
    to: &'a File,
    in_kernel: bool,
    chunk: Vec<u8>,
}

impl ContentCopier<'_> {
    /// Copies the bytes between two offsets, or up to the end of the file. Returns the offset reached.
    fn copy_range(&mut self, mut at: u64, end: u64) -> Result<u64, CopyError> {
        while at < end {
            self.call.check().map_err(CopyError::TimedOut)?;
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let copied = if self.in_kernel {
                self.copy_in_kernel(at, left.min(RANGE_SIZE))
            } else {
                self.copy_chunk(at, left.min(CHUNK))?
            };
            match copied {
                // Not every file system supports this, and some report 0 bytes instead of an error.
                0 if self.in_kernel => self.in_kernel = false,
                0 => break,
                copied => at += copied,
            }
        }
        Ok(at)
    }

    fn copy_in_kernel(&self, at: u64, length: usize) -> u64 {
        let (mut read, mut written) = (at, at);
        rustix::fs::copy_file_range(
            self.from,
            Some(&mut read),
            self.to,
            Some(&mut written),
            length,
        )
        .map_or(0, |copied| copied as u64)
    }

    fn copy_chunk(&mut self, at: u64, length: usize) -> Result<u64, CopyError> {
        self.chunk.resize(length, 0);
        let read = loop {
            match self.from.read_at(&mut self.chunk, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| CopyError::Read(from_io_error(&error)))?,
            }
        };
        let read_off = self.chunk.get(..read).unwrap_or_default();
        self.to
            .write_all_at(read_off, at)
            .map_err(|error| CopyError::Write(from_io_error(&error)))?;
        Ok(read as u64)
    }
}
