//! Parsing: recursive descent along bash's grammar (bash(1), SHELL GRAMMAR). A line is parsed or refused as a whole.

mod assign;
mod compound;
mod extent;
mod list;
mod parser;
mod redirect;
mod word;

use super::lex::SyntaxRefusal;
use super::syntax::CommandList;
use parser::{LineParser, ListEnd};

/// The completeness of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputState {
    /// The input can run.
    Complete,
    /// The input needs more lines: a quote is open, a here-document lacks its end, the last byte is a backslash.
    Open,
    /// The input will not run, even with more lines.
    Refused {
        /// True if the input still needs more lines: the rest of a loop, for example.
        open: bool,
    },
}

/// Parses a line.
///
/// # Errors
/// A syntax error, or something unsupported.
pub(super) fn parse(line: &[u8]) -> Result<CommandList, SyntaxRefusal> {
    LineParser::new(line, 0)?.parse()
}

/// Returns the completeness of the input.
pub(super) fn input_state(line: &[u8]) -> InputState {
    let mut parser = match LineParser::new(line, 0) {
        Ok(parser) => parser,
        Err(_) => return InputState::Refused { open: false },
    };
    let parsed = parser
        .parse_list(ListEnd::Input)
        .and_then(|_| parser.read_here_documents())
        .map(|()| parser.lacks_here_doc_end || parser.lexer.is_continued());
    match (parsed, parser.first_unsupported.is_some()) {
        (Ok(open), true) => InputState::Refused { open },
        (Err(refusal), true) => InputState::Refused {
            open: refusal.may_continue,
        },
        (Err(refusal), false) if !refusal.may_continue => InputState::Refused { open: false },
        (Ok(true) | Err(_), false) => InputState::Open,
        (Ok(false), false) => InputState::Complete,
    }
}
