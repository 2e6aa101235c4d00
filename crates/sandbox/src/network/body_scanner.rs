//! [`BodyScanner`]: how much of what follows the head of an HTTP/1 request is its body (RFC 9112, 6 and 7.1).
//!
//! Bytes after the body would be the next request, which no policy decision covers.

use super::http::BodyLength;

/// The most bytes that a line of the chunked form may have, and all lines of trailers together.
const MAX_LINE_BYTES: usize = 4096;

/// A body of which some has passed.
#[derive(Debug)]
pub(super) struct BodyScanner {
    at: BodyState,
    /// The number of bytes of lines since the last data.
    line: usize,
    /// False where fields after the body break it.
    has_trailers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    /// So many bytes are left of a body of known length.
    Length(u64),
    /// In the number of a chunk, which is this so far; whether there was a digit.
    Size(u64, bool),
    /// Behind the number, before the end of its line.
    Extension(u64),
    /// Before the line feed of a chunk's first line.
    SizeEnd(u64),
    /// In a chunk.
    Data(u64),
    /// Before the carriage return, and the line feed, after a chunk.
    DataReturn,
    DataEnd,
    /// At the start of a line of trailers; in one; before its line feed, and before the last of all.
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastEnd,
    Done,
    /// The bytes are no body.
    Broken,
}

impl BodyScanner {
    pub(super) fn new(framing: BodyLength) -> BodyScanner {
        let at = match framing {
            BodyLength::Length(0) => BodyState::Done,
            BodyLength::Length(length) => BodyState::Length(length),
            BodyLength::Chunked => BodyState::Size(0, false),
        };
        BodyScanner {
            at,
            line: 0,
            has_trailers: true,
        }
    }

    /// Scans a body after which no fields may come: a server could take them for fields of the head.
    pub(super) fn without_trailers(framing: BodyLength) -> BodyScanner {
        BodyScanner {
            has_trailers: false,
            ..BodyScanner::new(framing)
        }
    }

    /// Returns whether the bytes were no body.
    pub(super) fn is_broken(&self) -> bool {
        self.at == BodyState::Broken
    }

    /// Returns whether all of the body has passed, or the bytes were no body.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.at, BodyState::Done | BodyState::Broken)
    }

    /// Takes note of what comes next. Returns how much of that is the body's.
    pub(super) fn count_body_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        while let Some(rest) = bytes.get(passed..).filter(|rest| !rest.is_empty()) {
            match self.at {
                BodyState::Done | BodyState::Broken => break,
                BodyState::Length(left) | BodyState::Data(left) => {
                    let some =
                        usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    let left = left - some as u64;
                    passed += some;
                    self.line = 0;
                    self.at = match (self.at, left) {
                        (BodyState::Length(_), 0) => BodyState::Done,
                        (BodyState::Length(_), _) => BodyState::Length(left),
                        (_, 0) => BodyState::DataReturn,
                        _ => BodyState::Data(left),
                    };
                }
                at => {
                    let Some(byte) = rest.first() else { break };
                    self.line += 1;
                    let next = next(at, *byte);
                    let is_refused = next == BodyState::Trailer && !self.has_trailers;
                    self.at = if self.line > MAX_LINE_BYTES || is_refused {
                        BodyState::Broken
                    } else {
                        next
                    };
                    if self.at != BodyState::Broken {
                        passed += 1;
                    }
                }
            }
        }
        passed
    }
}

