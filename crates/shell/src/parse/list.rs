//! Lists, pipelines, groups and simple commands (bash(1), SHELL GRAMMAR).

use super::assign::names_stream;
use super::parser::{LineParser, ListEnd};
use super::redirect::fill_list;
use crate::lex::SyntaxRefusal;
use crate::syntax::{
    AndOr, AndOrOperator, CommandList, Pipeline, Redirect, RedirectTarget, Stage, StageBody,
};

/// The maximum number of stages in a pipeline.
const MAX_STAGES: usize = 10;

/// Reserved words that end something, and are errors where nothing of the kind is open.
const ENDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];

impl LineParser<'_> {
    /// Parses the whole input. Something unsupported takes precedence over errors after it.
    pub(super) fn parse(mut self) -> Result<CommandList, SyntaxRefusal> {
        let parsed = self
            .parse_list(ListEnd::Input)
            .and_then(|list| self.fill_here_documents(list));
        match self.first_unsupported.take() {
            Some(refusal) => Err(refusal),
            None => parsed,
        }
    }

    /// Parses a command substitution after its `$(`, up to its `)`.
    pub(super) fn parse_substitution(&mut self) -> Result<CommandList, SyntaxRefusal> {
        let mut inner = LineParser::new(b"", self.depth + 1)?;
        inner.lexer = self.lexer.clone();
        let list = inner.parse_list(ListEnd::Paren);
        self.first_unsupported = self
            .first_unsupported
            .take()
            .or(inner.first_unsupported.take());
        let list = list?;
        inner.lexer.skip(1);
        self.lexer = inner.lexer.clone();
        let list = inner.fill_here_documents(list);
        self.first_unsupported = self
            .first_unsupported
            .take()
            .or(inner.first_unsupported.take());
        list
    }

    /// Parses the whole input as a list.
    pub(super) fn parse_whole_list(&mut self) -> Result<CommandList, SyntaxRefusal> {
        let list = self.parse_list(ListEnd::Input)?;
        self.fill_here_documents(list)
    }

    /// Fills in the texts of here-documents.
    pub(super) fn fill_here_documents(
        &mut self,
        mut list: CommandList,
    ) -> Result<CommandList, SyntaxRefusal> {
        self.read_here_documents()?;
        let mut texts = std::mem::take(&mut self.here_texts).into_iter();
        if self.first_unsupported.is_none() {
            fill_list(&mut list, &mut texts);
        }
        Ok(list)
    }

    /// Parses pipelines up to the end of the list, which is not taken.
    pub(super) fn parse_list(&mut self, close: ListEnd) -> Result<CommandList, SyntaxRefusal> {
        let mut list = CommandList::new();
        loop {
            self.skip_newlines()?;
            if self.at_list_end(close)? {
                return Ok(list);
            }
            list.push(self.parse_and_or()?);
            self.lexer.skip_blanks();
            match self.lexer.rest() {
                [b';', b';', ..] | [b';', b'&', ..] if close == ListEnd::Case => return Ok(list),
                [b';', b';', ..] => return Err(SyntaxRefusal::unexpected(b";;")),
                [b';', ..] => self.lexer.skip(1),
                [b'&', ..] => {
                    self.note_unsupported("&: job control is");
                    self.lexer.skip(1);
                }
                [b'\n', ..] => {}
                _ if self.at_list_end(close)? => return Ok(list),
                _ => return Err(self.unexpected()),
            }
        }
    }

    pub(super) fn parse_and_or(&mut self) -> Result<AndOr, SyntaxRefusal> {
        let first = self.parse_pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.lexer.skip_blanks();
            let join = if self.lexer.eat(b"&&") {
                AndOrOperator::And
            } else if self.lexer.eat(b"||") {
                AndOrOperator::Or
            } else {
                return Ok(AndOr { first, rest });
            };
            self.skip_newlines()?;
            rest.push((join, self.parse_pipeline()?));
        }
    }

    pub(super) fn parse_pipeline(&mut self) -> Result<Pipeline, SyntaxRefusal> {
        let mut negated = false;
        self.lexer.skip_blanks();
        loop {
            if self.is_word(b"!") {
                self.lexer.skip(1);
                negated = !negated;
            } else if self.is_word(b"time") {
                self.note_unsupported("time: timing is");
                self.lexer.skip(4);
                self.lexer.skip_blanks();
                if self.is_word(b"-p") {
                    self.lexer.skip(2);
                }
            } else {
                break;
            }
            self.lexer.skip_blanks();
        }
        let mut stages = vec![self.parse_stage()?];
        loop {
            self.lexer.skip_blanks();
            match self.lexer.rest() {
                [b'|', b'|', ..] => break,
                [b'|', b'&', ..] => {
                    self.lexer.skip(2);
                    let errors_too = Redirect {
                        stream: 2,
                        target: RedirectTarget::Same(1),
                    };
                    if let Some(last) = stages.last_mut() {
                        last.redirects.push(errors_too);
                    }
                }
                [b'|', ..] => self.lexer.skip(1),
                _ => break,
            }
            self.skip_newlines()?;
            stages.push(self.parse_stage()?);
        }
        if stages.len() > MAX_STAGES {
            self.first_unsupported.get_or_insert_with(|| {
                SyntaxRefusal::final_refusal(format!("pipe depth exceeded (max {MAX_STAGES})"))
            });
        }
        Ok(Pipeline { negated, stages })
    }

    pub(super) fn parse_stage(&mut self) -> Result<Stage, SyntaxRefusal> {
        self.lexer.skip_blanks();
        let body = match self.lexer.rest() {
            [b'(', b'(', ..] => {
                self.note_unsupported("((: arithmetic is");
                self.skip_extent(b')')?;
                StageBody::Group(CommandList::new())
            }
            [b'(', ..] => StageBody::Subshell(self.parse_group(ListEnd::Paren)?),
            _ if self.is_word(b"{") => StageBody::Group(self.parse_group(ListEnd::Brace)?),
            _ if self.skip_compound()? => StageBody::Group(CommandList::new()),
            _ => return self.parse_simple_command(),
        };
        let mut redirects = Vec::new();
        loop {
            self.lexer.skip_blanks();
            if !self.parse_redirect(&mut redirects)? {
                return Ok(Stage { body, redirects });
            }
        }
    }

    /// Parses a list between one-byte delimiters.
    pub(super) fn parse_group(&mut self, close: ListEnd) -> Result<CommandList, SyntaxRefusal> {
        let list = self.nested(|parser| {
            parser.lexer.skip(1);
            parser.parse_list(close)
        })?;
        if list.is_empty() {
            let mark: &[u8] = if close == ListEnd::Brace { b"}" } else { b")" };
            return Err(SyntaxRefusal::unexpected(mark));
        }
        self.lexer.skip(1);
        Ok(list)
    }

    pub(super) fn parse_simple_command(&mut self) -> Result<Stage, SyntaxRefusal> {
        let (mut assignments, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.lexer.skip_blanks();
            if self.parse_redirect(&mut redirects)? {
                continue;
            }
            let word = self.parse_word()?;
            if word.0.is_empty() {
                break;
            }
            if words.is_empty() {
                if let Some(assignment) = self.split_assignment(&word)? {
                    assignments.push(assignment);
                    continue;
                }
                let first = assignments.is_empty() && redirects.is_empty();
                if let Some(text) = word.plain().filter(|_| first)
                    && ENDS.iter().any(|end| end.as_bytes() == text)
                {
                    return Err(SyntaxRefusal::unexpected(&text));
                }
            }
            if names_stream(&word) && matches!(self.lexer.peek(), Some(b'<' | b'>')) {
                self.note_unsupported("{NAME}: streams by the name of a variable are");
            }
            words.push(word);
            self.lexer.skip_blanks();
            if self.lexer.rest().starts_with(b"(") {
                let alone = words.len() == 1 && assignments.is_empty() && redirects.is_empty();
                self.skip_function(words.first().filter(|_| alone))?;
                break;
            }
        }
        if words.is_empty() && assignments.is_empty() && redirects.is_empty() {
            return Err(self.unexpected());
        }
        let body = StageBody::Simple { assignments, words };
        Ok(Stage { body, redirects })
    }

    /// Skips newlines. After the first one, the texts of here-documents are read.
    pub(super) fn skip_newlines(&mut self) -> Result<(), SyntaxRefusal> {
        loop {
            self.lexer.skip_blanks();
            if !self.lexer.eat(b"\n") {
                return Ok(());
            }
            self.read_here_documents()?;
        }
    }
}
