//! Compound commands, which this shell does not support: each is read up to its own end, so that no part of it is
//! taken for a separate line, and noted (bash(1), Compound Commands and Shell Function Definitions).

use super::parser::{LineParser, ListEnd};
use crate::lex::SyntaxRefusal;
use crate::syntax::Word;

/// A function that reads the rest of a compound command after its first word.
type CompoundReader<'l> = fn(&mut LineParser<'l>) -> Result<(), SyntaxRefusal>;

impl<'l> LineParser<'l> {
    /// Returns whether the end of a list is next.
    ///
    /// # Errors
    /// The input ends before it.
    pub(super) fn at_list_end(&self, close: ListEnd) -> Result<bool, SyntaxRefusal> {
        match (self.lexer.peek(), close) {
            (None, ListEnd::Input) => Ok(true),
            (None, ListEnd::Paren) => Err(SyntaxRefusal::unclosed(b')')),
            (None, _) => Err(SyntaxRefusal::early_end()),
            (Some(_), ListEnd::Input) => Ok(false),
            (Some(byte), ListEnd::Paren) => Ok(byte == b')'),
            (Some(_), ListEnd::Brace) => Ok(self.is_word(b"}")),
            (Some(byte), ListEnd::Case) => {
                Ok((byte == b';' && self.lexer.rest().starts_with(b";;")) || self.is_word(b"esac"))
            }
            (Some(_), ListEnd::Words(words)) => {
                Ok(words.iter().any(|word| self.is_word(word.as_bytes())))
            }
        }
    }

