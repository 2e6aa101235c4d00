//! Digests of contents that no longer change: SHA-256, at a cost proportional to the data.
//!
//! Owns the definition of a digest. For a plain file it is the result of `sha256sum`, unless the file has whole blocks
//! of zeros: those are left out, and their offsets are hashed at the end, so that holes cost nothing and a copy may
//! fill or punch them. For a version with a list of ranges it covers the list and the ranges in it. Only reads; a
//! content that cannot be read in full has no digest.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{FlockOperation, Mode, OFlags, SeekFrom};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::world::root::open_beneath;
use crate::world::store::layout::{map_name, version_name};

/// The unit, in bytes, in which zeros are left out.
const BLOCK: u64 = 4096;

/// The number of bytes read at once: a multiple of a block.
const CHUNK: u64 = 256 << 10;

/// A content's size in bytes and its digest in hexadecimal.
pub type SizedDigest = (u64, String);

/// A callback that limits the work: called now and then with the number of bytes read, it returns whether to go on.
pub type ProgressCheck<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Computes the digest of an open file; `None` if it was stopped.
///
/// # Errors
/// Any error from `pread(2)`.
pub fn of_file(file: &File, on: ProgressCheck<'_>) -> Result<Option<SizedDigest>> {
    let size = file.metadata().map_err(|error| io("stat", &error))?.len();
    let mut hash = ContentHasher::default();
    let whole = hash.add_data(file, (0, size), on)?;
    Ok(whole.then(|| (size, hash.finish())))
}

/// Computes the digest of a version from its files; `None` if the version is missing or the work was stopped.
///
/// # Errors
/// Any error from the system calls.
pub fn of_version(dir: &OwnedFd, n: u64, on: ProgressCheck<'_>) -> Result<Option<SizedDigest>> {
    let Some(file) = open(dir, &version_name(n))? else {
        return Ok(None);
    };
    // The lock keeps the version from being punched. If punching has begun, the list is already in place.
    let _ = rustix::fs::flock(&file, FlockOperation::LockShared);
    let Some(list) = open(dir, &map_name(n))? else {
        return of_file(&file, on);
    };
    let size = file.metadata().map_err(|error| io("stat", &error))?.len();
    let mut hash = ContentHasher::default();
    let length = list.metadata().map_err(|error| io("stat", &error))?.len();
    if !hash.add_data(&list, (0, length), on)? {
        return Ok(None);
    }
    let mut lines = BufReader::new((&list).take(length));
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        if read.map_err(|error| io("read", &error))? == 0 {
            return Ok(Some((size, hash.finish())));
        }
        if let Some(range) = parse_range(&line)
            && !hash.add_data(&file, range, on)?
        {
            return Ok(None);
        }
    }
}

/// Parses a list's line if it names a range; other lines describe the whole content.
fn parse_range(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (start, length) = line.split_once(' ')?;
    let start: u64 = start.parse().ok()?;
    Some((start, start.checked_add(length.parse().ok()?)?))
}

fn open(dir: &OwnedFd, name: &str) -> Result<Option<File>> {
    let open = |flags| open_beneath(dir.as_fd(), name.as_bytes(), flags, Mode::empty());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match open(flags | OFlags::NOATIME) {
        Err(Error::NotFound) => Ok(None),
        Err(_) => open(flags).map(File::from).map(Some),
        file => file.map(File::from).map(Some),
    }
}

/// A digest in progress.
#[derive(Default)]
struct ContentHasher {
    data: Sha256,
    /// The offsets of blocks left out: the current run, and all earlier ones.
    run: Option<(u64, u64)>,
    left_out: Option<Sha256>,
    buffer: Vec<u8>,
}

