//! [`AnswerReader`]: the answer of a server, as it goes on to the program.
//!
//! The head loses what is between two neighbours, and invitations to other ways ([`LEFT_OUT`]); the rest, and the body
//! in its own framing, goes on as it came. An answer that has no clear end is none.

use super::super::body_scanner::BodyScanner;
use super::super::http::{BodyLength, is_token};

/// The most bytes of a head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most answers before the last one, such as `100 Continue`.
const MAX_INTERIM_ANSWERS: usize = 20;

/// Fields that do not go on. `Alt-Svc` names another way to the server, which knows no secret.
const LEFT_OUT: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "alt-svc",
    "trailer",
];

/// An answer of which some has come.
pub(super) struct AnswerReader {
    /// True for the answer to HEAD, which has no body.
    is_head_only: bool,
    state: ResponseProgress,
    head: Vec<u8>,
    interim: usize,
    /// The status of the last head.
    pub(super) status: Option<u16>,
}

enum ResponseProgress {
    Head,
    Body(BodyScanner),
    /// The end of the connection is that of the body.
    UntilEnd,
    Complete,
}

impl AnswerReader {
    pub(super) fn new(is_head_only: bool) -> AnswerReader {
        AnswerReader {
            is_head_only,
            state: ResponseProgress::Head,
            head: Vec::new(),
            interim: 0,
            status: None,
        }
    }

