//! Parses a line by recursive descent, as bash's grammar has it (bash(1), SHELL GRAMMAR), and admits or refuses it whole:
//! what is returned may run.

mod redirect;

use redirect::{Awaited, fill};

use super::lex::{Lexer, Refusal, ends_word, name_length, word};
use super::syntax::{AndOr, Atom, Join, List, Pipeline, Redirect, Stage, Target, What, Word};

/// How many stages a pipeline may have.
const MOST_STAGES: usize = 10;
/// How deep groups and substitutions may be in each other; deeper ones would use up the stack.
const DEEPEST: usize = 50;

/// Words that begin or end what this shell does not have, where a command could stand.
const KEYWORDS: &[(&str, &str)] = &[
    ("if", "if: conditions are"),
    ("then", ""),
    ("elif", ""),
    ("else", ""),
    ("fi", ""),
    ("for", "for: loops are"),
    ("while", "while: loops are"),
    ("until", "until: loops are"),
    ("do", ""),
    ("done", ""),
    ("case", "case: conditions are"),
    ("esac", ""),
    ("select", "select: loops are"),
    ("function", "function: functions are"),
    ("coproc", "coproc: job control is"),
    ("time", "time: timing is"),
    ("[[", "[[: conditions are"),
    ("}", ""),
];

/// Parses a line.
///
/// # Errors
/// What is wrong with it, or what of it is not supported.
pub(super) fn parse(line: &[u8]) -> Result<List, Refusal> {
    Parser::new(line, 0)?.whole()
}

/// Returns whether more has to be typed before the line can run.
pub(super) fn goes_on(line: &[u8]) -> bool {
    let parsed = Parser::new(line, 0).and_then(|mut parser| {
        parser.list(None)?;
        parser.here_documents()?;
        Ok(parser.unended)
    });
    parsed.unwrap_or_else(|refusal| refusal.may_go_on)
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
        })
    }

    /// Parses all there is.
    pub(super) fn whole(mut self) -> Result<List, Refusal> {
        let list = self.list(None)?;
        self.filled(list)
    }

    /// Parses what follows `$(`, up to its `)`.
    pub(super) fn substitution(&mut self) -> Result<List, Refusal> {
        let mut inner = Parser::new(b"", self.depth + 1)?;
        inner.lexer = self.lexer.clone();
        let list = inner.list(Some(b')'))?;
        inner.lexer.skip(1);
        self.lexer = inner.lexer.clone();
        inner.filled(list)
    }

    /// Puts the texts of here-documents where they belong.
    fn filled(mut self, mut list: List) -> Result<List, Refusal> {
        self.here_documents()?;
        let mut texts = std::mem::take(&mut self.texts).into_iter();
        fill(&mut list, &mut texts);
        Ok(list)
    }

    /// Parses pipelines up to the end or to the mark that closes the group; the mark is not taken.
    fn list(&mut self, close: Option<u8>) -> Result<List, Refusal> {
        let mut list = List::new();
        loop {
            self.newlines()?;
            if self.closes(close)? {
                return Ok(list);
            }
            list.push(self.and_or()?);
            self.lexer.blanks();
            match self.lexer.rest() {
                [b';', b';', ..] => return Err(Refusal::unexpected(b";;")),
                [b';', ..] => self.lexer.skip(1),
                [b'&', ..] => return Err(Refusal::unsupported("&: job control is")),
                [b'\n', ..] => {}
                _ if self.closes(close)? => return Ok(list),
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn closes(&self, close: Option<u8>) -> Result<bool, Refusal> {
        match (self.lexer.peek(), close) {
            (None, None) => Ok(true),
            (None, Some(b')')) => Err(Refusal::unclosed(b')')),
            (None, Some(_)) => Err(Refusal::early_end()),
            (Some(b'}'), Some(b'}')) => Ok(self.is_word(b"}")),
            (Some(byte), Some(close)) => Ok(byte == close),
            (Some(_), None) => Ok(false),
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
        while self.is_word(b"!") {
            self.lexer.skip(1);
            self.lexer.blanks();
            negated = !negated;
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
            return Err(Refusal::told(format!(
                "pipe depth exceeded (max {MOST_STAGES})"
            )));
        }
        Ok(Pipeline { negated, stages })
    }

    fn stage(&mut self) -> Result<Stage, Refusal> {
        self.lexer.blanks();
        let what = match self.lexer.rest() {
            [b'(', b'(', ..] => return Err(Refusal::unsupported("((: arithmetic is")),
            [b'(', ..] => What::Subshell(self.group(b')')?),
            _ if self.is_word(b"{") => What::Group(self.group(b'}')?),
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

    fn group(&mut self, close: u8) -> Result<List, Refusal> {
        self.depth += 1;
        if self.depth > DEEPEST {
            // Says the same as a substitution that is too deep.
            Parser::new(b"", self.depth)?;
        }
        self.lexer.skip(1);
        let list = self.list(Some(close))?;
        if list.is_empty() {
            return Err(Refusal::unexpected(&[close]));
        }
        self.lexer.skip(1);
        self.depth -= 1;
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
                if let Some(assignment) = assignment(&word)? {
                    assignments.push(assignment);
                    continue;
                }
                self.keyword(&word, assignments.is_empty() && redirects.is_empty())?;
            }
            words.push(word);
            if words.len() == 1 && self.lexer.rest().starts_with(b"(") {
                return Err(self.function(words.first()));
            }
        }
        if words.is_empty() && assignments.is_empty() && redirects.is_empty() {
            return Err(self.unexpected());
        }
        let what = What::Simple { assignments, words };
        Ok(Stage { what, redirects })
    }

    fn function(&self, name: Option<&Word>) -> Refusal {
        let after = self
            .lexer
            .rest()
            .get(1..)
            .unwrap_or_default()
            .trim_ascii_start();
        match name.and_then(Word::plain) {
            Some(name) if after.starts_with(b")") => {
                Refusal::unsupported([&name[..], b"(): functions are"].concat())
            }
            _ => Refusal::unexpected(b"("),
        }
    }

    fn keyword(&self, word: &Word, first: bool) -> Result<(), Refusal> {
        let Some(text) = word.plain().filter(|_| first) else {
            return Ok(());
        };
        match KEYWORDS
            .iter()
            .find(|(keyword, _)| keyword.as_bytes() == text)
        {
            Some((_, "")) => Err(Refusal::unexpected(&text)),
            Some((_, what)) => Err(Refusal::unsupported(what)),
            None => Ok(()),
        }
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

/// Takes a word apart that is an assignment.
fn assignment(word: &Word) -> Result<Option<(Vec<u8>, Word)>, Refusal> {
    let equals = word.0.iter().position(|atom| *atom == Atom::Plain(b'='));
    let Some(equals) = equals else {
        return Ok(None);
    };
    let (name, value) = word.0.split_at(equals);
    let Some(name) = Word(name.to_vec()).plain() else {
        return Ok(None);
    };
    let bare = name.strip_suffix(b"+").unwrap_or(&name);
    if bare.is_empty() || name_length(bare) != bare.len() {
        return Ok(None);
    }
    if bare.len() != name.len() {
        return Err(Refusal::unsupported(
            [&name[..], b"=: appending to a variable is"].concat(),
        ));
    }
    if name == b"IFS" {
        return Err(Refusal::unsupported(
            "IFS: splitting at anything but blanks is",
        ));
    }
    let value = value.get(1..).unwrap_or_default().to_vec();
    if value.is_empty() || !matches!(value.first(), Some(Atom::Plain(b'('))) {
        return Ok(Some((name, Word(value))));
    }
    Ok(None)
}
