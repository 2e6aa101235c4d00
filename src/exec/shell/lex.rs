//! A line as it is read, byte by byte, and [`Refusal`]: why it is not run at all.
//!
//! What bash has and this shell has not is a refusal that names it, found before anything runs.

/// Why a line is not run at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) message: Vec<u8>,
    /// Whether more of the line may mend it: an open quote, a pipe with nothing behind it.
    pub(super) may_go_on: bool,
}

impl Refusal {
    /// Says something that no more typing mends.
    pub(super) fn told(message: impl Into<Vec<u8>>) -> Refusal {
        Refusal {
            message: message.into(),
            may_go_on: false,
        }
    }

    /// Says that the line ends where something has to follow.
    pub(super) fn early_end() -> Refusal {
        Refusal {
            message: b"bash: syntax error: unexpected end of file".to_vec(),
            may_go_on: true,
        }
    }

    /// Says that something is not supported.
    pub(super) fn unsupported(what: impl AsRef<[u8]>) -> Refusal {
        Refusal::told([b"bash: ", what.as_ref(), b" not supported"].concat())
    }

    /// Says which token cannot stand where it does.
    pub(super) fn unexpected(token: &[u8]) -> Refusal {
        Refusal::told([b"bash: syntax error near unexpected token `", token, b"'"].concat())
    }

    /// Says that the line ends too early.
    pub(super) fn unclosed(mark: u8) -> Refusal {
        Refusal {
            message: [
                b"bash: unexpected EOF while looking for matching `",
                &[mark][..],
                b"'",
            ]
            .concat(),
            may_go_on: true,
        }
    }
}

/// A line that is being read.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'l> {
    line: &'l [u8],
    at: usize,
    /// Whether a backslash was the last there was: the next line belongs to this one.
    continued: bool,
}

impl<'l> Lexer<'l> {
    pub(super) fn new(line: &'l [u8]) -> Lexer<'l> {
        Lexer {
            line,
            at: 0,
            continued: false,
        }
    }

    /// Returns what is left.
    pub(super) fn rest(&self) -> &'l [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// Returns the next byte.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Goes on.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.line.len());
    }

    /// Takes the next byte.
    pub(super) fn take(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.skip(1);
        byte
    }

    /// Takes `text` if it comes next.
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        let comes = self.rest().starts_with(text);
        if comes {
            self.skip(text.len());
        }
        comes
    }

    /// Goes over a line end after a backslash, at which the line goes on.
    pub(super) fn continuation(&mut self, bytes: usize) {
        self.skip(bytes);
        self.continued |= self.rest().is_empty();
    }

    /// Returns whether the line ends where it should go on.
    pub(super) fn is_continued(&self) -> bool {
        self.continued
    }

    /// Skips blanks, comments, and lines that go on (`\` before a line's end).
    pub(super) fn blanks(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t', ..] => self.skip(1),
                [b'\\', b'\n', ..] => self.continuation(2),
                [b'#', ..] => {
                    let end = self.rest().iter().position(|b| *b == b'\n');
                    self.skip(end.unwrap_or(self.rest().len()));
                }
                _ => return,
            }
        }
    }

    /// Takes the rest of the line that the reader is in, without its end.
    pub(super) fn line(&mut self) -> Option<&'l [u8]> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        self.skip(end + 1);
        rest.get(..end)
    }
}

/// Returns whether a byte ends a word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>'
    )
}

fn begins_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic()
}

/// Returns how long a variable's name at the start of `text` is.
pub(super) fn name_length(text: &[u8]) -> usize {
    match text.first() {
        Some(first) if begins_name(*first) => {
            let ends = |b: &u8| *b != b'_' && !b.is_ascii_alphanumeric();
            text.iter().position(ends).unwrap_or(text.len())
        }
        _ => 0,
    }
}
