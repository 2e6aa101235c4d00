//! Former content kept block by block: data are saved just before they are overwritten.
//!
//! For files too big to copy when they are opened for writing. Owns one version of the kind
//! [`How::Blocks`](crate::journal::How): a sparse file that has the old bytes at their own offsets, and a list of the
//! ranges that it has. A range is listed only after its bytes are saved, and overwritten only after it is listed, so a
//! daemon that dies at any point leaves a readable version. The cost is the size of what is overwritten, never the
//! size of the file.
//!
//! Lock: one mutex over the saved ranges, held during the saving: two writers of one block must not both pass.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::quota::Quota;
use crate::error::{Error, Result};

/// Saved ranges are widened to whole blocks of this many bytes, so that a run of small writes costs one copy.
const BLOCK: u64 = 4096;

/// The number of bytes requested in one copy.
const AT_ONCE: usize = 1 << 30;

/// A version that grows as its file is overwritten.
#[derive(Debug)]
pub struct Blocks {
    /// The file, open for reading.
    source: OwnedFd,
    /// The version.
    version: OwnedFd,
    /// The list of ranges, open for appending.
    map: OwnedFd,
    /// The file's size when the version began: nothing existed behind it.
    size: u64,
    n: u64,
    /// Whether saved data must be on disk before the original is overwritten.
    durable: bool,
    room: Arc<Quota>,
    saved: Mutex<BTreeMap<u64, u64>>,
}

impl Blocks {
    pub(super) fn new(
        source: OwnedFd,
        (version, map, durable): (OwnedFd, OwnedFd, bool),
        n: u64,
        size: u64,
        room: Arc<Quota>,
    ) -> Blocks {
        room.set_live(n, true);
        Blocks {
            source,
            version,
            map,
            size,
            n,
            durable,
            room,
            saved: Mutex::default(),
        }
    }

    /// Saves a range before it is overwritten, truncated or punched out.
    ///
    /// # Errors
    /// `ENOSPC` if there is no space for it; any error from the system calls. The range must then not be overwritten.
    pub fn save(&self, from: u64, to: u64) -> Result<()> {
        let from = from / BLOCK * BLOCK;
        let to = to.div_ceil(BLOCK).saturating_mul(BLOCK).min(self.size);
        if from >= to {
            return Ok(());
        }
        let mut saved = self.saved.lock();
        for (from, to) in gaps(&saved, from, to) {
            self.room.take(to - from)?;
            copy_range(self.source.as_fd(), self.version.as_fd(), from, to)
                .and_then(|()| self.sync(&self.version))
                .and_then(|()| self.note(from, to))
                .and_then(|()| self.sync(&self.map))
                .inspect_err(|_| self.room.give_back(to - from))?;
            insert(&mut saved, from, to);
        }
        Ok(())
    }

    fn sync(&self, file: &OwnedFd) -> Result<()> {
        match self.durable {
            true => rustix::fs::fdatasync(file).map_err(Error::os("fdatasync")),
            false => Ok(()),
        }
    }

    fn note(&self, from: u64, to: u64) -> Result<()> {
        let line = format!("{from} {}\n", to - from);
        write_all(self.map.as_fd(), line.as_bytes())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.room.set_live(self.n, false);
    }
}

/// Copies a range to the same offset of another file. Holes stay holes.
///
/// # Errors
/// Any error from the system calls.
pub fn copy_range(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    from: u64,
    to: u64,
) -> Result<()> {
    let mut at = from;
    while at < to {
        let data = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(data) if data < to => data,
            // Only a hole is left, or the file ends earlier.
            Ok(_) | Err(Errno::NXIO) => return Ok(()),
            // Not every file system supports `SEEK_DATA`.
            Err(Errno::INVAL) => at,
            Err(errno) => return Err(Error::os("lseek")(errno)),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(data)).map_or(to, |end| end.min(to));
        copy_data(source, target, data, end)?;
        at = end;
    }
    Ok(())
}

fn copy_data(source: BorrowedFd<'_>, target: BorrowedFd<'_>, from: u64, to: u64) -> Result<()> {
    let (mut read, mut written) = (from, from);
    while read < to {
        let wanted = usize::try_from(to - read).unwrap_or(AT_ONCE).min(AT_ONCE);
        match rustix::fs::copy_file_range(
            source,
            Some(&mut read),
            target,
            Some(&mut written),
            wanted,
        ) {
            // The file became shorter meanwhile: the missing part is not lost here.
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("copy_file_range")(errno)),
        }
    }
    Ok(())
}

/// Returns whether two files have the same content, of this size.
pub(super) fn same_content(one: BorrowedFd<'_>, other: BorrowedFd<'_>, size: u64) -> bool {
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut at = 0;
    loop {
        let (Ok(got), Ok(also)) = (
            rustix::io::pread(one, &mut left, at),
            rustix::io::pread(other, &mut right, at),
        ) else {
            return false;
        };
        if left.get(..got) != right.get(..also) {
            return false;
        }
        if got == 0 {
            return at == size;
        }
        at += got as u64;
    }
}

pub(super) fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("write")(errno)),
        }
    }
    Ok(())
}

/// Returns the parts of a range that have not been saved.
fn gaps(saved: &BTreeMap<u64, u64>, from: u64, to: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = saved
        .range(..=from)
        .next_back()
        .map_or(from, |(_, end)| from.max(*end));
    for (start, end) in saved.range(from..to) {
        if at < *start {
            gaps.push((at, *start));
        }
        at = at.max(*end);
    }
    if at < to {
        gaps.push((at, to));
    }
    gaps
}

/// Marks a range as saved, merging it with its neighbours.
fn insert(saved: &mut BTreeMap<u64, u64>, mut from: u64, mut to: u64) {
    if let Some((start, end)) = saved.range(..=from).next_back()
        && *end >= from
    {
        (from, to) = (*start, to.max(*end));
    }
    while let Some((start, end)) = saved.range(from..=to).next().map(|(s, e)| (*s, *e)) {
        to = to.max(end);
        saved.remove(&start);
    }
    saved.insert(from, to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_not_been_saved_is() {
        let mut saved = BTreeMap::new();
        for (from, to) in [(8, 12), (20, 24), (12, 16), (0, 4)] {
            insert(&mut saved, from, to);
        }
        assert_eq!(saved, BTreeMap::from([(0, 4), (8, 16), (20, 24)]));
        assert_eq!(gaps(&saved, 0, 30), [(4, 8), (16, 20), (24, 30)]);
        assert_eq!(gaps(&saved, 9, 15), []);
        assert_eq!(gaps(&saved, 10, 21), [(16, 20)]);
        insert(&mut saved, 2, 22);
        assert_eq!(saved, BTreeMap::from([(0, 24)]));
        insert(&mut saved, 30, 31);
        assert_eq!(gaps(&saved, 24, 30), [(24, 30)]);
    }
}
