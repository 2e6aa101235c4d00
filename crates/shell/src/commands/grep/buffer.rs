//! [`FileBuffer`]: the part of a file that is in memory.
//!
//! Holds the latest chunk read, and those earlier bytes that are still needed: an unfinished line and lines of
//! context. So it grows with the longest line only.

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memrchr};

use crate::deadline::Deadline;

/// The size of one read in bytes, the same as in GNU grep: it decides how far into a file a NUL is found before any
/// output.
const READ_SIZE: usize = 96 * 1024;
/// A buffer larger than this is not kept for the next file.
const MAX_KEPT: usize = 1024 * 1024;

/// The bytes of a file that are in memory.
pub(super) struct FileBuffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl FileBuffer {
    /// Makes an empty buffer.
    pub(super) fn new() -> FileBuffer {
        let bytes = vec![0; READ_SIZE + 1];
        FileBuffer { bytes, filled: 0 }
    }

    /// Empties the buffer for the next file.
    pub(super) fn clear(&mut self) {
        self.filled = 0;
        if self.bytes.len() > MAX_KEPT {
            *self = FileBuffer::new();
        }
    }

    /// Returns the bytes held.
    pub(super) fn text(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }

    /// Reads another chunk. Returns the range of the new bytes; `None` at the end of the file.
    ///
    /// # Errors
    /// Read errors.
    pub(super) fn read(
        &mut self,
        from: &mut dyn Read,
        deadline: &Deadline,
    ) -> io::Result<Range<usize>> {
        let start = self.filled;
        // One extra byte for the newline that the last line may lack.
        if self.bytes.len() < start + READ_SIZE + 1 {
            let length = (self.bytes.len() * 2).max(start + READ_SIZE + 1);
            // Counted twice, since growing copies the buffer.
            deadline.check_memory(length.saturating_mul(2))?;
            self.bytes.resize(length, 0);
        }
        let room = self.bytes.get_mut(start..start + READ_SIZE);
        let room = room.unwrap_or_default();
        let read = loop {
            match from.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.filled += read;
        Ok(start..self.filled)
    }

    /// Adds the newline that the last line lacks.
    pub(super) fn end_line(&mut self) {
        let ended = matches!(self.text().last(), None | Some(b'\n'));
        if let Some(byte) = self.bytes.get_mut(self.filled).filter(|_| !ended) {
            *byte = b'\n';
            self.filled += 1;
        }
    }

    /// Turns the NUL bytes in a range into newlines.
    pub(super) fn split_at_nul(&mut self, range: Range<usize>) {
        for byte in self.bytes.get_mut(range).unwrap_or_default() {
            if *byte == 0 {
                *byte = b'\n';
            }
        }
    }

    /// Drops the bytes before an offset.
    pub(super) fn forget(&mut self, before: usize) {
        self.bytes.copy_within(before..self.filled, 0);
        self.filled -= before;
    }
}

/// Returns the end of the line that starts at an offset, including its newline.
pub(super) fn line_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    memchr(b'\n', rest).map_or(text.len(), |newline| start + newline + 1)
}

/// Returns the start of the line `lines` before this one, but not before `floor`.
pub(super) fn lines_back(text: &[u8], start: usize, lines: u64, floor: usize) -> usize {
    let mut start = start;
    for _ in 0..lines {
        if start <= floor {
            break;
        }
        let before = text.get(floor..start - 1).unwrap_or_default();
        start = memrchr(b'\n', before).map_or(floor, |newline| floor + newline + 1);
    }
    start
}
