//! Parses a line by recursive descent, as bash's grammar has it (bash(1), SHELL GRAMMAR), and admits or refuses it whole:
//! what is returned may run.

mod assign;
mod compound;
mod extent;
mod redirect;

use assign::names_stream;
pub(super) use compound::Close;
use redirect::{Awaited, fill};

use super::Stand;
use super::lex::{Lexer, Refusal, ends_word, word};
use super::syntax::{AndOr, Join, List, Pipeline, Redirect, Stage, Target, What, Word};

/// How many stages a pipeline may have.
const MOST_STAGES: usize = 10;
/// How deep groups and substitutions may be in each other; deeper ones would use up the stack.
const DEEPEST: usize = 50;

/// Words that end something, where a command could stand and nothing of the kind is open.
const ENDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];

/// Parses a line.
///
/// # Errors
/// What is wrong with it, or what of it is not supported.
pub(super) fn parse(line: &[u8]) -> Result<List, Refusal> {
    Parser::new(line, 0)?.whole()
}

/// Says how far what was read so far stands.
pub(super) fn stand(line: &[u8]) -> Stand {
    let mut parser = match Parser::new(line, 0) {
        Ok(parser) => parser,
        Err(_) => return Stand::Refused { open: false },
    };
    let parsed = parser
        .list(Close::Input)
        .and_then(|_| parser.here_documents())
        .map(|()| parser.unended || parser.lexer.is_continued());
    match (parsed, parser.noted.is_some()) {
        (Ok(open), true) => Stand::Refused { open },
        (Err(refusal), true) => Stand::Refused {
            open: refusal.may_go_on,
        },
        (Err(refusal), false) if !refusal.may_go_on => Stand::Refused { open: false },
        (Ok(true) | Err(_), false) => Stand::Open,
        (Ok(false), false) => Stand::Complete,
    }
}

/// A line on its way to a [`List`].
#[derive(Debug)]
pub(super) struct Parser<'l> {
    pub(super) lexer: Lexer<'l>,
    pub(super) depth: usize,
    awaited: Vec<Awaited>,
    texts: Vec<Word>,
    /// Whether the end of a here-document has not come.
    unended: bool,
    /// What was met first that bash has and this shell has not. Parsing goes on, to find where that ends.
    noted: Option<Refusal>,
}

