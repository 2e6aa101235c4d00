//! Reserved space without data (fallocate(2)): it reads as zeros, but `du` does not count it as a hole.
//!
//! `lseek(2)` reports such space as a hole until it has been read and as data from then on, because the page cache then
//! has pages of zeros (iomap's `SEEK_DATA`). So where holes matter, the file's extents are queried instead.

use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;

use super::root::stat_fd;
use crate::sys::extents::{ExtentSync, extents};

/// The usual size of a block.
const BLOCK: u64 = 4096;

/// The number of bytes read at once.
const CHUNK: usize = 1 << 16;

/// Returns the starts and ends of the parts of a range that are reserved and hold no data. Empty if the file system
/// does not report extents.
pub fn reserved_ranges(file: BorrowedFd<'_>, from: u64, to: u64) -> Vec<(u64, u64)> {
    let mut reserved = unwritten_ranges(file, from, to);
    // Data not yet written back are reported as unwritten, too.
    reserved.retain(|(start, end)| is_zero(file, *start, *end));
    reserved
}

/// Returns the starts and ends of the parts of a range that hold no data although lseek(2) may say so: what is
/// reserved, and on xfs also holes that were read while space was reserved for copies of shared blocks near them.
pub fn ranges_without_data(file: BorrowedFd<'_>, from: u64, to: u64) -> Vec<(u64, u64)> {
    let Ok(found) = extents(file, (from, to), ExtentSync::Now) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut at = from;
    for extent in found.iter().filter(|extent| !extent.is_unwritten()) {
        parts.push((at, extent.logical.min(to)));
        at = at.max(extent.end());
    }
    parts.push((at, to));
    parts.retain(|(start, end)| start < end && is_zero(file, *start, *end));
    parts
}

/// Returns whether a range has a hole that is not reserved.
pub(super) fn has_hole(file: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    let mut at = from;
    for (start, end) in unwritten_ranges(file, from, to) {
        if seeks_hole(file, at, start) {
            return true;
        }
        at = end;
    }
    seeks_hole(file, at, to)
}

/// Returns whether a file has reserved space behind its end (`FALLOC_FL_KEEP_SIZE`).
pub fn is_reserved_beyond_end(file: BorrowedFd<'_>) -> bool {
    let Ok(meta) = stat_fd(file) else {
        return false;
    };
    let end = meta.size.next_multiple_of(BLOCK);
    match extents(file, (end, u64::MAX - end), ExtentSync::Now) {
        // Space that xfs adds to a growing file is not counted: it has no extent before it is written.
        Ok(found) => found
            .iter()
            .any(|extent| extent.is_unwritten() && extent.end() > end),
        // tmpfs reports no extents. What is reserved within its files counts as well: it is no data either.
        Err(_) => is_tmpfs(file) && meta.blocks * 512 > bytes_with_data(file, meta.size),
    }
}

fn is_tmpfs(file: BorrowedFd<'_>) -> bool {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|of| of.f_type == TMPFS_MAGIC)
}

/// Returns the size of a file's blocks that have data.
fn bytes_with_data(file: BorrowedFd<'_>, size: u64) -> u64 {
    let (mut at, mut sum) = (0, 0);
    while at < size
        && let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(at))
        && let Ok(end) = rustix::fs::seek(file, SeekFrom::Hole(start))
    {
        sum += end.next_multiple_of(BLOCK) - start;
        at = end;
    }
    sum
}

/// Returns the parts of a range for which a file has space but no data on disk. Data not yet written back may be among
/// them.
fn unwritten_ranges(file: BorrowedFd<'_>, from: u64, to: u64) -> Vec<(u64, u64)> {
    let found = extents(file, (from, to), ExtentSync::Now).unwrap_or_default();
    let unwritten = found.iter().filter(|extent| extent.is_unwritten());
    unwritten
        .map(|extent| (extent.logical.max(from), extent.end().min(to)))
        .filter(|(start, end)| start < end)
        .collect()
}

fn seeks_hole(file: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    from < to && rustix::fs::seek(file, SeekFrom::Hole(from)).is_ok_and(|hole| hole < to)
}

fn is_zero(file: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    let mut buffer = vec![0; CHUNK];
    let mut at = from;
    while at < to {
        // Cached pages come from memory, and the rest is unwritten, so reading costs no I/O.
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