impl ContentHasher {
    /// Adds a file's data between two offsets; `false` if the work was stopped.
    fn add_data(
        &mut self,
        file: &File,
        (mut at, end): (u64, u64),
        on: ProgressCheck<'_>,
    ) -> Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        while at < end {
            let stop = end.min((at / CHUNK + 1) * CHUNK);
            let wanted = usize::try_from(stop - at).unwrap_or(0);
            // Most contents are small, and a large buffer costs more to fill than they to read.
            buffer.resize(buffer.len().max(wanted), 0);
            let chunk = buffer.get_mut(..wanted).unwrap_or_default();
            file.read_exact_at(chunk, at)
                .map_err(|error| io("pread", &error))?;
            if !on(stop - at) {
                return Ok(false);
            }
            let zeros = self.add_blocks(chunk, at);
            at = stop;
            if zeros {
                at = self.skip_hole(file, at, end);
            }
        }
        self.buffer = buffer;
        Ok(true)
    }

    /// Adds bytes that were read; returns whether all were zeros, in whole blocks.
    fn add_blocks(&mut self, mut bytes: &[u8], mut at: u64) -> bool {
        let mut all = true;
        while !bytes.is_empty() {
            let room = usize::try_from(BLOCK - at % BLOCK).unwrap_or(0);
            let (block, rest) = bytes.split_at(room.min(bytes.len()));
            if block.len() as u64 == BLOCK && block.iter().all(|byte| *byte == 0) {
                self.leave_out(at, at + BLOCK);
            } else {
                self.data.update(block);
                all = false;
            }
            at += block.len() as u64;
            bytes = rest;
        }
        all
    }

    /// Leaves out the whole blocks of a hole that begins here; returns the offset to go on reading from.
    fn skip_hole(&mut self, file: &File, at: u64, end: u64) -> u64 {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(end),
            Err(rustix::io::Errno::NXIO) => end,
            Err(_) => at, // Not every file system supports `SEEK_DATA`.
        };
        let data = data / BLOCK * BLOCK;
        if data <= at {
            return at;
        }
        self.leave_out(at, data);
        data
    }

    fn leave_out(&mut self, from: u64, to: u64) {
        match &mut self.run {
            Some((_, end)) if *end == from => *end = to,
            run => {
                let before = run.replace((from, to));
                self.note(before);
            }
        }
    }

    fn note(&mut self, run: Option<(u64, u64)>) {
        if let Some((from, to)) = run {
            let left_out = self.left_out.get_or_insert_default();
            left_out.update(from.to_le_bytes());
            left_out.update(to.to_le_bytes());
        }
    }

    fn finish(mut self) -> String {
        let run = self.run.take();
        self.note(run);
        if let Some(left_out) = self.left_out {
            self.data.update(left_out.finalize());
        }
        let digest = self.data.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn io(call: &'static str, error: &std::io::Error) -> Error {
    Error::os(call)(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use std::io::Write;

    fn sum(file: &File) -> SizedDigest {
        of_file(file, &mut |_| true).unwrap().unwrap()
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_plain_file_has_the_digest_that_everybody_finds() {
        for size in [0, 1, 4095, 4096, 4097, 300_000, 1 << 20] {
            let bytes: Vec<u8> = (0..size).map(|i| (i % 251 + 1) as u8).collect();
            let hex = base16ct::lower::encode_string(&Sha256::digest(&bytes));
            assert_eq!(sum(&file(&bytes)), (size, hex), "{size}");
        }
    }

    #[test]
    fn holes_cost_nothing_and_are_what_zeros_are() {
        let huge = file(b"begin");
        huge.set_len(1 << 42).unwrap();
        huge.write_at(b"middle", (1 << 40) + 77).unwrap();
        let mut read = 0;
        let found = of_file(&huge, &mut |bytes| {
            read += bytes;
            true
        });
        assert!(found.unwrap().is_some() && read < 16 << 20, "{read}");
        // Filling or punching holes does not change the digest; one more zero, or one elsewhere, does.
        let sparse = file(b"x");
        sparse.set_len(900_001).unwrap();
        sparse.write_at(b"y", 700_000).unwrap();
        let mut bytes = vec![0; 900_001];
        (bytes[0], bytes[700_000]) = (b'x', b'y');
        assert_eq!(sum(&sparse), sum(&file(&bytes)));
        let mut others = vec![sum(&sparse)];
        for change in [5, 8192, 700_001, 900_000] {
            let mut other = bytes.clone();
            other[change] = 1;
            others.push(sum(&file(&other)));
        }
        bytes.swap(700_000, 704_096);
        others.push(sum(&file(&bytes)));
        let count = others.len();
        others.sort();
        others.dedup();
        assert_eq!(others.len(), count);
    }

    #[test]
    fn of_a_version_with_a_list_what_it_names_counts() {
        let dir = tempfile::tempdir().unwrap();
        let fd: OwnedFd = File::open(dir.path()).unwrap().into();
        let path = |name: String| dir.path().join(name);
        let mut bytes: Vec<u8> = (0..20_000).map(|i| (i % 251 + 1) as u8).collect();
        std::fs::write(path(version_name(7)), &bytes).unwrap();
        std::fs::write(path(map_name(7)), "0 4096\n8192 5000\ncontent 20000 ab\n").unwrap();
        let found = |n| of_version(&fd, n, &mut |_| true).unwrap();
        let before = found(7).unwrap();
        for (place, counts) in [(3, true), (5000, false), (9000, true), (19_999, false)] {
            bytes[place] ^= 1;
            std::fs::write(path(version_name(7)), &bytes).unwrap();
            assert_eq!(found(7).unwrap() != before, counts, "{place}");
            bytes[place] ^= 1;
        }
        std::fs::write(path(version_name(7)), &bytes).unwrap();
        std::fs::write(path(map_name(7)), "0 4096\n8192 5001\ncontent 20000 ab\n").unwrap();
        assert_ne!(found(7).unwrap(), before);
        assert_eq!(found(8), None);
    }
}
