//! Comparison of a version with its successor (the later versions and the file): the parts in common need not be kept.
//!
//! Only reads. A part that cannot be read with certainty counts as different. A version always keeps its own holes
//! (they cost nothing) and its blocks of zeros, so that the restored content has holes in the same places.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::extents::{BLOCK, length};
use super::ranges::{merged, outside, without};
use super::shared_blocks::same_blocks;
use crate::error::{Error, Result};

/// The number of bytes read at once.
const CHUNK: usize = 1 << 18;

/// The most bytes of a version that are read.
pub(super) const MOST: u64 = 4 << 30;

/// Bigger files, in bytes, are sampled first.
const SAMPLED_FROM: u64 = 8 << 20;

/// The number of samples.
const SAMPLES: u64 = 128;

/// One part of a version's successor: a later version, or the file.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: OwnedFd,
    /// The ranges that it has; all, if absent.
    pub(super) ranges: Option<Vec<(u64, u64)>>,
    /// The offset from which nothing is read from the later parts.
    pub(super) limit: u64,
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The ranges that the version must keep: the complement of `same`.
    pub(super) differs: Vec<(u64, u64)>,
    /// The ranges that its successor has in common.
    pub(super) same: Vec<(u64, u64)>,
    /// The SHA-256 of the whole version, if all of it was read.
    pub(super) digest: Option<String>,
}

/// Compares a version of a given size with its successor, up to a limit; `None` if samples show nothing in common.
///
/// # Errors
/// Any error from reading the version.
pub(super) fn compare(
    version: BorrowedFd<'_>,
    size: u64,
    limit: u64,
    after: &[Part],
) -> Result<Option<Found>> {
    let whole = [(0, size.min(limit))];
    if size > SAMPLED_FROM && !sampled(version, &whole, after) {
        return Ok(None);
    }
    let mut comparison = Comparison::new(version, limit, after);
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < size {
        let (data, end) = next_data(version, at, size)?;
        zeros(&mut hash, data - at);
        comparison.range(data, end, |chunk| hash.update(chunk))?;
        at = end;
    }
    let digest = hash.finalize();
    Ok(Some(Found {
        differs: without(size, &comparison.same),
        same: comparison.same,
        digest: Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
    }))
}

/// As [`compare`], for a version that has only some ranges, and no digest.
///
/// # Errors
/// As [`compare`].
pub(super) fn compare_ranges(
    version: BorrowedFd<'_>,
    size: u64,
    ranges: &[(u64, u64)],
    limit: u64,
    after: &[Part],
) -> Result<Option<Found>> {
    if length(ranges) > SAMPLED_FROM && !sampled(version, ranges, after) {
        return Ok(None);
    }
    let mut comparison = Comparison::new(version, limit, after);
    for (from, to) in ranges {
        comparison.range(*from, *to, |_| {})?;
    }
    Ok(Some(Found {
        differs: outside(&comparison.same, ranges, size),
        same: comparison.same,
        digest: None,
    }))
}

/// As [`compare`], for a big version that shares its blocks with its successor: only what it does not share is read, and
/// there is no digest. `None` if it shares nothing, or what is left is too much to read.
///
/// # Errors
/// As [`compare`].
pub(super) fn compare_shared(
    version: BorrowedFd<'_>,
    size: u64,
    limit: u64,
    after: &[Part],
) -> Result<Option<Found>> {
    let Some(Part {
        file, ranges: None, ..
    }) = after.first()
    else {
        return Ok(None);
    };
    let shared = same_blocks((version, size), file.as_fd(), size.min(limit));
    let rest = without(size, &shared);
    if shared.is_empty() || length(&rest) > MOST {
        return Ok(None);
    }
    let mut comparison = Comparison::new(version, limit, after);
    for (from, to) in rest {
        let mut at = from;
        while at < to {
            let (data, end) = next_data(version, at, to)?;
            comparison.range(data, end, |_| {})?;
            at = end;
        }
    }
    let same = merged([shared, comparison.same].concat());
    Ok(Some(Found {
        differs: without(size, &same),
        same,
        digest: None,
    }))
}

/// A comparison that is going on.
struct Comparison<'a> {
    version: BorrowedFd<'a>,
    limit: u64,
    after: &'a [Part],
    bytes: Vec<u8>,
    others: Vec<u8>,
    /// What has been found in common.
    same: Vec<(u64, u64)>,
}

