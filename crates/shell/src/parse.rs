//! Parsing: recursive descent along bash's grammar (bash(1), SHELL GRAMMAR). A line is parsed or refused as a whole.

mod assign;
mod compound;
mod extent;
mod list;
mod parser;
mod redirect;
mod word;

use super::lex::Refusal;
use super::syntax::List;
use parser::{Close, Parser};

/// How complete the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// It can run.
    Complete,
    /// It needs more lines: a quote is open, a here-document has no end, the last byte is a backslash.
    Open,
    /// It will not run, whatever follows.
    Refused {
        /// Whether it still needs more lines: the rest of a loop, for example.
        open: bool,
    },
}

/// Parses a line.
///
/// # Errors
/// A syntax error, or something unsupported.
pub(super) fn parse(line: &[u8]) -> Result<List, Refusal> {
    Parser::new(line, 0)?.whole()
}

/// Returns how complete the input is.
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
