//! Former content kept block by block: data are saved just before they are overwritten.
//!
//! For files too big to copy when they are opened for writing. Owns one version of the kind
//! [`KeepMethod::Blocks`](crate::journal::KeepMethod): a sparse file that has the old bytes at their own offsets, and a
//! list of the ranges that it has. A range is listed only after its bytes are saved, and overwritten only after it is
//! listed, so a daemon that dies at any point leaves a readable version. The cost is the size of what is overwritten,
//! never the size of the file.
//!
//! Lock: one mutex over the saved ranges, held during the saving: two writers of one block must not both pass.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};

use crate::error::{Error, Result};
use crate::world::keep::extents::{BLOCK, SavedExtents, length};
use crate::world::keep::quota::VersionQuota;
use crate::world::root::stat_fd;

/// The number of bytes requested in one copy.
const COPY_BYTES: usize = 1 << 30;

/// The size in bytes up to which reading and writing costs less than sharing blocks. Sharing makes the kernel write out
/// data that are only in memory, and change the extents of both files (benches/results/ext4-xfs-2026-11-24.md).
pub(in crate::world) const SMALL_COPY_BYTES: u64 = 64 << 10;

/// The ranges that have been saved and listed.
#[derive(Debug, Default)]
struct SavedBlocks {
    extents: SavedExtents,
    /// The length of the list as far as its lines are whole.
    listed: u64,
    /// True if the list has bytes behind that length.
    torn: bool,
    /// The list's space on disk, in bytes, as far as the quota knows.
    counted: u64,
}

/// A version kept block by block: it grows as its file is overwritten.
#[derive(Debug)]
pub struct BlockVersion {
    /// The file, open for reading.
    source: OwnedFd,
    /// The version.
    version: OwnedFd,
    /// The list of ranges, open for appending.
    map: OwnedFd,
    /// The file's size when the version began: nothing existed behind it.
    size: u64,
    n: u64,
    /// True if saved data must be on disk before the original is overwritten.
    durable: bool,
    quota: Arc<VersionQuota>,
    saved: Mutex<SavedBlocks>,
}

impl BlockVersion {
    pub(in crate::world) fn new(
        source: OwnedFd,
        (version, map, durable): (OwnedFd, OwnedFd, bool),
        n: u64,
        size: u64,
        quota: Arc<VersionQuota>,
    ) -> BlockVersion {
        quota.set_live(n, true);
        BlockVersion {
            source,
            version,
            map,
            size,
            n,
            durable,
            quota,
            saved: Mutex::default(),
        }
    }

    /// Saves a range before it is overwritten, truncated or punched out, along with ranges that are likely to be
    /// overwritten next.
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
        let lacks = saved.extents.unsaved_ranges(from, to);
        if lacks.is_empty() {
            return Ok(());
        }
        // A durable save waits for the disk twice, whatever its size.
        let (start, end) = saved
            .extents
            .range_to_save(from, to, self.size, self.durable);
        let wide = saved.extents.unsaved_ranges(start, end);
        // Ranges not needed yet evict nothing; if there is no space for them, the needed range may still find some.
        if wide != lacks
            && self.quota.take_spare(length(&wide))
            && self.save_each(&mut saved, &wide).is_ok()
        {
            return Ok(());
        }
        self.quota.take(length(&lacks))?;
        self.save_each(&mut saved, &lacks)
    }

    /// Saves some ranges, for which space has been taken; the space is given back if saving fails.
    fn save_each(&self, saved: &mut SavedBlocks, ranges: &[(u64, u64)]) -> Result<()> {
        let mut copied = 0;
        let each = ranges.iter().try_for_each(|(from, to)| {
            copied += copy_counted(self.source.as_fd(), self.version.as_fd(), *from, *to)?;
            Ok(())
        });
        let listed = each
            .and_then(|()| self.sync(&self.version))
            .and_then(|()| self.note(saved, ranges));
        if listed.is_err() && !saved.torn {
            // No list names them, and the space may be what the next attempt lacks.
            for (from, to) in ranges {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = rustix::fs::fallocate(&self.version, flags, *from, to - from);
            }
        }
        let done = listed.and_then(|()| self.sync(&self.map));
        match &done {
            Ok(()) => {
                saved.extents.add(ranges);
                // Holes take none.
                self.quota.give_back(length(ranges).saturating_sub(copied));
            }
            Err(_) => self.quota.give_back(length(ranges)),
        }
        done
    }

    fn sync(&self, file: &OwnedFd) -> Result<()> {
        if self.durable {
            rustix::fs::fdatasync(file).map_err(Error::os("fdatasync"))
        } else {
            Ok(())
        }
    }

    /// Lists some ranges: all of them, or none.
    fn note(&self, saved: &mut SavedBlocks, ranges: &[(u64, u64)]) -> Result<()> {
        use std::fmt::Write;
        let cut = |to| rustix::fs::ftruncate(&self.map, to).map_err(Error::os("ftruncate"));
        if saved.torn {
            cut(saved.listed)?;
            saved.torn = false;
        }
        let mut lines = String::with_capacity(ranges.len() * 24);
        for (from, to) in ranges {
            let _ = writeln!(lines, "{from} {}", to - from);
        }
        // On a full disk the beginning of a line may find space: no other line must come behind it.
        write_all(self.map.as_fd(), lines.as_bytes())
            .inspect_err(|_| saved.torn = cut(saved.listed).is_err())?;
        saved.listed += lines.len() as u64;
        self.count(saved);
        Ok(())
    }

    /// Counts the space of the list. A list is not refused for having grown: the next save is.
    fn count(&self, saved: &mut SavedBlocks) {
        // An append may reserve more for a while (xfs).
        let most = saved.listed.next_multiple_of(BLOCK);
        if most > saved.counted
            && let Ok(meta) = stat_fd(self.map.as_fd())
        {
            let takes = (meta.blocks * 512).min(most);
            self.quota.add_used(takes.saturating_sub(saved.counted));
            saved.counted = takes.max(saved.counted);
        }
    }
}

