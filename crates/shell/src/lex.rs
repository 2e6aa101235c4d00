//! The lexer, which reads a line byte by byte, and [`SyntaxRefusal`]: the reason for which a line is not run at all.
//!
//! Bash syntax that this shell does not support is refused by name before anything runs.

/// The reason for which a line is not run at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxRefusal {
    pub(super) message: Vec<u8>,
    /// True if more input may complete the line: an open quote, a pipe without a command after it.
    pub(super) may_continue: bool,
}

impl SyntaxRefusal {
    /// Makes a refusal that no further input can resolve.
    pub(super) fn final_refusal(message: impl Into<Vec<u8>>) -> SyntaxRefusal {
        SyntaxRefusal {
            message: message.into(),
            may_continue: false,
        }
    }

    /// Makes the refusal of a line that ends too early.
    pub(super) fn early_end() -> SyntaxRefusal {
        SyntaxRefusal {
            message: b"bash: syntax error: unexpected end of file".to_vec(),
            may_continue: true,
        }
    }

    /// Makes the refusal of something unsupported.
    pub(super) fn unsupported(what: impl AsRef<[u8]>) -> SyntaxRefusal {
        SyntaxRefusal::final_refusal([b"bash: ", what.as_ref(), b" not supported"].concat())
    }

    /// Makes the refusal of an unexpected token.
    pub(super) fn unexpected(token: &[u8]) -> SyntaxRefusal {
        SyntaxRefusal::final_refusal(
            [b"bash: syntax error near unexpected token `", token, b"'"].concat(),
        )
    }

    /// Makes the refusal of a line with an open quote or parenthesis.
    pub(super) fn unclosed(mark: u8) -> SyntaxRefusal {
        SyntaxRefusal {
            message: [
                b"bash: unexpected EOF while looking for matching `",
                &[mark][..],
                b"'",
            ]
            .concat(),
            may_continue: true,
        }
    }
}

/// A line being read.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'l> {
    line: &'l [u8],
    at: usize,
    /// True if the line ends in a backslash: the next line continues it.
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

    /// Returns the rest of the line.
    pub(super) fn rest(&self) -> &'l [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// Returns the next byte without taking it.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.line.len());
    }

    /// Takes the next byte.
    pub(super) fn take(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.skip(1);
        byte
    }

    /// Takes `text` if it is next.
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        let comes = self.rest().starts_with(text);
        if comes {
            self.skip(text.len());
        }
        comes
    }

    /// Skips an escaped newline, after which the line continues.
    pub(super) fn skip_continuation(&mut self, bytes: usize) {
        self.skip(bytes);
        self.continued |= self.rest().is_empty();
    }

    /// Returns whether the input ends where the line should continue.
    pub(super) fn is_continued(&self) -> bool {
        self.continued
    }

    /// Skips blanks, comments and escaped newlines.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t', ..] => self.skip(1),
                [b'\\', b'\n', ..] => self.skip_continuation(2),
                [b'#', ..] => {
                    let end = self.rest().iter().position(|b| *b == b'\n');
                    self.skip(end.unwrap_or(self.rest().len()));
                }
                _ => return,
            }
        }
    }

    /// Takes the rest of the current line, without its newline.
    pub(super) fn take_line(&mut self) -> Option<&'l [u8]> {
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

/// Returns whether a byte may occur in a variable's name after its first.
pub(super) fn is_in_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Returns the length of the variable name at the start of `text`.
pub(super) fn name_length(text: &[u8]) -> usize {
    match text.first() {
        Some(first) if begins_name(*first) => {
            let ends = |b: &u8| !is_in_name(*b);
            text.iter().position(ends).unwrap_or(text.len())
        }
        _ => 0,
    }
}
