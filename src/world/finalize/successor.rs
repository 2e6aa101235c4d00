//! A version's successor: opening it, and comparing the version with it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;

use super::{Finalizer, WORTH};
use crate::error::{Error, Result};
use crate::journal::How;
use crate::world::compare::{Found, MOST, Part, compare, compare_ranges, compare_shared};
use crate::world::extents::length;
use crate::world::options::COPIED_UP_TO;
use crate::world::pending::DraftVersion;
use crate::world::ranges;

impl Finalizer {
    /// Opens a version's successor: the later versions up to one that is whole, or else the file. `None` if one of
    /// them may still change.
    pub(super) fn after(
        &self,
        later: &[DraftVersion],
        now: Option<&OwnedFd>,
    ) -> Result<Option<Vec<Part>>> {
        let mut parts = Vec::new();
        for next in later {
            if next.kept.how == How::Blocks && self.room.is_live(next.kept.n) {
                return Ok(None);
            }
            let Some(file) = self.open(next.kept.n, OFlags::RDONLY)? else {
                return Ok(None);
            };
            let list = ranges::read(self.dir.as_fd(), next.kept.n)?;
            let whole = list.is_none();
            parts.push(Part {
                file,
                ranges: list.map(|list| list.ranges),
                limit: next.limit.min(next.size),
            });
            if whole {
                return Ok(Some(parts));
            }
        }
        let Some(now) = now else {
            return Ok(None);
        };
        parts.push(Part {
            file: rustix::io::fcntl_dupfd_cloexec(now, 0).map_err(Error::os("fcntl"))?,
            ranges: None,
            limit: u64::MAX,
        });
        Ok(Some(parts))
    }

    /// Compares a version with its successor, if that is worthwhile.
    pub(super) fn find(
        &self,
        version: &DraftVersion,
        after: &[Part],
    ) -> Result<Option<(OwnedFd, Found)>> {
        let list = match version.kept.how {
            How::Blocks => match ranges::read(self.dir.as_fd(), version.kept.n)? {
                Some(list) if !self.room.is_live(version.kept.n) => Some(list),
                _ => return Ok(None),
            },
            _ => None,
        };
        let has = list
            .as_ref()
            .map_or(version.size, |list| length(&list.ranges));
        let may_share = version.kept.how == How::Cloned && version.size > COPIED_UP_TO;
        let worth = has > WORTH && (has <= MOST || may_share);
        if !worth || self.cannot_punch.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let file = self.open(version.kept.n, OFlags::RDWR).unwrap_or_default();
        let Some(file) = file else {
            return Ok(None);
        };
        let (file_of, size, limit) = (file.as_fd(), version.size, version.limit);
        let shared = match may_share {
            true => compare_shared(file_of, size, limit, after)?,
            false => None,
        };
        let found = match list {
            Some(list) => compare_ranges(file_of, size, &list.ranges, limit, after)?,
            None if shared.is_some() => shared,
            None if has > MOST => None,
            None => compare(file_of, size, limit, after)?,
        };
        Ok(found.map(|found| (file, found)))
    }
}