    /// Reads a compound command, if its reserved word is next.
    pub(super) fn skip_compound(&mut self) -> Result<bool, SyntaxRefusal> {
        let begins: [(&str, &str, CompoundReader<'l>); 9] = [
            ("if", "if: conditions are", Self::skip_condition),
            ("while", "while: loops are", Self::skip_loop_body),
            ("until", "until: loops are", Self::skip_loop_body),
            ("for", "for: loops are", Self::skip_for_loop),
            ("select", "select: loops are", Self::skip_for_loop),
            ("case", "case: conditions are", Self::skip_case),
            (
                "function",
                "function: functions are",
                Self::skip_named_function,
            ),
            ("coproc", "coproc: job control is", |parser| {
                parser.parse_stage().map(drop)
            }),
            ("[[", "[[: conditions are", Self::skip_test),
        ];
        let found = begins
            .iter()
            .find(|(name, ..)| self.is_word(name.as_bytes()));
        let Some((name, what, read)) = found else {
            return Ok(false);
        };
        self.note_unsupported(what);
        self.lexer.skip(name.len());
        self.nested(read).map(|()| true)
    }

    fn skip_condition(&mut self) -> Result<(), SyntaxRefusal> {
        self.skip_list_until(&["then"])?;
        loop {
            match self.skip_list_until(&["elif", "else", "fi"])? {
                "elif" => self.skip_list_until(&["then"])?,
                "else" => return self.skip_list_until(&["fi"]).map(drop),
                _ => return Ok(()),
            };
        }
    }

    fn skip_loop_body(&mut self) -> Result<(), SyntaxRefusal> {
        self.skip_list_until(&["do"])?;
        self.skip_list_until(&["done"]).map(drop)
    }

    /// Reads a non-empty list and the word that ends it. Returns that word.
    fn skip_list_until(
        &mut self,
        ends: &'static [&'static str],
    ) -> Result<&'static str, SyntaxRefusal> {
        let list = self.parse_list(ListEnd::Words(ends))?;
        let end = ends.iter().find(|end| self.is_word(end.as_bytes()));
        let end = end.copied().unwrap_or_default();
        if list.is_empty() {
            return Err(SyntaxRefusal::unexpected(end.as_bytes()));
        }
        self.lexer.skip(end.len());
        Ok(end)
    }

    fn skip_for_loop(&mut self) -> Result<(), SyntaxRefusal> {
        self.lexer.skip_blanks();
        if self.lexer.rest().starts_with(b"((") {
            self.skip_extent(b')')?;
        } else {
            self.skip_operand()?;
            self.skip_newlines()?;
            if self.is_word(b"in") {
                self.lexer.skip(2);
                self.skip_words()?;
            }
        }
        self.lexer.skip_blanks();
        self.lexer.eat(b";");
        self.skip_newlines()?;
        if self.is_word(b"{") {
            return self.parse_group(ListEnd::Brace).map(drop);
        }
        self.take_reserved_word("do")?;
        self.skip_list_until(&["done"]).map(drop)
    }

    fn skip_case(&mut self) -> Result<(), SyntaxRefusal> {
        self.skip_operand()?;
        self.skip_newlines()?;
        self.take_reserved_word("in")?;
        loop {
            self.skip_newlines()?;
            if self.is_word(b"esac") {
                self.lexer.skip(4);
                return Ok(());
            }
            self.lexer.eat(b"(");
            loop {
                self.skip_operand()?;
                self.lexer.skip_blanks();
                if !self.lexer.eat(b"|") {
                    break;
                }
            }
            if !self.lexer.eat(b")") {
                return Err(self.unexpected());
            }
            self.parse_list(ListEnd::Case)?;
            let ended = self.lexer.eat(b";;&") || self.lexer.eat(b";;") || self.lexer.eat(b";&");
            if !ended && !self.is_word(b"esac") {
                return Err(self.unexpected());
            }
        }
    }

    /// Reads the rest of a definition after `function`: a name, optionally `()`, and a body.
    fn skip_named_function(&mut self) -> Result<(), SyntaxRefusal> {
        self.skip_operand()?;
        self.lexer.skip_blanks();
        if self.lexer.eat(b"(") {
            self.lexer.skip_blanks();
            if !self.lexer.eat(b")") {
                return Err(self.unexpected());
            }
        }
        self.skip_newlines()?;
        self.parse_stage().map(drop)
    }

    /// Reads `()` after a name, and the function's body.
    ///
    /// # Errors
    /// Something other than `)` in the parentheses, or no name before them.
    pub(super) fn skip_function(&mut self, name: Option<&Word>) -> Result<(), SyntaxRefusal> {
        let name = name.and_then(Word::plain);
        let mut after = self.lexer.clone();
        after.skip(1);
        after.skip_blanks();
        let Some(name) = name.filter(|_| after.eat(b")")) else {
            return Err(SyntaxRefusal::unexpected(b"("));
        };
        self.note_unsupported([&name[..], b"(): functions are"].concat());
        self.lexer = after;
        self.skip_newlines()?;
        self.nested(|parser| parser.parse_stage().map(drop))
    }

    /// Reads the expression between `[[` and `]]`.
    fn skip_test(&mut self) -> Result<(), SyntaxRefusal> {
        loop {
            self.skip_newlines()?;
            if self.is_word(b"]]") {
                self.lexer.skip(2);
                return Ok(());
            }
            if self.lexer.peek().is_none() {
                return Err(SyntaxRefusal::early_end());
            }
            if self.parse_word()?.0.is_empty() {
                self.lexer.skip(1);
            }
        }
    }

    /// Reads words up to the end of the line or a `;`.
    fn skip_words(&mut self) -> Result<(), SyntaxRefusal> {
        loop {
            self.lexer.skip_blanks();
            if self.parse_word()?.0.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads a required word.
    fn skip_operand(&mut self) -> Result<(), SyntaxRefusal> {
        self.lexer.skip_blanks();
        if self.parse_word()?.0.is_empty() {
            Err(self.unexpected())
        } else {
            Ok(())
        }
    }

    /// Takes a required reserved word.
    fn take_reserved_word(&mut self, text: &'static str) -> Result<(), SyntaxRefusal> {
        if !self.is_word(text.as_bytes()) {
            return Err(self.unexpected());
        }
        self.lexer.skip(text.len());
        Ok(())
    }
}