/// Returns where a byte of a line leads.
fn next(at: BodyState, byte: u8) -> BodyState {
    match (at, byte) {
        (BodyState::Size(size, _), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
            let digit = char::from(byte).to_digit(16).unwrap_or(0);
            match size.checked_mul(16) {
                Some(size) => BodyState::Size(size | u64::from(digit), true),
                None => BodyState::Broken,
            }
        }
        (BodyState::Size(size, true) | BodyState::Extension(size), b'\r') => {
            BodyState::SizeEnd(size)
        }
        (BodyState::Size(size, true), b';') => BodyState::Extension(size),
        (BodyState::Extension(size), b'\t' | b' '..=b'~') => BodyState::Extension(size),
        (BodyState::SizeEnd(0), b'\n') => BodyState::TrailerStart,
        (BodyState::SizeEnd(size), b'\n') => BodyState::Data(size),
        (BodyState::DataReturn, b'\r') => BodyState::DataEnd,
        (BodyState::DataEnd, b'\n') => BodyState::Size(0, false),
        (BodyState::TrailerStart, b'\r') => BodyState::LastEnd,
        (BodyState::LastEnd, b'\n') => BodyState::Done,
        (BodyState::Trailer, b'\r') => BodyState::TrailerEnd,
        (BodyState::TrailerEnd, b'\n') => BodyState::TrailerStart,
        (BodyState::TrailerStart | BodyState::Trailer, b'\t' | b' '..=b'~' | 0x80..) => {
            BodyState::Trailer
        }
        _ => BodyState::Broken,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// Returns the number of bytes that are a body, when they come in pieces of this size, and whether the body is
    /// over.
    fn passed(framing: BodyLength, bytes: &[u8], size: usize) -> (usize, bool) {
        let mut body = BodyScanner::new(framing);
        let mut all = 0;
        for piece in bytes.chunks(size) {
            let some = body.count_body_bytes(piece);
            all += some;
            if some < piece.len() {
                assert!(body.is_over());
                break;
            }
        }
        (all, body.is_over())
    }

    #[test]
    fn a_body_ends_where_it_says() {
        use BodyLength::{Chunked, Length};
        let second = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        for (framing, body) in [
            (Length(0), &b""[..]),
            (Length(5), b"12345"),
            (Chunked, b"0\r\n\r\n"),
            (Chunked, b"5\r\nabcde\r\n0\r\n\r\n"),
            (
                Chunked,
                b"A;x=\"y\"\r\n0123456789\r\n00\r\nTrailer: x\r\nB: y\r\n\r\n",
            ),
            (Chunked, b"2\r\n\r\n\r\n0\r\n\r\n"),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                let bytes = [body, second].concat();
                assert_eq!(
                    passed(framing, &bytes, size),
                    (body.len(), true),
                    "{framing:?} {body:?} by {size}"
                );
                if let Some((_, most)) = body.split_last() {
                    assert_eq!(
                        passed(framing, most, size),
                        (most.len(), false),
                        "{framing:?} {body:?} by {size}"
                    );
                }
            }
        }
    }

    #[test]
    fn fields_after_a_body_can_be_refused() {
        for (body, is_broken) in [
            (&b"2\r\nok\r\n0\r\n\r\n"[..], false),
            (b"2\r\nok\r\n0\r\nX-Key: y\r\n\r\n", true),
        ] {
            let mut scanner = BodyScanner::without_trailers(BodyLength::Chunked);
            scanner.count_body_bytes(body);
            assert_eq!((scanner.is_broken(), scanner.is_over()), (is_broken, true));
        }
    }

    #[test]
    fn what_is_no_chunk_ends_it() {
        for (body, len) in [
            (&b"x\r\n"[..], 0),
            (b"\r\n", 0),
            (b"5\nabcde", 1),
            (b"5 \r\n", 1),
            (b"-5\r\n", 0),
            (b"0x5\r\n", 1),
            (b"5\r\nabcdeX", 8),
            (b"5\r\nabcde\n0", 8),
            (b"5;\n", 2),
            (b"11111111111111111\r\n", 16),
            (b"0\r\nA: b\n\r\n", 7),
        ] {
            for size in [1, 3, 1000] {
                assert_eq!(
                    passed(BodyLength::Chunked, body, size),
                    (len, true),
                    "{body:?} by {size}"
                );
            }
        }
        let long = [&b"0\r\n"[..], &[b'a'; 5000]].concat();
        assert_eq!(
            passed(BodyLength::Chunked, &long, 1000),
            (MAX_LINE_BYTES, true)
        );
    }
}
