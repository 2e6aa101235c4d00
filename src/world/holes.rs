//! Space that is reserved and holds nothing (fallocate(2)): zeros to whoever reads, but no hole to `du`.
//!
//! `lseek(2)` calls it a hole until somebody has read it and data from then on, because pages of zeros are in the cache then
//! (iomap's `SEEK_DATA`). So it is asked for itself, where what is a hole and what is not matters.

use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;

/// How much is read at once.
const CHUNK: usize = 1 << 16;

/// Returns the parts of a range that are reserved and hold nothing: starts and ends. None where the file system does not say.
pub fn reserved(file: BorrowedFd<'_>, from: u64, to: u64) -> Vec<(u64, u64)> {
    let mut reserved = crate::sys::fd::unwritten(file, from, to).unwrap_or_default();
    // What has been written and is not on the disk yet is called unwritten, too.
    reserved.retain(|(start, end)| is_zero(file, *start, *end));
    reserved
}

/// Returns whether a range has a hole, one that is not reserved.
pub(super) fn has_hole(file: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    let mut at = from;
    for (start, end) in crate::sys::fd::unwritten(file, from, to).unwrap_or_default() {
        if seeks_hole(file, at, start) {
            return true;
        }
        at = end;
    }
    seeks_hole(file, at, to)
}

fn seeks_hole(file: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    from < to && rustix::fs::seek(file, SeekFrom::Hole(from)).is_ok_and(|hole| hole < to)
}

fn is_zero(file: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    let mut buffer = vec![0; CHUNK];
    let mut at = from;
    while at < to {
        // Only what the cache has is read; the rest is made of nothing.
        let want = usize::try_from(to - at).unwrap_or(CHUNK).min(CHUNK);
        let part = buffer.get_mut(..want).unwrap_or_default();
        match rustix::io::pread(file, &mut *part, at) {
            Ok(0) => return true, // The file ends.
            Ok(read) if part.iter().take(read).all(|byte| *byte == 0) => at += read as u64,
            Err(rustix::io::Errno::INTR) => {}
            _ => return false,
        }
    }
    true
}
