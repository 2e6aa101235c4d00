//! `$'…'` quotes, in which a backslash begins an escape as in C (bash(1), QUOTING).

use super::escape::{self, low_byte, number};
use super::lex::{Lexer, SyntaxRefusal};
use super::syntax::{Word, WordAtom};

/// Parses up to the closing quote.
///
/// # Errors
/// A missing closing quote.
pub(super) fn parse_quotes(lexer: &mut Lexer<'_>, word: &mut Word) -> Result<(), SyntaxRefusal> {
    let start = word.0.len();
    // A NUL ends the text, as in bash.
    let mut ended = false;
    loop {
        let Some(byte) = lexer.take() else {
            return Err(SyntaxRefusal::unclosed(b'\''));
        };
        let bytes = match byte {
            b'\'' => break,
            b'\\' => parse_escape(lexer)?,
            byte => vec![byte],
        };
        for byte in bytes {
            ended |= byte == 0;
            if !ended {
                word.0.push(WordAtom::Quoted(byte));
            }
        }
    }
    if word.0.len() == start {
        word.0.push(WordAtom::Nothing);
    }
    Ok(())
}

fn parse_escape(lexer: &mut Lexer<'_>) -> Result<Vec<u8>, SyntaxRefusal> {
    let Some((letter, after)) = lexer.rest().split_first() else {
        return Err(SyntaxRefusal::unclosed(b'\''));
    };
    let (meant, rest) = match (letter, after) {
        (b'\'' | b'"' | b'?', after) => (vec![*letter], after),
        (b'0'..=b'7', _) => number(lexer.rest(), 8, 3)
            .map_or((Vec::new(), after), |(value, rest)| {
                (vec![low_byte(value)], rest)
            }),
        (b'c', [control, rest @ ..]) => (vec![control.to_ascii_uppercase() ^ 64], rest),
        (b'c', []) => return Err(SyntaxRefusal::unclosed(b'\'')),
        (letter, after) => {
            escape::decode_escape(*letter, after).unwrap_or_else(|| (vec![b'\\', *letter], after))
        }
    };
    lexer.skip(lexer.rest().len() - rest.len());
    Ok(meant)
}
