//! The list of ranges beside a version (`{n}.map`): the parts of the former content that are in the version's file.
//! The rest is in the version's successor.
//!
//! Owns its format, one item per line:
//!
//! ```text
//! OFFSET LENGTH        a range that the version has
//! past SESSION N       the ranges already hold the data of later versions up to this one, which was evicted
//! content SIZE SHA256  of the whole former content; the last line of a list that was written at once
//! content SIZE -       the same where not all of the content was read, since it shares blocks with its successor
//! ```
//!
//! The list of a version that is kept block by block grows, some lines at a time, and has no `content`; a last line
//! without its newline was being written when the machine went down. Any other list ends with `content`, so an
//! incomplete one is detected.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::world::keep::blocks::write_all;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::{map_name, new_name};
use crate::world::store::state_files;

/// The content of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeList {
    /// Starts and ends, in order, without overlap.
    pub ranges: Vec<(u64, u64)>,
    /// The size of the whole former content, and its SHA-256 in hexadecimal digits if that is known.
    pub content: Option<(u64, Option<String>)>,
    /// The later version (session and number) up to which the ranges already hold its data.
    pub past: Option<(String, u64)>,
}

impl RangeList {
    /// Parses a list.
    ///
    /// # Errors
    /// The line that cannot be parsed.
    pub fn parse(text: &str) -> std::result::Result<RangeList, String> {
        let mut list = RangeList::default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            list.add(line)
                .ok_or_else(|| line.escape_default().to_string())?;
        }
        list.ranges = merged(std::mem::take(&mut list.ranges));
        Ok(list)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match (words.next()?, words.next()?, words.next(), words.next()) {
            ("past", session, Some(n), None) => {
                self.past = Some((session.to_owned(), n.parse().ok()?));
            }
            ("content", size, Some("-"), None) => {
                self.content = Some((size.parse().ok()?, None));
            }
            ("content", size, Some(digest), None) if digest.len() == 64 => {
                self.content = Some((size.parse().ok()?, Some(digest.to_owned())));
            }
            (start, length, None, None) => {
                let start: u64 = start.parse().ok()?;
                let end = start.checked_add(length.parse().ok()?)?;
                if start < end {
                    self.ranges.push((start, end));
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (start, end) in &self.ranges {
            let _ = writeln!(text, "{start} {}", end - start);
        }
        if let Some((session, n)) = &self.past {
            let _ = writeln!(text, "past {session} {n}");
        }
        if let Some((size, digest)) = &self.content {
            let digest = digest.as_deref().unwrap_or("-");
            let _ = writeln!(text, "content {size} {digest}");
        }
        text
    }

    /// Puts the list in place beside a version, whole or not at all, and returns its size on disk. With `durable` it
    /// is then on disk.
    ///
    /// # Errors
    /// Any error from the system calls; the former list, or none, is then in place.
    pub(in crate::world) fn put(&self, dir: BorrowedFd<'_>, n: u64, durable: bool) -> Result<u64> {
        let name = map_name(n);
        let new = new_name(&name);
        // An existing file was left by a crash here.
        let _ = rustix::fs::unlinkat(dir, new.as_str(), AtFlags::empty());
        let file = state_files::make(dir, new.as_bytes(), OFlags::WRONLY, 0o600)?;
        let put = write_all(file.as_fd(), self.text().as_bytes())
            .and_then(|()| {
                if durable {
                    rustix::fs::fdatasync(&file).map_err(Error::os("fdatasync"))
                } else {
                    // Otherwise a power cut could leave an empty list beside a punched version.
                    let _ = crate::sys::fd::write_out(file.as_fd());
                    Ok(())
                }
            })
            .and_then(|()| {
                rustix::fs::renameat(dir, new.as_str(), dir, name.as_str())
                    .map_err(Error::os("renameat"))
            });
        match put {
            Ok(()) => {
                if durable {
                    // The descriptor may only name the directory (`O_PATH`).
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let dir = open_beneath(dir, b".", flags, Mode::empty())?;
                    rustix::fs::fsync(dir).map_err(Error::os("fsync"))?;
                }
                Ok(stat_fd(file.as_fd())?.blocks * 512)
            }
            Err(error) => {
                let _ = rustix::fs::unlinkat(dir, new, AtFlags::empty());
                Err(error)
            }
        }
    }
}

/// Opens the list of a version; `None` if it has none.
///
/// # Errors
/// Any error from `openat2(2)`.
pub fn open(dir: BorrowedFd<'_>, n: u64) -> Result<Option<OwnedFd>> {
    match state_files::open(dir, map_name(n).as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => Ok(None),
        map => map.map(|map| Some(map.into())),
    }
}

/// Returns the space of a version's list on disk, in bytes; 0 if it has none.
///
/// # Errors
/// Any error from `openat2(2)` and `fstat(2)`.
pub(in crate::world) fn space(dir: BorrowedFd<'_>, n: u64) -> Result<u64> {
    let list = open(dir, n)?;
    list.map_or(Ok(0), |list| Ok(stat_fd(list.as_fd())?.blocks * 512))
}

/// Reads the list of a version; `None` if it has none, and so has the whole content.
///
/// # Errors
/// [`Error::Damaged`] with the line that cannot be parsed; any error from the system calls.
pub fn read(dir: BorrowedFd<'_>, n: u64) -> Result<Option<RangeList>> {
    use std::io::Read;
    let Some(map) = open(dir, n)? else {
        return Ok(None);
    };
    let mut text = String::new();
    std::fs::File::from(map)
        .read_to_string(&mut text)
        .map_err(|_| Error::Damaged("it is no text".to_owned()))?;
    RangeList::parse(&text).map(Some).map_err(Error::Damaged)
}

/// Sorts ranges and merges those that touch.
pub(in crate::world) fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Returns the rest of a content of this size outside some ranges, which are in order and without overlap.
pub(in crate::world) fn complement(size: u64, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut rest = Vec::with_capacity(ranges.len() + 1);
    let mut at = 0;
    for (start, end) in ranges {
        rest.push((at, *start));
        at = *end;
    }
    rest.push((at, size));
    rest.retain(|(start, end)| start < end);
    merged(rest)
}

/// Returns the parts of some ranges that lie outside others, up to a size. Both are in order and without overlap.
pub(in crate::world) fn subtract(
    has: &[(u64, u64)],
    gives: &[(u64, u64)],
    size: u64,
) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    for (start, end) in gives {
        let (mut at, end) = (*start, (*end).min(size));
        let first = has.partition_point(|range| range.1 <= at);
        for (from, to) in has.get(first..).unwrap_or_default() {
            if *from >= end {
                break;
            }
            if at < *from {
                gaps.push((at, *from));
            }
            at = at.max(*to);
        }
        if at < end {
            gaps.push((at, end));
        }
    }
    gaps
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        for digest in [Some("0".repeat(64)), None] {
            let list = RangeList {
                ranges: vec![(0, 4096), (8192, 9000)],
                content: Some((9000, digest)),
                past: Some(("20260116T101530.123456Z-ab42".to_owned(), 7)),
            };
            assert_eq!(RangeList::parse(&list.text()).unwrap(), list);
            let torn = &list.text()[..list.text().len() - 1];
            assert_eq!(RangeList::parse(torn).unwrap().content, None);
        }
        assert_eq!(
            RangeList::parse("8 4\n0 8\n20 0\n30 ").unwrap().ranges,
            [(0, 12)]
        );
        for wrong in [
            "x\n",
            "1 2 3\n",
            "-1 2\n",
            "1 18446744073709551615\n",
            "past x\n",
        ] {
            assert!(RangeList::parse(wrong).is_err(), "{wrong}");
        }
    }
}
