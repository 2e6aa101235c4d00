//! A new content in the place of an old one, in the same inode, while others have the file open and add to it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::keep::blocks::copy_range;
use crate::world::root::stat_fd;

/// How many bytes are carried over at once.
const CHUNK: usize = 1 << 20;

/// Writes a new content of so many bytes, ready in a file of its own, over the old one, and behind it what has been added
/// to the old one since it had `was` bytes. Whoever has the file open goes on adding to it: between looking how long it is
/// and setting its length there is nothing else.
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
        // The old content goes at once, and what is added comes behind the new one.
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

/// Makes holes in a file where another one has them; `false` if the file system makes none.
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

/// Copies what is between two offsets of a file to an offset of another one, or to an earlier one of the same.
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
