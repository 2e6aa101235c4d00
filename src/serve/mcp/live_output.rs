//! [`LiveOutput`]: a stream as it comes. What a call has written so far can be read while the call goes on.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use super::kept_outputs::{EndedStream, KeptOutputs, StreamNumber};

/// A stream of a call. Clones are the same stream.
///
/// Its start and its end are there for an answer; a stream that is longer is kept whole beside them, while there is room.
#[derive(Debug, Clone)]
pub(super) struct LiveOutput(Arc<Mutex<StreamBuffer>>);

/// The part of a stream that an answer has.
#[derive(Debug)]
pub(super) struct ShownOutput {
    /// The stream, or its start and its end with a line between them that says how much is left out.
    pub(super) bytes: Vec<u8>,
    /// Where the part that is left out begins, if any is.
    pub(super) cut_at: Option<u64>,
    /// The number of bytes that came.
    pub(super) total: u64,
}

impl ShownOutput {
    /// Returns it as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The part of a stream that is kept beside its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptPart {
    /// Nothing: its ends are all of it.
    Nothing,
    /// All of it, or the start that there was room for.
    Stream(StreamNumber),
    /// Nothing any more.
    Dropped,
}

#[derive(Debug)]
struct StreamBuffer {
    /// The largest number of bytes of either end.
    half: usize,
    head: Vec<u8>,
    /// The end of what came after the head.
    tail: VecDeque<u8>,
    total: u64,
    kept: KeptPart,
    outputs: Arc<KeptOutputs>,
    /// True if the kept stream stays when this is dropped.
    is_noted: bool,
}

impl Drop for StreamBuffer {
    fn drop(&mut self) {
        if let KeptPart::Stream(number) = self.kept
            && !self.is_noted
        {
            self.outputs.release(number);
        }
    }
}

impl StreamBuffer {
    fn add(&mut self, bytes: &[u8]) {
        let held = self.head.len() + self.tail.len();
        if self.kept == KeptPart::Nothing && held + bytes.len() > 2 * self.half {
            let number = self.outputs.begin();
            let (front, back) = self.tail.as_slices();
            for part in [&self.head, front, back] {
                self.outputs.append(number, part);
            }
            self.kept = KeptPart::Stream(number);
        }
        if let KeptPart::Stream(number) = self.kept
            && !self.outputs.append(number, bytes)
        {
            self.kept = KeptPart::Dropped;
        }
        self.total += bytes.len() as u64;
        let room = self.half - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let end = rest.get(rest.len().saturating_sub(self.half)..);
        let end = end.unwrap_or_default();
        let over = (self.tail.len() + end.len()).saturating_sub(self.half);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(end);
    }

    /// Returns whether the ends are all of it.
    fn has_all(&self) -> bool {
        (self.head.len() + self.tail.len()) as u64 == self.total
    }

    /// Returns up to so many bytes from a place on, as far as they follow each other here; nothing where they are not here
    /// any more.
    fn range(&self, from: u64, most: usize) -> Option<Vec<u8>> {
        if let KeptPart::Stream(number) = self.kept {
            let read = self.outputs.read(number, from, most);
            if let Some(read) = read.filter(|read| !read.is_empty()) {
                return Some(read);
            }
        }
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        if self.has_all() {
            let all = self.head.iter().chain(&self.tail);
            return Some(all.skip(start).take(most).copied().collect());
        }
        if let Some(head) = self.head.get(start..).filter(|head| !head.is_empty()) {
            return Some(head.get(..most).unwrap_or(head).to_vec());
        }
        let skip = from.checked_sub(self.total - self.tail.len() as u64)?;
        let tail = self.tail.iter().skip(usize::try_from(skip).ok()?);
        Some(tail.take(most).copied().collect())
    }

    /// Returns what came from a place on, or its start and its end.
    fn shown_from(&self, from: u64) -> ShownOutput {
        let (total, most) = (self.total, 2 * self.half);
        let length = usize::try_from(total.saturating_sub(from)).unwrap_or(usize::MAX);
        let whole = self.range(from, length.min(most));
        if let Some(bytes) = whole.filter(|bytes| bytes.len() == length) {
            return ShownOutput {
                bytes,
                cut_at: None,
                total,
            };
        }
        let mut bytes = self.range(from, self.half).unwrap_or_default();
        bytes.truncate(end_of_lines(&bytes));
        let of_tail = (total - self.tail.len() as u64).max(from + bytes.len() as u64);
        let tail = self.range(of_tail, self.half).unwrap_or_default();
        let tail = tail.get(start_of_lines(&tail)..).unwrap_or_default();
        let cut_at = from + bytes.len() as u64;
        let left_out = total - tail.len() as u64 - cut_at;
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        let note = format!("... ({left_out} more bytes, {total} total)\n");
        bytes.extend_from_slice(note.as_bytes());
        bytes.extend_from_slice(tail);
        ShownOutput {
            bytes,
            cut_at: Some(cut_at),
            total,
        }
    }
}

impl LiveOutput {
    /// Makes a stream of which an answer has so many bytes at most. What does not fit is kept among these.
    pub(super) fn new(outputs: &Arc<KeptOutputs>, most: u64) -> LiveOutput {
        LiveOutput(Arc::new(Mutex::new(StreamBuffer {
            half: usize::try_from(most / 2).unwrap_or(usize::MAX / 2).max(1),
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            kept: KeptPart::Nothing,
            outputs: outputs.clone(),
            is_noted: false,
        })))
    }

