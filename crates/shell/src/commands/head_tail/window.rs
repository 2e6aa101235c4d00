//! The end of a file or stream: [`start_of_last`] finds where it begins in a file, [`TailWindow`] holds it while a
//! stream passes.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::CountUnit;
use crate::call::Call;
use crate::stream::CHUNK;

/// Returns the offset where the last lines or bytes of a file begin, not before `from`. Reads backwards from the end,
/// only as far as needed.
///
/// # Errors
/// Read errors; the line's time limit has passed.
pub(super) fn start_of_last(
    call: &Call<'_>,
    file: &File,
    from: u64,
    (count, unit): (u64, CountUnit),
) -> io::Result<u64> {
    let size = file.metadata()?.len().max(from);
    let delimiter = match unit {
        CountUnit::Bytes => return Ok(size.saturating_sub(count).max(from)),
        CountUnit::Lines(_) if count == 0 => return Ok(size),
        CountUnit::Lines(delimiter) => delimiter,
    };
    let mut ends = count;
    let mut block = vec![0; CHUNK];
    let mut end = size;
    while end > from {
        call.check()?;
        let start = end.saturating_sub(CHUNK as u64).max(from);
        let block = block
            .get_mut(..usize::try_from(end - start).unwrap_or(CHUNK))
            .unwrap_or_default();
        file.read_exact_at(block, start)?;
        for at in memchr::memrchr_iter(delimiter, block) {
            let after = start + at as u64 + 1;
            // The newline at the very end does not begin another line.
            if after == size {
                continue;
            }
            ends -= 1;
            if ends == 0 {
                return Ok(after);
            }
        }
        end = start;
    }
    Ok(from)
}

/// A piece of the input.
struct WindowPiece {
    bytes: Vec<u8>,
    /// The number of units that end in this piece.
    ends: u64,
}

/// A buffer of at least the last lines or bytes of its input, and little more.
pub(super) struct TailWindow {
    count: u64,
    unit: CountUnit,
    held: VecDeque<WindowPiece>,
    /// The number of units that end in all pieces held.
    ends: u64,
    /// The number of bytes held.
    pub(super) size: usize,
}

impl TailWindow {
    /// Makes a window of so many units.
    pub(super) fn new(count: u64, unit: CountUnit) -> TailWindow {
        TailWindow {
            count,
            unit,
            held: VecDeque::new(),
            ends: 0,
            size: 0,
        }
    }

    /// Adds the next bytes. Call [`TailWindow::pop_excess`] afterwards until it returns `None`.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let ends = match self.unit {
            CountUnit::Bytes => bytes.len() as u64,
            CountUnit::Lines(delimiter) => memchr::memchr_iter(delimiter, bytes).count() as u64,
        };
        self.ends += ends;
        self.size += bytes.len();
        match self.held.back_mut() {
            // A writer of a few bytes at a time must not cost an allocation for each write.
            Some(last) if last.bytes.len() + bytes.len() <= CHUNK => {
                last.bytes.extend_from_slice(bytes);
                last.ends += ends;
            }
            _ => self.held.push_back(WindowPiece {
                bytes: bytes.to_vec(),
                ends,
            }),
        }
    }

    /// Removes and returns a piece that is certainly not part of the end. More units than `count` must end in the
    /// pieces that stay: the first of the last units may have begun in the piece that leaves.
    pub(super) fn pop_excess(&mut self) -> Option<Vec<u8>> {
        let first = self.held.front()?;
        if self.ends - first.ends <= self.count {
            return None;
        }
        self.ends -= first.ends;
        self.size -= first.bytes.len();
        self.held.pop_front().map(|first| first.bytes)
    }

    /// Ends the stream. Returns the pieces before the last units, and those of the last units.
    pub(super) fn split(self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let mut skip = self.before();
        let (mut before, mut last) = (Vec::new(), Vec::new());
        for held in self.held {
            let mut bytes = held.bytes;
            if held.ends < skip {
                skip -= held.ends;
                before.push(bytes);
                continue;
            }
            let cut = match (usize::try_from(skip).unwrap_or(usize::MAX), self.unit) {
                (0, _) => 0,
                (skip, CountUnit::Bytes) => skip,
                (skip, CountUnit::Lines(delimiter)) => memchr::memchr_iter(delimiter, &bytes)
                    .nth(skip - 1)
                    .map_or(bytes.len(), |at| at + 1),
            };
            // Only the first of the last pieces can be cut.
            skip = 0;
            last.push(bytes.split_off(cut));
            before.push(bytes);
        }
        (before, last)
    }

    /// Returns the number of units that end before the last ones begin.
    fn before(&self) -> u64 {
        let open = match self.unit {
            CountUnit::Bytes => false,
            CountUnit::Lines(delimiter) => self
                .held
                .back()
                .and_then(|held| held.bytes.last())
                .is_some_and(|last| *last != delimiter),
        };
        (self.ends + u64::from(open)).saturating_sub(self.count)
    }
}
