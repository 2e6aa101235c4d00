//! Overwriting of a file's content in the same inode, while other processes have the file open and append to it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::keep::blocks::copy_range;
use crate::world::root::stat_fd;

/// The number of bytes carried over at once.
const CHUNK: usize = 1 << 20;

/// Overwrites a file with a new content of `size` bytes, which is ready in a file of its own, followed by the bytes
/// appended to the old content since it had `was` bytes. Other processes may go on appending, so nothing happens
/// between querying the length and setting it.
pub(in crate::world) fn overwrite(
    file: &OwnedFd,
    ready: &OwnedFd,
    size: u64,
    was: u64,
) -> Result<()> {
    let length = || stat_fd(file.as_fd()).map(|meta| meta.size);
    let truncate = |to| rustix::fs::ftruncate(file, to).map_err(Error::os("ftruncate"));
    let (mut from, mut to) = (was, size);
    let now = length()?;
    carry_over(file, ready, &mut from, &mut to, now)?;
    if to > now {
        truncate(to)?;
    }
    copy_range(ready.as_fd(), file.as_fd(), 0, to)?;
    if !punch(ready, file, to)? {
        // The old content goes at once; appended bytes come behind the new content.
        truncate(0)?;
        truncate(to)?;
        return copy_range(ready.as_fd(), file.as_fd(), 0, to);
    }
    if to < now {
        let now = length()?;
        carry_over(file, file, &mut from, &mut to, now)?;
        truncate(to)?;
    } else if length()? == to {
        // Space may be reserved behind the end.
        truncate(to)?;
    }
    Ok(())
}

/// Punches holes into a file where another file has them; `false` if the file system cannot.
fn punch(of: &OwnedFd, file: &OwnedFd, end: u64) -> Result<bool> {
    let mut at = 0;
    while at < end {
        let data = match rustix::fs::seek(of, SeekFrom::Data(at)) {
            Ok(data) => data.min(end),
            Err(Errno::NXIO) => end,
            // Without `SEEK_DATA` all of it was copied.
            Err(Errno::INVAL) => return Ok(true),
            Err(errno) => return Err(Error::os("lseek")(errno)),
        };
        if data > at {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(file, flags, at, data - at) {
                Err(Errno::OPNOTSUPP) => return Ok(false),
                punched => punched.map_err(Error::os("fallocate"))?,
            }
        }
        at = rustix::fs::seek(of, SeekFrom::Hole(data)).map_or(end, |hole| hole.max(data));
        if at == data {
            break;
        }
    }
    Ok(true)
}

/// Copies the bytes between two offsets of a file to an offset of another file, or to an earlier offset of the same.
pub(in crate::world) fn carry_over(
    source: &OwnedFd,
    target: &OwnedFd,
    from: &mut u64,
    to: &mut u64,
    end: u64,
) -> Result<()> {
    let mut buffer = vec![
        0;
        usize::try_from(end.saturating_sub(*from))
            .unwrap_or(CHUNK)
            .min(CHUNK)
    ];
    while *from < end {
        let room = usize::try_from(end - *from).unwrap_or(CHUNK).min(CHUNK);
        let part = buffer.get_mut(..room).unwrap_or_default();
        let read = rustix::io::pread(source, &mut *part, *from).map_err(Error::os("pread"))?;
        let mut part = part.get(..read).unwrap_or_default();
        if part.is_empty() {
            break;
        }
        *from += read as u64;
        while !part.is_empty() {
            let written = rustix::io::pwrite(target, part, *to).map_err(Error::os("pwrite"))?;
            part = part.get(written..).unwrap_or_default();
            *to += written as u64;
        }
    }
    Ok(())
}