    /// Returns everything so far, or its start and its end.
    pub(super) fn shown(&self) -> ShownOutput {
        self.0.lock().shown_from(0)
    }

    /// Returns what came after the first so many bytes, or its start and its end.
    pub(super) fn after(&self, seen: u64) -> ShownOutput {
        self.0.lock().shown_from(seen)
    }

    /// Returns the number of bytes that have come so far.
    pub(super) fn total(&self) -> u64 {
        self.0.lock().total
    }

    /// Returns up to so many bytes from a place on; nothing where they are not kept any more.
    pub(super) fn range(&self, from: u64, most: usize) -> Option<Vec<u8>> {
        self.0.lock().range(from, most)
    }

    /// Keeps the stream as it is now, for as long as there is room, also when this is dropped.
    pub(super) fn keep(&self) -> EndedStream {
        let mut buffer = self.0.lock();
        if buffer.kept == KeptPart::Nothing {
            let number = buffer.outputs.begin();
            let (front, back) = buffer.tail.as_slices();
            for part in [&buffer.head, front, back] {
                buffer.outputs.append(number, part);
            }
            buffer.kept = KeptPart::Stream(number);
        }
        buffer.is_noted = true;
        let number = match buffer.kept {
            KeptPart::Stream(number) => number,
            _ => StreamNumber::MAX,
        };
        EndedStream {
            number,
            total: buffer.total,
        }
    }
}

impl Write for LiveOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns where the last line of a text ends, if that leaves much of the text; else where its last character does.
pub(super) fn end_of_lines(text: &[u8]) -> usize {
    match memchr::memrchr(b'\n', text) {
        Some(at) if at >= text.len() / 2 => at + 1,
        _ => end_of_characters(text),
    }
}

/// Returns where the last whole character of a text ends.
pub(super) fn end_of_characters(text: &[u8]) -> usize {
    match std::str::from_utf8(text) {
        // It is one that goes on.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => text.len(),
    }
}

/// Returns where the first whole line of a text begins, if that leaves much of the text; else where its first character does.
fn start_of_lines(text: &[u8]) -> usize {
    match memchr::memchr(b'\n', text) {
        Some(at) if at < text.len() / 2 => at + 1,
        _ => text
            .iter()
            .take(3)
            .take_while(|byte| **byte & 0xc0 == 0x80)
            .count(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn stream(most: u64, text: &str, piece: usize) -> LiveOutput {
        let mut stream = LiveOutput::new(&Arc::default(), most);
        for piece in text.as_bytes().chunks(piece) {
            stream.write_all(piece).unwrap();
        }
        stream
    }

    fn text(shown: &ShownOutput) -> &str {
        std::str::from_utf8(&shown.bytes).unwrap()
    }

    #[test]
    fn an_answer_has_all_of_it_or_both_ends() {
        for piece in [1, 7, 1000] {
            let whole = stream(20, "aaaa\nbbbb\ncccc\ndddd\n", piece).shown();
            assert_eq!(
                (text(&whole), whole.cut_at),
                ("aaaa\nbbbb\ncccc\ndddd\n", None)
            );
            let lines: String = (10..40).map(|n| format!("line {n}\n")).collect();
            let cut = stream(50, &lines, piece).shown();
            let wanted = "line 10\nline 11\nline 12\n... (192 more bytes, 240 total)\nline 37\nline 38\nline 39\n";
            assert_eq!((text(&cut), cut.cut_at), (wanted, Some(24)));
            // No line ends: whole characters.
            let cut = stream(9, &"\u{e4}".repeat(20), piece).shown();
            assert_eq!(
                text(&cut),
                "\u{e4}\u{e4}\n... (32 more bytes, 40 total)\n\u{e4}\u{e4}"
            );
        }
    }

    #[test]
    fn the_part_that_is_left_out_can_be_read() {
        let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        for piece in [1, 13, 100_000] {
            let stream = stream(100, &lines, piece);
            let mut read = Vec::new();
            while let Some(part) = stream
                .range(read.len() as u64, 333)
                .filter(|part| !part.is_empty())
            {
                read.extend(part);
            }
            assert_eq!(String::from_utf8(read).unwrap(), lines);
            // What is new is shown as all of it is.
            let from = lines.len() as u64 - 9;
            assert_eq!(text(&stream.after(from)), "line 999\n");
            assert!(stream.after(16).cut_at.is_some());
        }
    }

    #[test]
    fn a_stream_that_is_not_kept_any_more_has_its_ends() {
        let outputs = Arc::<KeptOutputs>::default();
        let mut stream = LiveOutput::new(&outputs, 20);
        stream
            .write_all("0123456789".repeat(10).as_bytes())
            .unwrap();
        outputs.release(0);
        stream.write_all(b"abcdefghij").unwrap();
        assert_eq!(stream.range(0, 4).unwrap(), b"0123");
        assert_eq!(stream.range(100, 20).unwrap(), b"abcdefghij");
        assert!(stream.range(50, 4).is_none());
        assert_eq!(stream.shown().cut_at, Some(10));
        // It leaves nothing behind.
        drop(stream);
        assert!(outputs.read(0, 0, 1).is_none() && outputs.read(1, 0, 1).is_none());
    }
}
