//! The end of something: [`start_of_last`] finds where it begins in a file, and [`Window`] holds it while a stream goes by.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Unit;
use crate::exec::shell::call::Call;
use crate::exec::shell::stream::CHUNK;

/// Returns where the last lines or bytes of a file begin, not before `from`. Reads from the end, and no more than it has to.
///
/// # Errors
/// Those of reading; the line's time is up.
pub(super) fn start_of_last(
    call: &Call<'_>,
    file: &File,
    from: u64,
    (count, unit): (u64, Unit),
) -> io::Result<u64> {
    let size = file.metadata()?.len().max(from);
    let delimiter = match unit {
        Unit::Bytes => return Ok(size.saturating_sub(count).max(from)),
        Unit::Lines(_) if count == 0 => return Ok(size),
        Unit::Lines(delimiter) => delimiter,
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
            // That of the last line does not begin one.
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

struct Piece {
    bytes: Vec<u8>,
    /// How many units end here.
    ends: u64,
}

/// Holds at least the last lines or bytes of what it is given, and little more.
pub(super) struct Window {
    count: u64,
    unit: Unit,
    held: VecDeque<Piece>,
    /// How many units end in all that is held.
    ends: u64,
    /// How many bytes are held.
    pub(super) size: usize,
}

impl Window {
    /// Makes one for so many units.
    pub(super) fn new(count: u64, unit: Unit) -> Window {
        Window {
            count,
            unit,
            held: VecDeque::new(),
            ends: 0,
            size: 0,
        }
    }

    /// Takes what comes next. To be followed by [`Window::leaving`] until that gives nothing.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let ends = match self.unit {
            Unit::Bytes => bytes.len() as u64,
            Unit::Lines(delimiter) => memchr::memchr_iter(delimiter, bytes).count() as u64,
        };
        self.ends += ends;
        self.size += bytes.len();
        match self.held.back_mut() {
            // A writer of few bytes at a time must not cost an allocation for each of them.
            Some(last) if last.bytes.len() + bytes.len() <= CHUNK => {
                last.bytes.extend_from_slice(bytes);
                last.ends += ends;
            }
            _ => self.held.push_back(Piece {
                bytes: bytes.to_vec(),
                ends,
            }),
        }
    }

    /// Gives back what has gone by for sure. More must end in what stays than is asked for: the first of the last may
    /// have begun in what leaves.
    pub(super) fn leaving(&mut self) -> Option<Vec<u8>> {
        let first = self.held.front()?;
        if self.ends - first.ends <= self.count {
            return None;
        }
        self.ends -= first.ends;
        self.size -= first.bytes.len();
        self.held.pop_front().map(|first| first.bytes)
    }

    /// Ends. Returns what comes before the last ones, and these, in pieces.
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
                (skip, Unit::Bytes) => skip,
                (skip, Unit::Lines(delimiter)) => memchr::memchr_iter(delimiter, &bytes)
                    .nth(skip - 1)
                    .map_or(bytes.len(), |at| at + 1),
            };
            // Once the last ones have begun, nothing is before them.
            skip = 0;
            last.push(bytes.split_off(cut));
            before.push(bytes);
        }
        (before, last)
    }

    /// Returns how many units end before the last ones begin.
    fn before(&self) -> u64 {
        let open = match self.unit {
            Unit::Bytes => false,
            Unit::Lines(delimiter) => self
                .held
                .back()
                .and_then(|held| held.bytes.last())
                .is_some_and(|last| *last != delimiter),
        };
        (self.ends + u64::from(open)).saturating_sub(self.count)
    }
}
