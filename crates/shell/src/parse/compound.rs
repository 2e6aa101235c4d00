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
    pub(super) fn closes(&self, close: ListEnd) -> Result<bool, SyntaxRefusal> {
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
    pub(super) fn compound(&mut self) -> Result<bool, SyntaxRefusal> {
        let begins: [(&str, &str, CompoundReader<'l>); 9] = [
            ("if", "if: conditions are", Self::condition),
            ("while", "while: loops are", Self::loop_body),
            ("until", "until: loops are", Self::loop_body),
            ("for", "for: loops are", Self::for_loop),
            ("select", "select: loops are", Self::for_loop),
            ("case", "case: conditions are", Self::case),
            ("function", "function: functions are", Self::named_function),
            ("coproc", "coproc: job control is", |parser| {
                parser.stage().map(drop)
            }),
            ("[[", "[[: conditions are", Self::test),
        ];
        let found = begins
            .iter()
            .find(|(name, ..)| self.is_word(name.as_bytes()));
        let Some((name, what, read)) = found else {
            return Ok(false);
        };
        self.note_unsupported(what);
        self.lexer.skip(name.len());
        self.deeper(read).map(|()| true)
    }

    fn condition(&mut self) -> Result<(), SyntaxRefusal> {
        self.list_until(&["then"])?;
        loop {
            match self.list_until(&["elif", "else", "fi"])? {
                "elif" => self.list_until(&["then"])?,
                "else" => return self.list_until(&["fi"]).map(drop),
                _ => return Ok(()),
            };
        }
    }

    fn loop_body(&mut self) -> Result<(), SyntaxRefusal> {
        self.list_until(&["do"])?;
        self.list_until(&["done"]).map(drop)
    }

    /// Reads a non-empty list and the word that ends it. Returns that word.
    fn list_until(&mut self, ends: &'static [&'static str]) -> Result<&'static str, SyntaxRefusal> {
        let list = self.list(ListEnd::Words(ends))?;
        let end = ends.iter().find(|end| self.is_word(end.as_bytes()));
        let end = end.copied().unwrap_or_default();
        if list.is_empty() {
            return Err(SyntaxRefusal::unexpected(end.as_bytes()));
        }
        self.lexer.skip(end.len());
        Ok(end)
    }

    fn for_loop(&mut self) -> Result<(), SyntaxRefusal> {
        self.lexer.skip_blanks();
        if self.lexer.rest().starts_with(b"((") {
            self.skip_extent(b')')?;
        } else {
            self.operand()?;
            self.newlines()?;
            if self.is_word(b"in") {
                self.lexer.skip(2);
                self.words()?;
            }
        }
        self.lexer.skip_blanks();
        self.lexer.eat(b";");
        self.newlines()?;
        if self.is_word(b"{") {
            return self.group(ListEnd::Brace).map(drop);
        }
        self.reserved("do")?;
        self.list_until(&["done"]).map(drop)
    }

    fn case(&mut self) -> Result<(), SyntaxRefusal> {
        self.operand()?;
        self.newlines()?;
        self.reserved("in")?;
        loop {
            self.newlines()?;
            if self.is_word(b"esac") {
                self.lexer.skip(4);
                return Ok(());
            }
            self.lexer.eat(b"(");
            loop {
                self.operand()?;
                self.lexer.skip_blanks();
                if !self.lexer.eat(b"|") {
                    break;
                }
            }
            if !self.lexer.eat(b")") {
                return Err(self.unexpected());
            }
            self.list(ListEnd::Case)?;
            let ended = self.lexer.eat(b";;&") || self.lexer.eat(b";;") || self.lexer.eat(b";&");
            if !ended && !self.is_word(b"esac") {
                return Err(self.unexpected());
            }
        }
    }

    /// Reads the rest of a definition after `function`: a name, optionally `()`, and a body.
    fn named_function(&mut self) -> Result<(), SyntaxRefusal> {
        self.operand()?;
        self.lexer.skip_blanks();
        if self.lexer.eat(b"(") {
            self.lexer.skip_blanks();
            if !self.lexer.eat(b")") {
                return Err(self.unexpected());
            }
        }
        self.newlines()?;
        self.stage().map(drop)
    }

    /// Reads `()` after a name, and the function's body.
    ///
    /// # Errors
    /// Something other than `)` in the parentheses, or no name before them.
    pub(super) fn function(&mut self, name: Option<&Word>) -> Result<(), SyntaxRefusal> {
        let name = name.and_then(Word::plain);
        let mut after = self.lexer.clone();
        after.skip(1);
        after.skip_blanks();
        let Some(name) = name.filter(|_| after.eat(b")")) else {
            return Err(SyntaxRefusal::unexpected(b"("));
        };
        self.note_unsupported([&name[..], b"(): functions are"].concat());
        self.lexer = after;
        self.newlines()?;
        self.deeper(|parser| parser.stage().map(drop))
    }

    /// Reads the expression between `[[` and `]]`.
    fn test(&mut self) -> Result<(), SyntaxRefusal> {
        loop {
            self.newlines()?;
            if self.is_word(b"]]") {
                self.lexer.skip(2);
                return Ok(());
            }
            if self.lexer.peek().is_none() {
                return Err(SyntaxRefusal::early_end());
            }
            if self.word()?.0.is_empty() {
                self.lexer.skip(1);
            }
        }
    }

    /// Reads words up to the end of the line or a `;`.
    fn words(&mut self) -> Result<(), SyntaxRefusal> {
        loop {
            self.lexer.skip_blanks();
            if self.word()?.0.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads a required word.
    fn operand(&mut self) -> Result<(), SyntaxRefusal> {
        self.lexer.skip_blanks();
        if self.word()?.0.is_empty() {
            Err(self.unexpected())
        } else {
            Ok(())
        }
    }

    /// Takes a required reserved word.
    fn reserved(&mut self, text: &'static str) -> Result<(), SyntaxRefusal> {
        if !self.is_word(text.as_bytes()) {
            return Err(self.unexpected());
        }
        self.lexer.skip(text.len());
        Ok(())
    }
}