impl Drop for BlockVersion {
    fn drop(&mut self) {
        self.quota.set_live(self.n, false);
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
    copy_counted(source, target, from, to).map(drop)
}

/// Copies a range as [`copy_range`], and returns the number of bytes that were no hole.
fn copy_counted(source: BorrowedFd<'_>, target: BorrowedFd<'_>, from: u64, to: u64) -> Result<u64> {
    let (mut at, mut copied) = (from, 0);
    while at < to {
        let data = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(data) if data < to => data,
            // Only a hole is left, or the file ends earlier.
            Ok(_) | Err(Errno::NXIO) => break,
            // Not every file system supports `SEEK_DATA`.
            Err(Errno::INVAL) => at,
            Err(errno) => return Err(Error::os("lseek")(errno)),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(data)).map_or(to, |end| end.min(to));
        copy_data(source, target, data, end)?;
        copied += end - data;
        at = end;
    }
    Ok(copied)
}

fn copy_data(source: BorrowedFd<'_>, target: BorrowedFd<'_>, from: u64, to: u64) -> Result<()> {
    if to - from <= SMALL_COPY_BYTES {
        return copy_small(source, target, from, to);
    }
    let (mut read, mut written) = (from, from);
    while read < to {
        let wanted = usize::try_from(to - read)
            .unwrap_or(COPY_BYTES)
            .min(COPY_BYTES);
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

/// Copies data as [`copy_data`], but never by sharing blocks, as copy_file_range(2) does where the file system can.
fn copy_small(source: BorrowedFd<'_>, target: BorrowedFd<'_>, mut at: u64, to: u64) -> Result<()> {
    let left = |at| usize::try_from(to - at).unwrap_or(COPY_BYTES);
    let mut buffer = vec![0; left(at)];
    while at < to {
        buffer.truncate(left(at));
        let got = retry_on_intr(|| rustix::io::pread(source, &mut *buffer, at));
        let bytes = buffer
            .get(..got.map_err(Error::os("pread"))?)
            .unwrap_or_default();
        // The file became shorter meanwhile.
        if bytes.is_empty() {
            break;
        }
        let put = retry_on_intr(|| rustix::io::pwrite(target, bytes, at));
        at += put.map_err(Error::os("pwrite"))? as u64;
    }
    Ok(())
}

/// Returns whether two files have the same content, of the given size.
pub(in crate::world) fn same_content(
    one: BorrowedFd<'_>,
    other: BorrowedFd<'_>,
    size: u64,
) -> bool {
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

pub(in crate::world) fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("write")(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const SIZE: u64 = 1 << 20;

    /// A file without zeros, and a version of it with at most so many bytes.
    fn begun(dir: &tempfile::TempDir, max: Option<u64>) -> (BlockVersion, Arc<VersionQuota>) {
        let file = |name: &str| {
            let mut options = std::fs::OpenOptions::new();
            let options = options.read(true).create(true);
            let options = match name {
                "map" => options.append(true),
                _ => options.write(true),
            };
            options.open(dir.path().join(name)).unwrap()
        };
        let source = file("source");
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at / 7 % 255 + 1) as u8).collect();
        source.write_all_at(&bytes, 0).unwrap();
        let quota = VersionQuota::new(max);
        let files = (file("version").into(), file("map").into(), false);
        let blocks = BlockVersion::new(source.into(), files, 1, SIZE, quota.clone());
        (blocks, quota)
    }

    /// Returns the ranges of the list, each of which must be in the version.
    fn listed(dir: &tempfile::TempDir) -> Vec<(u64, u64)> {
        let read = |name| std::fs::read(dir.path().join(name)).unwrap();
        let (source, mut version) = (read("source"), read("version"));
        version.resize(source.len(), 0);
        let text = String::from_utf8(read("map")).unwrap();
        let ranges = crate::world::keep::ranges::RangeList::parse(&text)
            .unwrap()
            .ranges;
        for (from, to) in &ranges {
            let range = *from as usize..*to as usize;
            let (had, has) = (source.get(range.clone()), version.get(range));
            assert!(had.is_some() && had == has, "{from} {to}");
        }
        ranges
    }

    /// The space of the list, which counts as well.
    fn list(dir: &tempfile::TempDir) -> u64 {
        let meta = std::fs::metadata(dir.path().join("map")).unwrap();
        (std::os::unix::fs::MetadataExt::blocks(&meta) * 512)
            .min(meta.len().next_multiple_of(BLOCK))
    }

    #[test]
    fn a_range_is_saved_once() {
        let dir = tempfile::tempdir().unwrap();
        let (blocks, quota) = begun(&dir, None);
        for _ in 0..10 {
            blocks.save(8192, 8292).unwrap();
        }
        assert_eq!(listed(&dir), [(8192, 12288)]);
        assert_eq!(quota.used(), 4096 + list(&dir));
        blocks.save(40960, 40961).unwrap();
        blocks.save(50000, 50001).unwrap();
        let map = || std::fs::metadata(dir.path().join("map")).unwrap().len();
        let length = map();
        for at in (0..65536).step_by(4096) {
            blocks.save(at, at + 4096).unwrap();
        }
        assert_eq!((map(), listed(&dir)), (length, vec![(0, 65536)]));
        assert_eq!(quota.used(), 65536 + list(&dir));
    }

    #[test]
    fn near_the_limit_only_what_is_needed_is_saved() {
        let dir = tempfile::tempdir().unwrap();
        let (blocks, quota) = begun(&dir, Some(52 << 10));
        let each: Vec<_> = (0..13)
            .map(|n| blocks.save(n * 8192, n * 8192 + 1))
            .collect();
        let saved = each.iter().filter(|saved| saved.is_ok()).count();
        assert_eq!((saved, quota.refused()), (12, 1));
        assert_eq!(quota.used(), (48 << 10) + list(&dir));
        assert_eq!(listed(&dir).len(), 12);
    }

    #[test]
    fn half_a_line_is_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        let (blocks, _) = begun(&dir, None);
        blocks.save(0, 1).unwrap();
        write_all(blocks.map.as_fd(), b"819").unwrap();
        blocks.saved.lock().torn = true;
        blocks.save(65536, 65537).unwrap();
        assert_eq!(listed(&dir), [(0, 4096), (65536, 69632)]);
    }

    #[test]
    fn what_lies_in_holes_takes_no_space() {
        let dir = tempfile::tempdir().unwrap();
        let (blocks, quota) = begun(&dir, None);
        rustix::fs::ftruncate(&blocks.source, 4096).unwrap();
        rustix::fs::ftruncate(&blocks.source, SIZE).unwrap();
        blocks.save(0, SIZE).unwrap();
        assert_eq!(quota.used(), 4096 + list(&dir));
        assert_eq!(listed(&dir), [(0, SIZE)]);
    }
}
