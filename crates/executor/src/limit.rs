//! The limit on standard output: a maximum number of lines and bytes, then a line with the size of the omitted part.
//!
//! Memory does not grow with the output: the omitted part is only counted, and of the end only the part that may be
//! shown is held.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::request::{Limits, OutputSample};

/// A writer that passes output on up to the limits.
#[derive(Debug)]
pub(super) struct LimitedWriter<W> {
    writer: W,
    noun: &'static str,
    /// The limits on the start; 0 for no limit.
    lines: u64,
    bytes: u64,
    /// The limits on the end, if the end is shown too.
    tail_lines: u64,
    tail_bytes: u64,
    total_lines: u64,
    total_bytes: u64,
    shown_lines: u64,
    shown_bytes: u64,
    cut: Option<ReachedLimit>,
    at_line_start: bool,
    tail: VecDeque<Vec<u8>>,
    tail_held: u64,
    written: OutputSample,
}

/// The limit that was reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReachedLimit {
    Lines,
    Bytes,
}

impl<W: Write> LimitedWriter<W> {
    pub(super) fn new(writer: W, limits: &Limits, noun: &'static str) -> LimitedWriter<W> {
        // If the end is kept, it gets half of the limit.
        let share = |limit: u64| match (limits.tail, limit) {
            (true, 1..) => (limit.div_ceil(2), limit / 2),
            _ => (limit, 0),
        };
        let ((lines, tail_lines), (bytes, tail_bytes)) = (share(limits.lines), share(limits.bytes));
        LimitedWriter {
            writer,
            noun,
            lines,
            bytes,
            tail_lines: if limits.tail && limits.lines == 0 {
                u64::MAX
            } else {
                tail_lines
            },
            tail_bytes: if limits.tail && limits.bytes == 0 {
                u64::MAX
            } else {
                tail_bytes
            },
            total_lines: 0,
            total_bytes: 0,
            shown_lines: 0,
            shown_bytes: 0,
            cut: None,
            at_line_start: true,
            tail: VecDeque::new(),
            tail_held: 0,
            written: OutputSample::default(),
        }
    }

    /// Returns the size and the start of the output so far, limited or not.
    pub(super) fn written(&self) -> &OutputSample {
        &self.written
    }

    /// Writes the size of the omitted part, and the end. Returns whether anything was omitted.
    pub(super) fn finish(&mut self) -> io::Result<bool> {
        let begun = u64::from(self.total_bytes > 0 && !self.at_line_start);
        let total = self.total_lines + begun;
        let tail_lines = u64::try_from(self.tail.len()).unwrap_or(u64::MAX);
        let (more, total, noun) = match self.cut {
            None => return self.writer.flush().map(|()| false),
            Some(ReachedLimit::Lines) => (total - self.shown_lines - tail_lines, total, self.noun),
            Some(ReachedLimit::Bytes) => (
                self.total_bytes - self.shown_bytes - self.tail_held,
                self.total_bytes,
                "bytes",
            ),
        };
        if more > 0 {
            if self.cut == Some(ReachedLimit::Bytes) {
                self.writer.write_all(b"\n")?;
            }
            writeln!(self.writer, "... ({more} more {noun}, {total} total)")?;
        }
        for line in std::mem::take(&mut self.tail) {
            self.writer.write_all(&line)?;
        }
        self.writer.flush().map(|()| more > 0)
    }

