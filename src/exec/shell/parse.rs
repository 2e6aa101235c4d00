//! Parses a line by recursive descent, as bash's grammar has it (bash(1), SHELL GRAMMAR), and admits or refuses it whole:
//! what is returned may run.

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

/// How far a line stands that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// It can run.
    Complete,
    /// More belongs to it: a quote is open, a here-document has no end, a backslash is the last there is.
    Open,
    /// It will not run, whatever follows.
    Refused {
        /// Whether more belongs to it all the same: the rest of a loop, say.
        open: bool,
    },
}

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
