//! [`KeptOutputs`]: whole streams that are longer than an answer, so that the rest can be read later.
//!
//! Owns their bytes, in memory: the first 16 MiB of each stream, and 64 MiB of all; the oldest stream is dropped first. A
//! stream is of a call that goes on, or of a run that is named in an answer.
//!
//! Lock: one, held for a copy.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// The largest number of bytes of a stream that are kept.
pub(super) const MAX_STREAM: u64 = 16 << 20;
/// The largest number of bytes of all streams that are kept.
const MAX_TOTAL: u64 = 64 << 20;
/// The number of bytes of a piece of a stream: what comes does not move what is there.
const PIECE: usize = 64 << 10;
/// The number of bytes that a stream takes besides its own.
const OVERHEAD: u64 = 512;

/// The number of a kept stream. Older streams have smaller ones.
pub(super) type StreamNumber = u64;

/// A stream of a run, as it was in the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedStream {
    /// The stream, where something of it is kept.
    pub(super) number: StreamNumber,
    /// The number of bytes that came.
    pub(super) total: u64,
}

/// A run whose answer did not have all of its output.
#[derive(Debug, Clone)]
pub(super) struct KeptRun {
    /// The id of the run.
    pub(super) run: String,
    /// The session of the run.
    pub(super) session: String,
    /// Standard output, and standard error.
    pub(super) streams: [EndedStream; 2],
}

#[derive(Debug, Default)]
struct KeptStream {
    pieces: Vec<Vec<u8>>,
    length: u64,
}

impl KeptStream {
    /// Takes as much as there is room for. Returns how much that was.
    fn append(&mut self, bytes: &[u8], room: u64) -> u64 {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut rest = bytes.get(..room).unwrap_or(bytes);
        let taken = rest.len() as u64;
        while !rest.is_empty() {
            if self.pieces.last().is_none_or(|last| last.len() == PIECE) {
                self.pieces.push(Vec::new());
            }
            let Some(last) = self.pieces.last_mut() else {
                break;
            };
            let (now, later) = rest.split_at(rest.len().min(PIECE - last.len()));
            last.extend_from_slice(now);
            rest = later;
        }
        self.length += taken;
        taken
    }

    fn read(&self, from: u64, most: usize) -> Vec<u8> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let mut read = Vec::new();
        // All pieces but the last are full.
        let (first, mut skip) = (from / PIECE, from % PIECE);
        for piece in self.pieces.iter().skip(first) {
            let piece = piece.get(skip..).unwrap_or_default();
            let wanted = most - read.len();
            read.extend_from_slice(piece.get(..wanted).unwrap_or(piece));
            skip = 0;
            if read.len() == most {
                break;
            }
        }
        read
    }
}

#[derive(Debug, Default)]
struct KeptState {
    next: StreamNumber,
    streams: BTreeMap<StreamNumber, KeptStream>,
    held: u64,
    runs: VecDeque<KeptRun>,
}

impl KeptState {
    fn drop_stream(&mut self, number: StreamNumber) {
        if let Some(stream) = self.streams.remove(&number) {
            self.held -= stream.length + OVERHEAD;
        }
    }

    /// Drops the oldest streams until there is room for so many bytes more.
    fn make_room(&mut self, bytes: u64) {
        let mut is_dropped = false;
        while self.held + bytes > MAX_TOTAL {
            let Some((&oldest, _)) = self.streams.first_key_value() else {
                break;
            };
            self.drop_stream(oldest);
            is_dropped = true;
        }
        if is_dropped {
            let streams = &self.streams;
            let is_kept = |stream: &EndedStream| streams.contains_key(&stream.number);
            self.runs.retain(|run| run.streams.iter().any(is_kept));
        }
    }
}

/// The streams that a server keeps.
#[derive(Debug, Default)]
pub(super) struct KeptOutputs(Mutex<KeptState>);

impl KeptOutputs {
    /// Begins to keep a stream.
    pub(super) fn begin(&self) -> StreamNumber {
        let mut state = self.0.lock();
        state.make_room(OVERHEAD);
        let number = state.next;
        state.next += 1;
        state.held += OVERHEAD;
        state.streams.insert(number, KeptStream::default());
        number
    }

    /// Adds to a stream. What is beyond the bound of a stream is not kept. Returns false for a stream that was dropped.
    pub(super) fn append(&self, number: StreamNumber, bytes: &[u8]) -> bool {
        let mut state = self.0.lock();
        let Some(stream) = state.streams.get(&number) else {
            return false;
        };
        let room = MAX_STREAM - stream.length;
        state.make_room(room.min(bytes.len() as u64));
        let Some(stream) = state.streams.get_mut(&number) else {
            return false;
        };
        let taken = stream.append(bytes, room);
        state.held += taken;
        true
    }

    /// Returns up to so many bytes of a stream; nothing for one that was dropped.
    pub(super) fn read(&self, number: StreamNumber, from: u64, most: usize) -> Option<Vec<u8>> {
        let state = self.0.lock();
        Some(state.streams.get(&number)?.read(from, most))
    }

    /// Drops a stream that no answer has named.
    pub(super) fn release(&self, number: StreamNumber) {
        self.0.lock().drop_stream(number);
    }

    /// Notes a run whose streams are kept, so that they are found by it.
    pub(super) fn note_run(&self, run: KeptRun) {
        self.0.lock().runs.push_back(run);
    }

    /// Returns a run whose streams are kept.
    pub(super) fn find_run(&self, run: &str) -> Option<KeptRun> {
        let state = self.0.lock();
        let found = state.runs.iter().find(|kept| kept.run == run);
        found.cloned()
    }

    /// Returns all runs whose streams are kept, oldest first.
    pub(super) fn runs(&self) -> Vec<KeptRun> {
        self.0.lock().runs.iter().cloned().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stream_is_dropped_first_and_none_is_longer_than_its_bound() {
        let outputs = KeptOutputs::default();
        let megabyte = vec![b'x'; 1 << 20];
        let mut numbers = Vec::new();
        for _ in 0..5 {
            let number = outputs.begin();
            for _ in 0..17 {
                assert!(outputs.append(number, &megabyte));
            }
            numbers.push(number);
            assert!(outputs.0.lock().held <= MAX_TOTAL);
        }
        // Four of 16 MiB and what each takes besides do not fit.
        let kept = numbers.iter().map(|number| outputs.read(*number, 0, 1));
        let kept: Vec<bool> = kept.map(|read| read.is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true]);
        assert!(!outputs.append(0, b"more"));
        let last = numbers.pop().unwrap();
        assert_eq!(outputs.read(last, MAX_STREAM - 3, 10).unwrap(), b"xxx");
        for number in numbers.into_iter().chain([last]) {
            outputs.release(number);
        }
        assert_eq!(outputs.0.lock().held, 0);
    }

    #[test]
    fn a_stream_is_read_across_its_pieces() {
        let outputs = KeptOutputs::default();
        let number = outputs.begin();
        let all: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        for part in all.chunks(777) {
            outputs.append(number, part);
        }
        for (from, most) in [
            (0, 10),
            (65_530, 20),
            (1, 150_000),
            (199_990, 100),
            (300_000, 5),
        ] {
            let read = outputs.read(number, from as u64, most).unwrap();
            let end = (from + most).min(all.len());
            assert_eq!(read, all.get(from..end).unwrap_or_default());
        }
    }
}
