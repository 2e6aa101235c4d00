//! Words: quotes, escapes, variables, command substitutions, and the texts of here-documents (bash(1), QUOTING and
//! EXPANSION).

use super::parser::LineParser;
use crate::ansi;
use crate::lex::{SyntaxRefusal, ends_word, is_in_name, name_length};
use crate::syntax::{Word, WordAtom};

impl LineParser<'_> {
    /// Parses a word; an empty one where none begins here.
    pub(super) fn parse_word(&mut self) -> Result<Word, SyntaxRefusal> {
        let mut word = Word::default();
        while let Some(byte) = self.lexer.peek() {
            match byte {
                byte if ends_word(byte) => break,
                b'\\' => {
                    self.lexer.skip(1);
                    match self.lexer.take() {
                        Some(b'\n') => {
                            self.lexer.skip_continuation(0);
                            self.refuse_split_number(&word);
                        }
                        Some(byte) => word.0.push(WordAtom::Quoted(byte)),
                        None => {
                            self.lexer.skip_continuation(0);
                            word.0.push(WordAtom::Quoted(b'\\'));
                        }
                    }
                }
                b'\'' => {
                    self.lexer.skip(1);
                    let start = word.0.len();
                    loop {
                        match self.lexer.take() {
                            Some(b'\'') => break,
                            Some(byte) => word.0.push(WordAtom::Quoted(byte)),
                            None => return Err(SyntaxRefusal::unclosed(b'\'')),
                        }
                    }
                    if word.0.len() == start {
                        word.0.push(WordAtom::Nothing);
                    }
                }
                b'"' => {
                    self.lexer.skip(1);
                    self.parse_double_quoted(&mut word)?;
                }
                b'$' => match self.lexer.rest() {
                    [_, b'\'', ..] => {
                        self.lexer.skip(2);
                        ansi::parse_quotes(&mut self.lexer, &mut word)?;
                    }
                    // `$"…"` is translated in bash; there are no translations here.
                    [_, b'"', ..] => self.lexer.skip(1),
                    _ => self.parse_dollar(&mut word, false)?,
                },
                b'`' => self.parse_backquoted(&mut word, false)?,
                byte => {
                    self.lexer.skip(1);
                    word.0.push(WordAtom::Plain(byte));
                }
            }
        }
        Ok(word)
    }

    /// Refuses a redirect whose number is on the line before.
    fn refuse_split_number(&mut self, word: &Word) {
        let is_number = |text: Vec<u8>| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        if matches!(self.lexer.peek(), Some(b'<' | b'>')) && word.plain().is_some_and(is_number) {
            self.note_unsupported(
                "a line that goes on between the number of a stream and its redirect is",
            );
        }
    }

    /// Parses up to the closing quote.
    fn parse_double_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxRefusal> {
        let start = word.0.len();
        loop {
            match self.lexer.peek() {
                Some(b'"') => {
                    self.lexer.skip(1);
                    break;
                }
                Some(_) => self.parse_in_double_quotes(word, b"$`\"\\")?,
                None => return Err(SyntaxRefusal::unclosed(b'"')),
            }
        }
        if word.0.len() == start {
            word.0.push(WordAtom::Nothing);
        }
        Ok(())
    }

    /// Parses one byte, escape, variable or command inside double quotes, where a backslash quotes only `escapable`.
    fn parse_in_double_quotes(
        &mut self,
        word: &mut Word,
        escapable: &[u8],
    ) -> Result<(), SyntaxRefusal> {
        match self.lexer.rest() {
            [b'\\', b'\n', ..] => self.lexer.skip(2),
            [b'\\', byte, ..] if escapable.contains(byte) => {
                word.0.push(WordAtom::Quoted(*byte));
                self.lexer.skip(2);
            }
            [b'$', ..] => self.parse_dollar(word, true)?,
            [b'`', ..] => self.parse_backquoted(word, true)?,
            [byte, ..] => {
                word.0.push(WordAtom::Quoted(*byte));
                self.lexer.skip(1);
            }
            [] => {}
        }
        Ok(())
    }

    /// Parses the text of a here-document in which variables and commands are expanded.
    pub(super) fn parse_here_text(&mut self, text: &[u8]) -> Result<Word, SyntaxRefusal> {
        self.parse_inner(text, |inner| {
            let mut word = Word::default();
            while inner.lexer.peek().is_some() {
                inner.parse_in_double_quotes(&mut word, b"$`\\")?;
            }
            Ok(word)
        })
    }

    /// Parses an expansion that begins with a dollar sign.
    fn parse_dollar(&mut self, word: &mut Word, quoted: bool) -> Result<(), SyntaxRefusal> {
        let rest = self.lexer.rest();
        let after = rest.get(1..).unwrap_or_default();
        match after {
            [b'(', b'(', ..] => {
                self.note_unsupported("$((: arithmetic is");
                self.lexer.skip(1);
                self.skip_extent(b')')?;
                word.0.push(WordAtom::Nothing);
            }
            [b'(', ..] => {
                self.lexer.skip(2);
                let list = self.parse_substitution()?;
                word.0.push(WordAtom::Command(Box::new(list), quoted));
            }
            [b'{', inner @ ..] => {
                let end = inner.iter().position(|b| *b == b'}');
                let name = end.and_then(|end| inner.get(..end)).unwrap_or_default();
                if name == b"?" || (!name.is_empty() && name_length(name) == name.len()) {
                    word.0.push(WordAtom::Variable(name.into(), quoted));
                    self.lexer.skip(name.len() + 3);
                    return Ok(());
                }
                self.lexer.skip(1);
                self.skip_extent(b'}')?;
                // The message quotes its first line.
                let typed = rest.get(..rest.len() - self.lexer.rest().len());
                let typed = typed.and_then(|typed| typed.split(|b| *b == b'\n').next());
                let what: &[u8] = b": only $NAME, ${NAME} and $? are supported; this expansion is";
                self.note_unsupported([typed.unwrap_or_default(), what].concat());
                word.0.push(WordAtom::Nothing);
            }
            [b'?', ..] => {
                word.0.push(WordAtom::Variable(b"?"[..].into(), quoted));
                self.lexer.skip(2);
            }
            [b'0'..=b'9' | b'@' | b'*' | b'#' | b'$' | b'!' | b'-', ..] => {
                let typed = rest.get(..2).unwrap_or_default();
                self.note_unsupported([typed, b": special parameters but $? are"].concat());
                self.lexer.skip(2);
                word.0.push(WordAtom::Nothing);
            }
            [b'[', ..] => {
                self.note_unsupported("$[: arithmetic is");
                self.lexer.skip(1);
                self.skip_extent(b']')?;
                word.0.push(WordAtom::Nothing);
            }
            [b'\\', b'\n', ..] => {
                self.note_unsupported("a line that goes on behind a $ is");
                self.lexer.skip(1);
                word.0.push(WordAtom::Nothing);
            }
            _ => {
                self.lexer.skip(1);
                let name = self.parse_name();
                word.0.push(match (name.is_empty(), quoted) {
                    (true, true) => WordAtom::Quoted(b'$'),
                    (true, false) => WordAtom::Plain(b'$'),
                    (false, true) => WordAtom::Variable(name.into(), true),
                    (false, false) => WordAtom::Bare(name.into()),
                });
            }
        }
        Ok(())
    }

    /// Takes a variable's name, which may go on in the next line.
    fn parse_name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        loop {
            let rest = self.lexer.rest();
            let length = if name.is_empty() {
                name_length(rest)
            } else {
                rest.iter().take_while(|byte| is_in_name(**byte)).count()
            };
            name.extend_from_slice(rest.get(..length).unwrap_or_default());
            self.lexer.skip(length);
            match self.lexer.rest() {
                [b'\\', b'\n', next, ..] if !name.is_empty() && is_in_name(*next) => {
                    self.lexer.skip(2)
                }
                _ => return name,
            }
        }
    }

    /// Parses a command between backquotes, where a backslash quotes `$`, a backquote and itself.
    fn parse_backquoted(&mut self, word: &mut Word, quoted: bool) -> Result<(), SyntaxRefusal> {
        self.lexer.skip(1);
        let mut inner = Vec::new();
        loop {
            match self.lexer.take() {
                Some(b'`') => break,
                Some(b'\\') => match self.lexer.take() {
                    Some(byte @ (b'$' | b'`' | b'\\')) => inner.push(byte),
                    Some(byte @ b'"') if quoted => inner.push(byte),
                    Some(byte) => inner.extend([b'\\', byte]),
                    None => return Err(SyntaxRefusal::unclosed(b'`')),
                },
                Some(byte) => inner.push(byte),
                None => return Err(SyntaxRefusal::unclosed(b'`')),
            }
        }
        let list = self.parse_inner(&inner, |inner| inner.parse_whole_list())?;
        word.0.push(WordAtom::Command(Box::new(list), quoted));
        Ok(())
    }
}
