//! Opening a version and its successor, and finding the ranges that they have in common.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;

use super::{Finalizer, MIN_GAIN};
use crate::error::Result;
use crate::journal::KeepMethod;
use crate::world::keep::compare::{
    CompareTarget, ComparedRanges, MAX_COMPARED_BYTES, compare, compare_ranges, compare_shared,
};
use crate::world::keep::draft_versions::DraftVersion;
use crate::world::keep::extents::length;
use crate::world::keep::ranges::{self, RangeList};
use crate::world::keep::successor::{PartBytes, SuccessorPart, VersionSuccessor, open};
use crate::world::options::COPIED_UP_TO;

/// The number of later versions in which the bytes of one are looked for: a file that is opened again and again has
/// thousands.
const MAX_PARTS: usize = 16;

/// A version that is worth comparing with its successor.
pub(super) struct CompareCandidate {
    /// The list of a version that was kept block by block.
    list: Option<RangeList>,
    /// The number of bytes that the version has.
    has: u64,
    /// True if the version may share its blocks with its successor.
    may_share: bool,
}

impl Finalizer {
    /// Returns whether a version still grows.
    pub(super) fn grows(&self, version: &DraftVersion) -> bool {
        version.kept.how == KeepMethod::Blocks && self.quota.is_live(version.kept.n)
    }

    /// Opens a version's successor: the later versions up to one that is whole. `None` if one of them may still change.
    pub(super) fn successor(&self, later: &[DraftVersion]) -> Result<Option<VersionSuccessor<'_>>> {
        // Before anything is read: a file that is opened again and again has many.
        let whole = later.iter().position(|v| v.kept.how != KeepMethod::Blocks);
        let chain = later.get(..whole.unwrap_or(later.len()).min(MAX_PARTS));
        if chain.into_iter().flatten().any(|v| self.grows(v)) {
            return Ok(None);
        }
        let mut successor = VersionSuccessor::new(&self.dir);
        for next in later.iter().take(MAX_PARTS) {
            let n = next.kept.n;
            let list = ranges::read(self.dir.as_fd(), n)?;
            let is_whole = list.is_none();
            let of = if is_whole {
                match open(&self.dir, n, OFlags::RDONLY)? {
                    Some(file) => PartBytes::Whole(file),
                    None => return Ok(None),
                }
            } else {
                PartBytes::Version(n)
            };
            successor.push_part(SuccessorPart {
                of,
                ranges: list.map(|list| list.ranges),
                limit: next.limit.min(next.size),
            });
            if is_whole {
                return Ok(Some(successor));
            }
        }
        Ok(Some(successor))
    }

    /// Returns a version to compare with its successor, if that is worthwhile.
    pub(super) fn worth_comparing(
        &self,
        version: &DraftVersion,
    ) -> Result<Option<CompareCandidate>> {
        if self.cannot_punch.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let list = match version.kept.how {
            KeepMethod::Blocks => match ranges::read(self.dir.as_fd(), version.kept.n)? {
                Some(list) if !self.grows(version) => Some(list),
                _ => return Ok(None),
            },
            _ => None,
        };
        let has = list
            .as_ref()
            .map_or(version.size, |list| length(&list.ranges));
        let may_share = version.kept.how == KeepMethod::Cloned && version.size > COPIED_UP_TO;
        let worth = has > MIN_GAIN && (has <= MAX_COMPARED_BYTES || may_share);
        Ok(worth.then_some(CompareCandidate {
            list,
            has,
            may_share,
        }))
    }

    /// Compares a version with its successor.
    ///
    /// # Errors
    /// [`Error::TakesLong`] if the time is over; any error from the system calls.
    pub(super) fn compare_with_successor(
        &self,
        version: &DraftVersion,
        saved: &CompareCandidate,
        against: CompareTarget<'_>,
    ) -> Result<Option<(OwnedFd, ComparedRanges)>> {
        let Some(file) = open(&self.dir, version.kept.n, OFlags::RDWR).unwrap_or_default() else {
            return Ok(None);
        };
        let (file_of, size) = (file.as_fd(), version.size);
        let shared = if saved.may_share {
            compare_shared(file_of, size, against)?
        } else {
            None
        };
        let found = match &saved.list {
            Some(list) => compare_ranges(file_of, size, &list.ranges, against)?,
            None if shared.is_some() => shared,
            None if saved.has > MAX_COMPARED_BYTES => None,
            None => compare(file_of, size, against)?,
        };
        Ok(found.map(|found| (file, found)))
    }
}
