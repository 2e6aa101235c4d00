//! [`LineParser`]: the state of parsing a line, and the operations that all parts of the grammar need. The parts are
//! methods in files of their own, which depend on this file and not on each other.

use crate::lex::{Lexer, SyntaxRefusal, ends_word};
use crate::syntax::Word;

/// The maximum nesting of groups and substitutions; deeper ones could exhaust the stack.
const MAX_DEPTH: usize = 50;

/// The end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListEnd {
    /// The end of the input.
    Input,
    /// `)`
    Paren,
    /// `}`
    Brace,
    /// `;;`, `;&`, `;;&` or `esac`.
    Case,
    /// Any of some reserved words.
    Words(&'static [&'static str]),
}

/// A here-document whose text has not been read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingHereDoc {
    pub(super) end: Vec<u8>,
    pub(super) tabs_stripped: bool,
    pub(super) quoted: bool,
}

/// The state of parsing a line into a [`CommandList`](crate::syntax::List).
#[derive(Debug)]
pub(crate) struct LineParser<'l> {
    pub(super) lexer: Lexer<'l>,
    pub(super) depth: usize,
    pub(super) pending_here_docs: Vec<PendingHereDoc>,
    pub(super) here_texts: Vec<Word>,
    /// True if the end of a here-document is missing.
    pub(super) lacks_here_doc_end: bool,
    /// The first unsupported syntax. Parsing goes on, to find its end.
    pub(super) first_unsupported: Option<SyntaxRefusal>,
}

impl<'l> LineParser<'l> {
    /// Begins to parse something nested `depth` levels deep.
    pub(super) fn new(line: &'l [u8], depth: usize) -> Result<LineParser<'l>, SyntaxRefusal> {
        if depth > MAX_DEPTH {
            return Err(SyntaxRefusal::final_refusal(
                "bash: groups and substitutions are nested too deeply",
            ));
        }
        if line.contains(&0) {
            return Err(SyntaxRefusal::final_refusal(
                "bash: a line cannot hold a NUL byte",
            ));
        }
        Ok(LineParser {
            lexer: Lexer::new(line),
            depth,
            pending_here_docs: Vec::new(),
            here_texts: Vec::new(),
            lacks_here_doc_end: false,
            first_unsupported: None,
        })
    }

    /// Notes unsupported syntax, and goes on.
    pub(super) fn note_unsupported(&mut self, what: impl AsRef<[u8]>) {
        self.first_unsupported
            .get_or_insert_with(|| SyntaxRefusal::unsupported(what));
    }

    /// Parses a text cut out of the line as a whole: later input cannot continue it.
    pub(super) fn parse_inner<T>(
        &mut self,
        text: &[u8],
        parse: impl FnOnce(&mut LineParser<'_>) -> Result<T, SyntaxRefusal>,
    ) -> Result<T, SyntaxRefusal> {
        let mut inner = LineParser::new(text, self.depth + 1)?;
        let parsed = parse(&mut inner);
        self.first_unsupported = self
            .first_unsupported
            .take()
            .or(inner.first_unsupported.take());
        parsed.map_err(|refusal| SyntaxRefusal {
            may_continue: false,
            ..refusal
        })
    }

    /// Counts a level of nesting while `parse` runs.
    pub(super) fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, SyntaxRefusal>,
    ) -> Result<T, SyntaxRefusal> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            // Reports the same error as for a substitution that is too deep.
            LineParser::new(b"", self.depth)?;
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Returns whether a reserved word is next.
    pub(super) fn is_word(&self, text: &[u8]) -> bool {
        let after = self.lexer.rest().strip_prefix(text);
        after.is_some_and(|after| after.first().is_none_or(|byte| ends_word(*byte)))
    }

    /// Returns the refusal of the next token.
    pub(super) fn unexpected(&self) -> SyntaxRefusal {
        let rest = self.lexer.rest();
        let token: &[u8] = match rest {
            [] => return SyntaxRefusal::early_end(),
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
        SyntaxRefusal::unexpected(token)
    }
}
