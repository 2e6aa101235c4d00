//! The complete lines of a journal, each with the link that the line after it must have. Up to schema 4 that is a hash,
//! computed for several lines at once.
//!
//! Owns the bytes after the last newline: they are torn or still being written, and a later call may complete them.

use std::io::{BufRead, Read};

use super::hash::ChainLink;
use crate::error::{Error, Result};

/// The maximum length of a line. Lines that name many files name some hundreds, and paths may be long.
pub(super) const LONGEST: u64 = 16 << 20;

/// Returns the error for a line longer than [`LONGEST`].
pub(super) fn too_long() -> Error {
    Error::Damaged(format!("a line is longer than {} MiB", LONGEST >> 20))
}

/// The number of lines that are read and checked together.
pub(super) const BATCH: usize = 8;

/// A reader of complete lines.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    source: R,
    /// Lines that have been read but not returned yet, and those returned last.
    text: Vec<u8>,
    /// Start and end of the lines not returned yet, each with the link that the line after it must have; the next line
    /// last.
    ready: Vec<(usize, usize, ChainLink)>,
    /// The bytes after the last newline.
    torn: Vec<u8>,
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(source: R) -> LineReader<R> {
        LineReader {
            source,
            text: Vec::new(),
            ready: Vec::new(),
            torn: Vec::new(),
        }
    }

    /// Returns the next line without its newline, and the link that the line after it must have; `None` at the end, for
    /// now.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], ChainLink)>> {
        if self.ready.is_empty() {
            self.read()?;
        }
        let Some((start, end, link)) = self.ready.pop() else {
            return Ok(None);
        };
        let line = self.text.get(start..end).unwrap_or_default();
        Ok(Some((line, link)))
    }

    fn read(&mut self) -> Result<()> {
        self.text.clear();
        self.text.append(&mut self.torn);
        let mut places = Vec::with_capacity(BATCH);
        let mut start = 0;
        while places.len() < BATCH {
            let mut source = self.source.by_ref().take(LONGEST);
            let read = source.read_until(b'\n', &mut self.text);
            if source.limit() == 0 && !self.text.ends_with(b"\n") {
                return Err(too_long());
            }
            if read.is_err() || self.text.len() == start || !self.text.ends_with(b"\n") {
                self.torn = self.text.split_off(start);
                // Lines before a read error are returned first; the next call hits the error again.
                if places.is_empty() {
                    read.map_err(|e| Error::io("read", &e))?;
                }
                break;
            }
            places.push((start, self.text.len() - 1));
            start = self.text.len();
        }
        let text = |(start, end): &(usize, usize)| self.text.get(*start..*end).unwrap_or_default();
        let lines: Vec<&[u8]> = places.iter().map(text).collect();
        let links = ChainLink::of_all(&lines).into_iter();
        self.ready = places
            .into_iter()
            .zip(links)
            .map(|((s, e), link)| (s, e, link))
            .collect();
        self.ready.reverse();
        Ok(())
    }

    /// Returns the number of bytes after the last complete line, as far as has been read.
    pub(super) fn torn(&self) -> u64 {
        self.torn.len() as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::hash::hex;
    use super::*;
    use sha2::{Digest, Sha256};

    /// A file that grows between two reads.
    struct Growing<'a>(std::cell::Cell<&'a [u8]>, &'a [u8]);

    #[test]
    fn what_is_written_meanwhile_is_found_and_halves_are_kept() {
        let text: String = (0..30)
            .map(|i| format!("{}\n", "x".repeat(i * 7)))
            .collect();
        let file = Growing(std::cell::Cell::new(b""), text.as_bytes());
        struct Source<'g, 'a>(&'g Growing<'a>);
        impl std::io::Read for Source<'_, '_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let mut there = self.0.0.get();
                let read = there.read(into)?;
                self.0.0.set(there);
                Ok(read)
            }
        }
        let mut lines = LineReader::new(std::io::BufReader::with_capacity(16, Source(&file)));
        let mut found = Vec::new();
        let mut written = 0;
        while written < file.1.len() {
            let end = (written + 61).min(file.1.len());
            file.0.set(&file.1[written..end]);
            written = end;
            while let Some((line, link)) = lines.next().unwrap() {
                assert_eq!(*link.bytes(), hex(&Sha256::digest(line)));
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
            assert_eq!(lines.torn() == 0, file.1[..end].ends_with(b"\n"));
        }
        assert_eq!(found, text.lines().collect::<Vec<_>>());
    }
}