    /// Passes on a piece with at most one newline, at its end.
    fn write_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        let length = piece.len() as u64;
        let ends = piece.ends_with(b"\n");
        self.total_bytes += length;
        self.total_lines += u64::from(ends);
        let begins = std::mem::replace(&mut self.at_line_start, ends);
        if self.cut.is_none() && self.lines > 0 && self.shown_lines >= self.lines {
            self.cut = Some(ReachedLimit::Lines);
        }
        if self.cut.is_some() {
            self.hold_tail(piece, begins);
            return Ok(());
        }
        let left = match self.bytes {
            0 => length,
            bytes => bytes - self.shown_bytes,
        };
        let shown = usize::try_from(left.min(length)).unwrap_or(piece.len());
        let (head, rest) = piece.split_at(shown);
        self.writer.write_all(head)?;
        self.shown_bytes += shown as u64;
        if rest.is_empty() {
            self.shown_lines += u64::from(ends);
        } else {
            self.cut = Some(ReachedLimit::Bytes);
            self.hold_tail(rest, true);
        }
        Ok(())
    }

    /// Holds a piece that may belong to the end.
    fn hold_tail(&mut self, piece: &[u8], begins: bool) {
        if self.tail_lines == 0 && self.tail_bytes == 0 {
            return;
        }
        self.tail_held += piece.len() as u64;
        match self.tail.back_mut() {
            Some(line) if !begins => line.extend_from_slice(piece),
            _ => self.tail.push_back(piece.to_vec()),
        }
        while self.tail.len() as u64 > self.tail_lines.max(1) || self.tail_held > self.tail_bytes {
            let Some(mut first) = self.tail.pop_front() else {
                return;
            };
            let over = usize::try_from(self.tail_held.saturating_sub(self.tail_bytes)).unwrap_or(0);
            if self.tail.is_empty() && over < first.len() {
                // A single line longer than the limit: keep its end.
                first.drain(..over);
                self.tail_held -= over as u64;
                self.tail.push_front(first);
                self.cut = Some(ReachedLimit::Bytes);
                return;
            }
            self.tail_held -= first.len() as u64;
        }
    }
}

impl<W: Write> Write for LimitedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.add(bytes);
        // Without limits, output passes unchanged.
        if self.lines == 0 && self.bytes == 0 {
            return self.writer.write_all(bytes).map(|()| bytes.len());
        }
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.write_piece(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn limited(lines: u64, bytes: u64, tail: bool, text: &str) -> (String, bool) {
        let limits = Limits {
            time: None,
            memory: 0,
            lines,
            bytes,
            tail,
        };
        // However the text is split into pieces.
        let mut outs = [1, 3, 1000].map(|chunk| {
            let mut out = Vec::new();
            let mut limited = LimitedWriter::new(&mut out, &limits, "lines");
            for chunk in text.as_bytes().chunks(chunk) {
                limited.write_all(chunk).unwrap();
            }
            let cut = limited.finish().unwrap();
            (String::from_utf8(out).unwrap(), cut)
        });
        assert_eq!(outs[0], outs[1]);
        assert_eq!(outs[1], outs[2]);
        std::mem::take(&mut outs[0])
    }

    #[test]
    fn output_within_limits_passes_whole() {
        for text in ["", "a", "a\n", "a\nb\nc\n", "a\nb\nc"] {
            assert_eq!(limited(3, 6, false, text), (text.to_owned(), false));
            assert_eq!(limited(0, 0, true, text), (text.to_owned(), false));
        }
    }

    #[test]
    fn omitted_output_is_counted() {
        let cut = limited(2, 0, false, "a\nb\nc\nd");
        assert_eq!(
            cut,
            ("a\nb\n... (2 more lines, 4 total)\n".to_owned(), true)
        );
        let cut = limited(0, 4, false, "abcdefgh\nij\n");
        assert_eq!(
            cut,
            ("abcd\n... (8 more bytes, 12 total)\n".to_owned(), true)
        );
    }

    #[test]
    fn tail_is_kept_on_request() {
        let text: String = (1..=10).map(|n| format!("{n}\n")).collect();
        let cut = limited(4, 0, true, &text);
        assert_eq!(
            cut,
            (
                "1\n2\n... (6 more lines, 10 total)\n9\n10\n".to_owned(),
                true
            )
        );
        // Nothing is left out where the end follows the start directly.
        let cut = limited(4, 0, true, "1\n2\n3\n4\n");
        assert_eq!(cut, ("1\n2\n3\n4\n".to_owned(), false));
    }
}