    /// Returns whether all of it has come.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, ResponseProgress::Complete)
    }

    /// Returns whether it is complete when the server says that it ends.
    pub(super) fn ends_here(&self) -> bool {
        matches!(
            self.state,
            ResponseProgress::Complete | ResponseProgress::UntilEnd
        )
    }

    /// Notes that the server has ended it.
    pub(super) fn end(&mut self) {
        self.state = ResponseProgress::Complete;
    }

    /// Takes what came, and writes what goes on.
    ///
    /// # Errors
    /// The fault of the answer.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            match &mut self.state {
                ResponseProgress::Complete => return Ok(()),
                ResponseProgress::UntilEnd => {
                    out.extend_from_slice(bytes);
                    return Ok(());
                }
                ResponseProgress::Body(body) => {
                    let len = body.count_body_bytes(bytes);
                    let (passed, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
                    out.extend_from_slice(passed);
                    if body.is_broken() {
                        return Err("the body of the answer is not framed as its head says");
                    }
                    if body.is_over() {
                        self.state = ResponseProgress::Complete;
                    }
                    bytes = rest;
                }
                ResponseProgress::Head => {
                    let before = self.head.len();
                    self.head.extend_from_slice(bytes);
                    let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n") else {
                        return match self.head.len() {
                            0..MAX_HEAD_BYTES => Ok(()),
                            _ => Err("the head of the answer is too long"),
                        };
                    };
                    let rest = end + 4 - before.min(end + 4);
                    self.head.truncate(end + 4);
                    let head = std::mem::take(&mut self.head);
                    self.take_head(&head, out)?;
                    bytes = bytes.get(rest..).unwrap_or_default();
                }
            }
        }
        Ok(())
    }

    fn take_head(&mut self, head: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        let text = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
        let mut lines = text.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let first = first.strip_suffix(b"\r").unwrap_or(first);
        let status = status_of(first).ok_or("what the server answers is no HTTP/1")?;
        self.status = Some(status);
        out.extend_from_slice(first);
        out.extend_from_slice(b"\r\n");
        let (mut length, mut encoding) = (None, None);
        for line in lines {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = memchr::memchr(b':', line).ok_or("a line of the answer has no colon")?;
            let (name, value) = line.split_at_checked(colon).unwrap_or_default();
            let name = std::str::from_utf8(name).unwrap_or_default();
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            if !is_token(name) || value.iter().any(|byte| matches!(byte, b'\r' | 0)) {
                return Err("a line of the answer has no proper name");
            }
            let name = name.to_ascii_lowercase();
            let framing = match &*name {
                "content-length" => &mut length,
                "transfer-encoding" => &mut encoding,
                name if LEFT_OUT.contains(&name) => continue,
                _ => {
                    out.extend_from_slice(line);
                    out.extend_from_slice(b"\r\n");
                    continue;
                }
            };
            if framing.replace(value).is_some_and(|before| before != value) {
                return Err("the length of the answer is not clear");
            }
        }
        if (100..200).contains(&status) {
            self.interim += 1;
            if status == 101 || self.interim > MAX_INTERIM_ANSWERS {
                return Err("the server answers what was not asked for");
            }
            out.extend_from_slice(b"\r\n");
            return Ok(());
        }
        self.state = self.body_state(status, length, encoding, out)?;
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        Ok(())
    }

    /// Returns what follows the head, and writes the fields that frame it.
    fn body_state(
        &self,
        status: u16,
        length: Option<&[u8]>,
        encoding: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<ResponseProgress, &'static str> {
        let unclear = "the length of the answer is not clear";
        if let (Some(value), None) = (length, encoding) {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        if let (Some(_), None) = (encoding, length) {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        let framing = match (length, encoding) {
            (None, None) => None,
            (Some(digits), None) => {
                let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
                let number = digits.and_then(|digits| digits.parse().ok());
                Some(BodyLength::Length(number.ok_or(unclear)?))
            }
            (None, Some(value)) if value.eq_ignore_ascii_case(b"chunked") => {
                Some(BodyLength::Chunked)
            }
            _ => return Err(unclear),
        };
        if self.is_head_only || matches!(status, 204 | 304) {
            return Ok(ResponseProgress::Complete);
        }
        Ok(match framing {
            None => ResponseProgress::UntilEnd,
            Some(BodyLength::Length(0)) => ResponseProgress::Complete,
            Some(framing) => ResponseProgress::Body(BodyScanner::new(framing)),
        })
    }
}

/// Reads the first line of an answer.
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line
        .strip_prefix(b"HTTP/1.1 ")
        .or_else(|| line.strip_prefix(b"HTTP/1.0 "))?;
    let (digits, reason) = rest.split_at_checked(3)?;
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    let is_split = reason.is_empty() || reason.starts_with(b" ");
    if !digits.iter().all(u8::is_ascii_digit) || !is_split || !reason.iter().all(is_plain) {
        return None;
    }
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (100..=599).contains(&status).then_some(status)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns what goes on of an answer that comes in pieces of a size, and whether it is complete.
    fn passed(
        answer: &str,
        is_head_only: bool,
        size: usize,
    ) -> Result<(String, bool), &'static str> {
        let (mut reader, mut out) = (AnswerReader::new(is_head_only), Vec::new());
        for piece in answer.as_bytes().chunks(size) {
            reader.push(piece, &mut out)?;
        }
        Ok((String::from_utf8(out).unwrap(), reader.is_complete()))
    }

    #[test]
    fn answer_goes_on_without_what_is_between_neighbours() {
        let more = "HTTP/1.1 200 more\r\n";
        for (answer, goes_on, is_complete) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nAlt-Svc: h3=\":443\"\r\nX: y\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                true,
            ),
            (
                "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                true,
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                true,
            ),
            (
                "HTTP/1.1 204 No\r\n\r\n",
                "HTTP/1.1 204 No\r\nConnection: close\r\n\r\n",
                true,
            ),
        ] {
            for size in [1, 3, 1000] {
                let got = passed(&format!("{answer}{more}"), false, size).unwrap();
                assert_eq!(got, (goes_on.to_owned(), is_complete), "by {size}");
            }
        }
        let (text, is_complete) = passed("HTTP/1.0 200 OK\r\n\r\nto the end", false, 4).unwrap();
        assert!(text.ends_with("\r\n\r\nto the end") && !is_complete);
        assert!(
            passed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 9)
                .unwrap()
                .1
        );
    }

    #[test]
    fn answer_that_is_not_clear_is_none() {
        for answer in [
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(passed(answer, false, 1000).is_err(), "{answer:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(MAX_HEAD_BYTES));
        assert!(passed(&long, false, 1000).is_err());
        let many = "HTTP/1.1 103 Early\r\n\r\n".repeat(MAX_INTERIM_ANSWERS + 1);
        assert!(passed(&many, false, 1000).is_err());
    }
}