impl<'l> Parser<'l> {
    /// Begins to parse something that stands in `depth` others.
    pub(super) fn new(line: &'l [u8], depth: usize) -> Result<Parser<'l>, Refusal> {
        if depth > DEEPEST {
            return Err(Refusal::told(
                "bash: groups and substitutions are nested too deeply",
            ));
        }
        if line.contains(&0) {
            return Err(Refusal::told("bash: a line cannot hold a NUL byte"));
        }
        Ok(Parser {
            lexer: Lexer::new(line),
            depth,
            awaited: Vec::new(),
            texts: Vec::new(),
            unended: false,
            noted: None,
        })
    }

    /// Notes that something is not supported, and goes on.
    pub(super) fn note(&mut self, what: impl AsRef<[u8]>) {
        self.noted.get_or_insert_with(|| Refusal::unsupported(what));
    }

    /// Parses all there is. What is not supported is told before what is wrong after it.
    pub(super) fn whole(mut self) -> Result<List, Refusal> {
        let parsed = self.list(Close::Input).and_then(|list| self.filled(list));
        match self.noted.take() {
            Some(refusal) => Err(refusal),
            None => parsed,
        }
    }

    /// Parses what follows `$(`, up to its `)`.
    pub(super) fn substitution(&mut self) -> Result<List, Refusal> {
        let mut inner = Parser::new(b"", self.depth + 1)?;
        inner.lexer = self.lexer.clone();
        let list = inner.list(Close::Paren);
        self.noted = self.noted.take().or(inner.noted.take());
        let list = list?;
        inner.lexer.skip(1);
        self.lexer = inner.lexer.clone();
        let list = inner.filled(list);
        self.noted = self.noted.take().or(inner.noted.take());
        list
    }

    /// Parses what was cut out of the line whole: nothing that is typed after the line belongs to it.
    pub(super) fn apart<T>(
        &mut self,
        text: &[u8],
        parse: impl FnOnce(&mut Parser<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut inner = Parser::new(text, self.depth + 1)?;
        let parsed = parse(&mut inner);
        self.noted = self.noted.take().or(inner.noted.take());
        parsed.map_err(|refusal| Refusal {
            may_go_on: false,
            ..refusal
        })
    }

    /// Parses a list that is all there is.
    pub(super) fn alone(&mut self) -> Result<List, Refusal> {
        let list = self.list(Close::Input)?;
        self.filled(list)
    }

    /// Puts the texts of here-documents where they belong.
    fn filled(&mut self, mut list: List) -> Result<List, Refusal> {
        self.here_documents()?;
        let mut texts = std::mem::take(&mut self.texts).into_iter();
        if self.noted.is_none() {
            fill(&mut list, &mut texts);
        }
        Ok(list)
    }

    /// Parses pipelines up to what closes the list, which is not taken.
    fn list(&mut self, close: Close) -> Result<List, Refusal> {
        let mut list = List::new();
        loop {
            self.newlines()?;
            if self.closes(close)? {
                return Ok(list);
            }
            list.push(self.and_or()?);
            self.lexer.blanks();
            match self.lexer.rest() {
                [b';', b';', ..] | [b';', b'&', ..] if close == Close::Case => return Ok(list),
                [b';', b';', ..] => return Err(Refusal::unexpected(b";;")),
                [b';', ..] => self.lexer.skip(1),
                [b'&', ..] => {
                    self.note("&: job control is");
                    self.lexer.skip(1);
                }
                [b'\n', ..] => {}
                _ if self.closes(close)? => return Ok(list),
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn and_or(&mut self) -> Result<AndOr, Refusal> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.lexer.blanks();
            let join = if self.lexer.eat(b"&&") {
                Join::And
            } else if self.lexer.eat(b"||") {
                Join::Or
            } else {
                return Ok(AndOr { first, rest });
            };
            self.newlines()?;
            rest.push((join, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, Refusal> {
        let mut negated = false;
        self.lexer.blanks();
        loop {
            if self.is_word(b"!") {
                self.lexer.skip(1);
                negated = !negated;
            } else if self.is_word(b"time") {
                self.note("time: timing is");
                self.lexer.skip(4);
                self.lexer.blanks();
                if self.is_word(b"-p") {
                    self.lexer.skip(2);
                }
            } else {
                break;
            }
            self.lexer.blanks();
        }
        let mut stages = vec![self.stage()?];
        loop {
            self.lexer.blanks();
            match self.lexer.rest() {
                [b'|', b'|', ..] => break,
                [b'|', b'&', ..] => {
                    self.lexer.skip(2);
                    let errors_too = Redirect {
                        stream: 2,
                        to: Target::Same(1),
                    };
                    if let Some(last) = stages.last_mut() {
                        last.redirects.push(errors_too);
                    }
                }
                [b'|', ..] => self.lexer.skip(1),
                _ => break,
            }
            self.newlines()?;
            stages.push(self.stage()?);
        }
        if stages.len() > MOST_STAGES {
            self.noted.get_or_insert_with(|| {
                Refusal::told(format!("pipe depth exceeded (max {MOST_STAGES})"))
            });
        }
        Ok(Pipeline { negated, stages })
    }

    fn stage(&mut self) -> Result<Stage, Refusal> {
        self.lexer.blanks();
        let what = match self.lexer.rest() {
            [b'(', b'(', ..] => {
                self.note("((: arithmetic is");
                self.extent(b')')?;
                What::Group(List::new())
            }
            [b'(', ..] => What::Subshell(self.group(Close::Paren)?),
            _ if self.is_word(b"{") => What::Group(self.group(Close::Brace)?),
            _ if self.compound()? => What::Group(List::new()),
            _ => return self.simple(),
        };
        let mut redirects = Vec::new();
        loop {
            self.lexer.blanks();
            if !self.redirect(&mut redirects)? {
                return Ok(Stage { what, redirects });
            }
        }
    }

    /// Counts a level, while something nested in this is parsed.
    pub(super) fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.depth += 1;
        if self.depth > DEEPEST {
            // Says the same as a substitution that is too deep.
            Parser::new(b"", self.depth)?;
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Parses a list between marks of one byte.
    fn group(&mut self, close: Close) -> Result<List, Refusal> {
        let list = self.deeper(|parser| {
            parser.lexer.skip(1);
            parser.list(close)
        })?;
        if list.is_empty() {
            let mark: &[u8] = if close == Close::Brace { b"}" } else { b")" };
            return Err(Refusal::unexpected(mark));
        }
        self.lexer.skip(1);
        Ok(list)
    }

    fn simple(&mut self) -> Result<Stage, Refusal> {
        let (mut assignments, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.lexer.blanks();
            if self.redirect(&mut redirects)? {
                continue;
            }
            let word = word(self)?;
            if word.0.is_empty() {
                break;
            }
            if words.is_empty() {
                if let Some(assignment) = self.assignment(&word)? {
                    assignments.push(assignment);
                    continue;
                }
                let first = assignments.is_empty() && redirects.is_empty();
                if let Some(text) = word.plain().filter(|_| first)
                    && ENDS.iter().any(|end| end.as_bytes() == text)
                {
                    return Err(Refusal::unexpected(&text));
                }
            }
            if names_stream(&word) && matches!(self.lexer.peek(), Some(b'<' | b'>')) {
                self.note("{NAME}: streams by the name of a variable are");
            }
            words.push(word);
            self.lexer.blanks();
            if self.lexer.rest().starts_with(b"(") {
                let alone = words.len() == 1 && assignments.is_empty() && redirects.is_empty();
                self.function(words.first().filter(|_| alone))?;
                break;
            }
        }
        if words.is_empty() && assignments.is_empty() && redirects.is_empty() {
            return Err(self.unexpected());
        }
        let what = What::Simple { assignments, words };
        Ok(Stage { what, redirects })
    }

    /// Goes over line ends. After the first one come the texts of here-documents.
    fn newlines(&mut self) -> Result<(), Refusal> {
        loop {
            self.lexer.blanks();
            if !self.lexer.eat(b"\n") {
                return Ok(());
            }
            self.here_documents()?;
        }
    }

    /// Returns whether a reserved word comes next.
    fn is_word(&self, text: &[u8]) -> bool {
        let after = self.lexer.rest().strip_prefix(text);
        after.is_some_and(|after| after.first().is_none_or(|byte| ends_word(*byte)))
    }

    /// Says that what comes next cannot stand here.
    fn unexpected(&self) -> Refusal {
        let rest = self.lexer.rest();
        let token: &[u8] = match rest {
            [] => return Refusal::early_end(),
            [b'\n', ..] => b"newline",
            [a, b, ..] if a == b && matches!(a, b'|' | b'&' | b';' | b'<' | b'>') => {
                rest.get(..2).unwrap_or_default()
            }
            [first, ..] if ends_word(*first) => rest.get(..1).unwrap_or_default(),
            rest => {
                let end = rest
                    .iter()
                    .position(|b| ends_word(*b))
                    .unwrap_or(rest.len());
                rest.get(..end).unwrap_or_default()
            }
        };
        Refusal::unexpected(token)
    }
}