impl<'a> Comparison<'a> {
    fn new(version: BorrowedFd<'a>, limit: u64, after: &'a [Part]) -> Comparison<'a> {
        Comparison {
            version,
            limit,
            after,
            bytes: vec![0; CHUNK],
            others: vec![0; CHUNK],
            same: Vec::new(),
        }
    }

    /// Compares a range, and shows the version's bytes to `each`.
    fn range(&mut self, mut at: u64, end: u64, mut each: impl FnMut(&[u8])) -> Result<()> {
        let (after, same) = (self.after, &mut self.same);
        while at < end {
            let stop = end.min((at / CHUNK as u64 + 1) * CHUNK as u64);
            let length = usize::try_from(stop - at).unwrap_or(CHUNK);
            let chunk = self.bytes.get_mut(..length).unwrap_or_default();
            if read_at(self.version, chunk, at)? < length {
                return Err(Error::NotFound); // The version was truncated.
            }
            each(chunk);
            let other = self.others.get_mut(..length).unwrap_or_default();
            blocks(at, stop, |from, to| {
                let range = offset(from - at)..offset(to - at);
                let (Some(mine), Some(other)) = (chunk.get(range.clone()), other.get_mut(range))
                else {
                    return;
                };
                let same_bytes =
                    to <= self.limit && read_after(after, other, from) && mine == other;
                if same_bytes && mine.iter().any(|byte| *byte != 0) {
                    match same.last_mut() {
                        Some(last) if last.1 == from => last.1 = to,
                        _ => same.push((from, to)),
                    }
                }
            });
            at = stop;
        }
        Ok(())
    }
}

/// Returns whether any of a few blocks, evenly spread over some ranges, is the same.
fn sampled(version: BorrowedFd<'_>, ranges: &[(u64, u64)], after: &[Part]) -> bool {
    let mut one = vec![0; offset(BLOCK)];
    let mut other = vec![0; offset(BLOCK)];
    let step = (length(ranges) / SAMPLES).max(1);
    let mut skipped = 0_u64;
    ranges.iter().any(|(from, to)| {
        // The first sample that lies in this range.
        let first = skipped.div_ceil(step) * step - skipped;
        skipped += to - from;
        (from + first..*to)
            .step_by(usize::try_from(step).unwrap_or(usize::MAX))
            .map(|at| at / BLOCK * BLOCK)
            .any(|at| {
                read_at(version, &mut one, at).is_ok_and(|read| read == one.len())
                    && one.iter().any(|byte| *byte != 0)
                    && read_after(after, &mut other, at)
                    && one == other
            })
    })
}

/// Reads a range of the successor; `false` if part of it is missing or uncertain.
fn read_after(after: &[Part], buffer: &mut [u8], from: u64) -> bool {
    let to = from + buffer.len() as u64;
    let mut at = from;
    'next: while at < to {
        for part in after {
            // The end of the range for which this part, or else a later one, answers.
            let mut end = to;
            let mine = match &part.ranges {
                None => true,
                Some(ranges) => {
                    let next = ranges.partition_point(|range| range.1 <= at);
                    match ranges.get(next) {
                        Some(range) if range.0 <= at => {
                            end = end.min(range.1);
                            true
                        }
                        Some(range) => {
                            end = end.min(range.0);
                            false
                        }
                        None => false,
                    }
                }
            };
            if !mine && at >= part.limit {
                return false;
            }
            if mine {
                let range = offset(at - from)..offset(end - from);
                let Some(want) = buffer.get_mut(range) else {
                    return false;
                };
                let length = want.len();
                if read_at(part.file.as_fd(), want, at).ok() != Some(length) {
                    return false;
                }
                at = end;
                continue 'next;
            }
            if end < to {
                // Another part has the range up to there: at most one block, as many bytes as are certain.
                let (head, tail) = buffer.split_at_mut(offset(end - from));
                let start = offset(at - from);
                let Some(head) = head.get_mut(start..) else {
                    return false;
                };
                return read_after(after, head, at) && read_after(after, tail, end);
            }
        }
        return false;
    }
    true
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], from: u64) -> Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("pread")(errno)),
        }
    }
    Ok(filled)
}

/// Returns the start and end of the next data, both at most the size.
pub(super) fn next_data(file: BorrowedFd<'_>, at: u64, size: u64) -> Result<(u64, u64)> {
    let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data.min(size),
        Err(Errno::NXIO) => size,
        Err(Errno::INVAL) => at, // Not every file system supports `SEEK_DATA`.
        Err(errno) => return Err(Error::os("lseek")(errno)),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(data)).map_or(size, |end| end.min(size));
    Ok((data, end.max(data)))
}

/// Visits a range block by block; the first and the last may be partial.
fn blocks(from: u64, to: u64, mut visit: impl FnMut(u64, u64)) {
    let mut at = from;
    while at < to {
        let end = to.min((at / BLOCK + 1) * BLOCK);
        visit(at, end);
        at = end;
    }
}

fn zeros(hash: &mut Sha256, mut count: u64) {
    let zeros = [0; 4096];
    while count > 0 {
        let some = zeros.get(..offset(count.min(4096))).unwrap_or_default();
        hash.update(some);
        count -= some.len() as u64;
    }
}

fn offset(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// With `--durable`, waits until the successor's data are on disk: the version is about to lose its own copy, and they
/// may not have been written back yet.
pub(super) fn secure(parts: &[Part], durable: bool) -> Result<()> {
    let mut parts = parts.iter().filter(|_| durable);
    parts.try_for_each(|part| rustix::fs::fdatasync(&part.file).map_err(Error::os("fdatasync")))
}
