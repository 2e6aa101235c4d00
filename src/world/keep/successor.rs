//! The successor of a version: the later versions of its file up to one that is whole. Never the file: its owner may
//! change that at any time.
//!
//! Reads only. Later versions are opened one at a time: a file has as many of them as it was opened for writing, more
//! than a process may have open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::root::open_beneath;
use crate::world::store::layout::version_name;

/// The content that came after a version, as far as it was kept.
#[derive(Debug)]
pub(in crate::world) struct VersionSuccessor<'a> {
    /// The directory of the versions.
    dir: &'a OwnedFd,
    /// The parts, the earliest first.
    parts: Vec<SuccessorPart>,
}

/// A later version.
#[derive(Debug)]
pub(in crate::world) struct SuccessorPart {
    pub(in crate::world) of: PartBytes,
    /// The ranges that the part has; all, if absent.
    pub(in crate::world) ranges: Option<Vec<(u64, u64)>>,
    /// The offset from which nothing is read from the later parts.
    pub(in crate::world) limit: u64,
}

/// The place of a part's bytes.
#[derive(Debug)]
pub(in crate::world) enum PartBytes {
    /// In a version that has only some ranges.
    Version(u64),
    /// In a version that is whole.
    Whole(OwnedFd),
}

impl<'a> VersionSuccessor<'a> {
    /// Creates a successor without parts.
    pub(in crate::world) fn new(dir: &'a OwnedFd) -> VersionSuccessor<'a> {
        VersionSuccessor {
            dir,
            parts: Vec::new(),
        }
    }

    /// Adds a later part.
    pub(in crate::world) fn push_part(&mut self, part: SuccessorPart) {
        self.parts.push(part);
    }

    /// Returns the earliest part, if that has all bytes.
    pub(in crate::world) fn whole(&self) -> Option<BorrowedFd<'_>> {
        match &self.parts.first()?.of {
            PartBytes::Whole(file) => Some(file.as_fd()),
            PartBytes::Version(_) => None,
        }
    }

    /// Reads a range; `false` if part of it is missing or uncertain.
    pub(in crate::world) fn read(&self, buffer: &mut [u8], from: u64) -> bool {
        let to = from + buffer.len() as u64;
        let mut at = from;
        'next: while at < to {
            for part in &self.parts {
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
                    if !self.read_part(&part.of, want, at) {
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
                    return self.read(head, at) && self.read(tail, end);
                }
            }
            return false;
        }
        true
    }

    fn read_part(&self, of: &PartBytes, buffer: &mut [u8], at: u64) -> bool {
        let length = buffer.len();
        let read = match of {
            PartBytes::Whole(file) => read_at(file.as_fd(), buffer, at),
            PartBytes::Version(n) => {
                open(self.dir, *n, OFlags::RDONLY).and_then(|file| match file {
                    Some(file) => read_at(file.as_fd(), buffer, at),
                    None => Err(Error::NotFound),
                })
            }
        };
        read.ok() == Some(length)
    }

    /// Waits until the successor's data are on disk: a durable version is about to lose its own copy of them. Ranges of
    /// versions are on disk before they are listed.
    ///
    /// # Errors
    /// Any error from `fdatasync(2)`.
    pub(in crate::world) fn sync_to_disk(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| match &part.of {
            PartBytes::Whole(file) => rustix::fs::fdatasync(file).map_err(Error::os("fdatasync")),
            PartBytes::Version(_) => Ok(()),
        })
    }
}

/// Opens a version; `None` if it is gone.
///
/// # Errors
/// Any error from `openat2(2)`.
pub(in crate::world) fn open(dir: &OwnedFd, n: u64, flags: OFlags) -> Result<Option<OwnedFd>> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOATIME;
    let name = version_name(n);
    let open = |flags| open_beneath(dir.as_fd(), name.as_bytes(), flags, Mode::empty());
    match open(flags) {
        Err(Error::NotFound) => Ok(None),
        Err(_) => open(flags - OFlags::NOATIME).map(Some),
        file => file.map(Some),
    }
}

/// Reads until the buffer is full or the file ends.
///
/// # Errors
/// Any error from `pread(2)`.
pub(in crate::world) fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    from: u64,
) -> Result<usize> {
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

fn offset(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
