//! Reads words and operators from a line: quotes, escapes, variables, the bodies of here-documents.
//!
//! What bash has and this shell has not is a [`Refusal`] that names it, found before anything runs.

use super::parse::Parser;
use super::syntax::{Atom, Word};

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
    fn continuation(&mut self, bytes: usize) {
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

/// Reads a word; an empty one where none begins here.
pub(super) fn word(from: &mut Parser<'_>) -> Result<Word, Refusal> {
    let mut word = Word::default();
    while let Some(byte) = from.lexer.peek() {
        match byte {
            byte if ends_word(byte) => break,
            b'\\' => {
                from.lexer.skip(1);
                match from.lexer.take() {
                    Some(b'\n') => from.lexer.continuation(0),
                    Some(byte) => word.0.push(Atom::Quoted(byte)),
                    None => {
                        from.lexer.continuation(0);
                        word.0.push(Atom::Quoted(b'\\'));
                    }
                }
            }
            b'\'' => {
                from.lexer.skip(1);
                let start = word.0.len();
                loop {
                    match from.lexer.take() {
                        Some(b'\'') => break,
                        Some(byte) => word.0.push(Atom::Quoted(byte)),
                        None => return Err(Refusal::unclosed(b'\'')),
                    }
                }
                if word.0.len() == start {
                    word.0.push(Atom::Nothing);
                }
            }
            b'"' => {
                from.lexer.skip(1);
                double_quoted(from, &mut word)?;
            }
            b'$' => match from.lexer.rest() {
                [_, b'\'', ..] => {
                    from.lexer.skip(2);
                    super::ansi::quoted(&mut from.lexer, &mut word)?;
                }
                // A text to be translated, where there are translations.
                [_, b'"', ..] => from.lexer.skip(1),
                _ => dollar(from, &mut word, false)?,
            },
            b'`' => backquoted(from, &mut word, false)?,
            byte => {
                from.lexer.skip(1);
                word.0.push(Atom::Plain(byte));
            }
        }
    }
    Ok(word)
}

fn double_quoted(from: &mut Parser<'_>, word: &mut Word) -> Result<(), Refusal> {
    let start = word.0.len();
    loop {
        match from.lexer.peek() {
            Some(b'"') => {
                from.lexer.skip(1);
                break;
            }
            Some(_) => in_double_quotes(from, word, b"$`\"\\")?,
            None => return Err(Refusal::unclosed(b'"')),
        }
    }
    if word.0.len() == start {
        word.0.push(Atom::Nothing);
    }
    Ok(())
}

/// Reads one byte, escape, variable or command as it is inside double quotes, where a backslash quotes only `escapable`.
fn in_double_quotes(
    from: &mut Parser<'_>,
    word: &mut Word,
    escapable: &[u8],
) -> Result<(), Refusal> {
    match from.lexer.rest() {
        [b'\\', b'\n', ..] => from.lexer.skip(2),
        [b'\\', byte, ..] if escapable.contains(byte) => {
            word.0.push(Atom::Quoted(*byte));
            from.lexer.skip(2);
        }
        [b'$', ..] => dollar(from, word, true)?,
        [b'`', ..] => backquoted(from, word, true)?,
        [byte, ..] => {
            word.0.push(Atom::Quoted(*byte));
            from.lexer.skip(1);
        }
        [] => {}
    }
    Ok(())
}

/// Reads the text of a here-document in which variables and commands are expanded.
pub(super) fn here_text(from: &mut Parser<'_>, text: &[u8]) -> Result<Word, Refusal> {
    from.apart(text, |from| {
        let mut word = Word::default();
        while from.lexer.peek().is_some() {
            in_double_quotes(from, &mut word, b"$`\\")?;
        }
        Ok(word)
    })
}

/// Reads what begins with a dollar sign.
fn dollar(from: &mut Parser<'_>, word: &mut Word, quoted: bool) -> Result<(), Refusal> {
    let rest = from.lexer.rest();
    let after = rest.get(1..).unwrap_or_default();
    match after {
        [b'(', b'(', ..] => {
            from.note("$((: arithmetic is");
            from.lexer.skip(1);
            from.extent(b')')?;
            word.0.push(Atom::Nothing);
        }
        [b'(', ..] => {
            from.lexer.skip(2);
            let list = from.substitution()?;
            word.0.push(Atom::Command(Box::new(list), quoted));
        }
        [b'{', inner @ ..] => {
            let end = inner.iter().position(|b| *b == b'}');
            let name = end.and_then(|end| inner.get(..end)).unwrap_or_default();
            if name == b"?" || (!name.is_empty() && name_length(name) == name.len()) {
                word.0.push(Atom::Variable(name.into(), quoted));
                from.lexer.skip(name.len() + 3);
                return Ok(());
            }
            from.lexer.skip(1);
            from.extent(b'}')?;
            // Its first line names it.
            let typed = rest.get(..rest.len() - from.lexer.rest().len());
            let typed = typed.and_then(|typed| typed.split(|b| *b == b'\n').next());
            let what: &[u8] = b": only $NAME, ${NAME} and $? are supported; this expansion is";
            from.note([typed.unwrap_or_default(), what].concat());
            word.0.push(Atom::Nothing);
        }
        [b'?', ..] => {
            word.0.push(Atom::Variable(b"?"[..].into(), quoted));
            from.lexer.skip(2);
        }
        [b'0'..=b'9' | b'@' | b'*' | b'#' | b'$' | b'!' | b'-', ..] => {
            let typed = rest.get(..2).unwrap_or_default();
            from.note([typed, b": special parameters but $? are"].concat());
            from.lexer.skip(2);
            word.0.push(Atom::Nothing);
        }
        [b'[', ..] => {
            from.note("$[: arithmetic is");
            from.lexer.skip(1);
            from.extent(b']')?;
            word.0.push(Atom::Nothing);
        }
        _ => {
            let length = name_length(after);
            let name = after.get(..length).unwrap_or_default();
            word.0.push(match (length, quoted) {
                (0, true) => Atom::Quoted(b'$'),
                (0, false) => Atom::Plain(b'$'),
                _ => Atom::Variable(name.into(), quoted),
            });
            from.lexer.skip(length + 1);
        }
    }
    Ok(())
}

/// Reads a command between backquotes: inside, a backslash quotes `$`, a backquote and itself.
fn backquoted(from: &mut Parser<'_>, word: &mut Word, quoted: bool) -> Result<(), Refusal> {
    from.lexer.skip(1);
    let mut inner = Vec::new();
    loop {
        match from.lexer.take() {
            Some(b'`') => break,
            Some(b'\\') => match from.lexer.take() {
                Some(byte @ (b'$' | b'`' | b'\\')) => inner.push(byte),
                Some(byte @ b'"') if quoted => inner.push(byte),
                Some(byte) => inner.extend([b'\\', byte]),
                None => return Err(Refusal::unclosed(b'`')),
            },
            Some(byte) => inner.push(byte),
            None => return Err(Refusal::unclosed(b'`')),
        }
    }
    let list = from.apart(&inner, |inner| inner.alone())?;
    word.0.push(Atom::Command(Box::new(list), quoted));
    Ok(())
}
