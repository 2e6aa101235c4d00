//! Comparison of a version with its successor (the later versions and the file): the parts in common need not be kept.
//!
//! Only reads. A part that cannot be read with certainty counts as different. A version always keeps its own holes
//! (they cost nothing) and its blocks of zeros, so that the restored content has holes in the same places.

use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::world::keep::extents::{BLOCK, length};
use crate::world::keep::ranges::{complement, merged, subtract};
use crate::world::keep::shared_blocks::same_blocks;
use crate::world::keep::successor::{VersionSuccessor, read_at};

/// The number of bytes read at once.
const CHUNK: usize = 1 << 18;

/// The maximum number of bytes read of a version.
pub(in crate::world) const MAX_COMPARED_BYTES: u64 = 4 << 30;

/// Bigger files, in bytes, are sampled first.
const MIN_SAMPLED_BYTES: u64 = 8 << 20;

/// The number of samples.
const SAMPLES: u64 = 128;

/// The successor that a version is compared with, and the limits of the comparison.
#[derive(Clone, Copy)]
pub(in crate::world) struct CompareTarget<'a> {
    /// The successor of the version.
    pub(in crate::world) after: &'a VersionSuccessor<'a>,
    /// The offset from which nothing is read from the successor.
    pub(in crate::world) limit: u64,
    /// Returns whether there is no more time.
    pub(in crate::world) over: &'a dyn Fn() -> bool,
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::world) struct ComparedRanges {
    /// The ranges that the version must keep: the complement of `same`.
    pub(in crate::world) differs: Vec<(u64, u64)>,
    /// The ranges that its successor has in common with it.
    pub(in crate::world) same: Vec<(u64, u64)>,
    /// The SHA-256 of the whole version, if all of it was read.
    pub(in crate::world) digest: Option<String>,
}

/// Compares a version of a given size with its successor; `None` if samples show nothing in common.
///
/// # Errors
/// [`Error::TakesLong`] if the time is over; any error from reading the version.
pub(in crate::world) fn compare(
    version: BorrowedFd<'_>,
    size: u64,
    against: CompareTarget<'_>,
) -> Result<Option<ComparedRanges>> {
    let whole = [(0, size.min(against.limit))];
    if size > MIN_SAMPLED_BYTES && !samples_match(version, &whole, against.after) {
        return Ok(None);
    }
    let mut comparison = VersionComparison::new(version, against);
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < size {
        let (data, end) = next_data(version, at, size)?;
        hash_zeros(&mut hash, data - at);
        comparison.compare_range(data, end, |chunk| hash.update(chunk))?;
        at = end;
    }
    let digest = hash.finalize();
    Ok(Some(ComparedRanges {
        differs: complement(size, &comparison.same),
        same: comparison.same,
        digest: Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
    }))
}

/// Compares as [`compare`] a version that has only some ranges; there is no digest.
///
/// # Errors
/// As [`compare`].
pub(in crate::world) fn compare_ranges(
    version: BorrowedFd<'_>,
    size: u64,
    ranges: &[(u64, u64)],
    against: CompareTarget<'_>,
) -> Result<Option<ComparedRanges>> {
    if length(ranges) > MIN_SAMPLED_BYTES && !samples_match(version, ranges, against.after) {
        return Ok(None);
    }
    let mut comparison = VersionComparison::new(version, against);
    for (from, to) in ranges {
        comparison.compare_range(*from, *to, |_| {})?;
    }
    Ok(Some(ComparedRanges {
        differs: subtract(&comparison.same, ranges, size),
        same: comparison.same,
        digest: None,
    }))
}

/// Compares as [`compare`] a big version that shares its blocks with its successor: only the other blocks are read, and
/// there is no digest. `None` if no block is shared, or the others are too many to read.
///
/// # Errors
/// As [`compare`].
pub(in crate::world) fn compare_shared(
    version: BorrowedFd<'_>,
    size: u64,
    against: CompareTarget<'_>,
) -> Result<Option<ComparedRanges>> {
    let Some(file) = against.after.whole() else {
        return Ok(None);
    };
    let shared = same_blocks((version, size), file, size.min(against.limit));
    let rest = complement(size, &shared);
    if shared.is_empty() || length(&rest) > MAX_COMPARED_BYTES {
        return Ok(None);
    }
    let mut comparison = VersionComparison::new(version, against);
    for (from, to) in rest {
        let mut at = from;
        while at < to {
            let (data, end) = next_data(version, at, to)?;
            comparison.compare_range(data, end, |_| {})?;
            at = end;
        }
    }
    let same = merged([shared, comparison.same].concat());
    Ok(Some(ComparedRanges {
        differs: complement(size, &same),
        same,
        digest: None,
    }))
}

/// A comparison in progress.
struct VersionComparison<'a> {
    version: BorrowedFd<'a>,
    against: CompareTarget<'a>,
    bytes: Vec<u8>,
    others: Vec<u8>,
    /// The ranges found in common.
    same: Vec<(u64, u64)>,
}

impl<'a> VersionComparison<'a> {
    fn new(version: BorrowedFd<'a>, against: CompareTarget<'a>) -> VersionComparison<'a> {
        VersionComparison {
            version,
            against,
            bytes: vec![0; CHUNK],
            others: vec![0; CHUNK],
            same: Vec::new(),
        }
    }

    /// Compares a range, and shows the version's bytes to `each`.
    fn compare_range(&mut self, mut at: u64, end: u64, mut each: impl FnMut(&[u8])) -> Result<()> {
        let (against, same) = (self.against, &mut self.same);
        while at < end {
            if (against.over)() {
                return Err(Error::TakesLong);
            }
            let stop = end.min((at / CHUNK as u64 + 1) * CHUNK as u64);
            let length = usize::try_from(stop - at).unwrap_or(CHUNK);
            let chunk = self.bytes.get_mut(..length).unwrap_or_default();
            if read_at(self.version, chunk, at)? < length {
                return Err(Error::NotFound); // The version was truncated.
            }
            each(chunk);
            let other = self.others.get_mut(..length).unwrap_or_default();
            each_block(at, stop, |from, to| {
                let range = offset(from - at)..offset(to - at);
                let (Some(mine), Some(other)) = (chunk.get(range.clone()), other.get_mut(range))
                else {
                    return;
                };
                let same_bytes =
                    to <= against.limit && against.after.read(other, from) && mine == other;
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
fn samples_match(
    version: BorrowedFd<'_>,
    ranges: &[(u64, u64)],
    after: &VersionSuccessor<'_>,
) -> bool {
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
                    && after.read(&mut other, at)
                    && one == other
            })
    })
}

/// Returns the start and end of the next data, both at most the size.
pub(in crate::world) fn next_data(file: BorrowedFd<'_>, at: u64, size: u64) -> Result<(u64, u64)> {
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
fn each_block(from: u64, to: u64, mut visit: impl FnMut(u64, u64)) {
    let mut at = from;
    while at < to {
        let end = to.min((at / BLOCK + 1) * BLOCK);
        visit(at, end);
        at = end;
    }
}

fn hash_zeros(hash: &mut Sha256, mut count: u64) {
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
