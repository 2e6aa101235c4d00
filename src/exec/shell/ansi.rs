//! `$'…'`: quotes in which a backslash begins an escape as in C (bash(1), QUOTING).

use super::lex::{Lexer, Refusal};
use super::syntax::{Atom, Word};

/// Reads up to the closing quote.
///
/// # Errors
/// Where there is none.
pub(super) fn quoted(lexer: &mut Lexer<'_>, word: &mut Word) -> Result<(), Refusal> {
    let start = word.0.len();
    // A NUL ends the text, as it does in bash.
    let mut ended = false;
    loop {
        let Some(byte) = lexer.take() else {
            return Err(Refusal::unclosed(b'\''));
        };
        let bytes = match byte {
            b'\'' => break,
            b'\\' => escape(lexer)?,
            byte => vec![byte],
        };
        for byte in bytes {
            ended |= byte == 0;
            if !ended {
                word.0.push(Atom::Quoted(byte));
            }
        }
    }
    if word.0.len() == start {
        word.0.push(Atom::Nothing);
    }
    Ok(())
}

fn escape(lexer: &mut Lexer<'_>) -> Result<Vec<u8>, Refusal> {
    let Some(byte) = lexer.take() else {
        return Err(Refusal::unclosed(b'\''));
    };
    Ok(vec![match byte {
        b'a' => 7,
        b'b' => 8,
        b'e' | b'E' => 27,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' | b'\'' | b'"' | b'?' => byte,
        b'x' => match digits(lexer, 0, 16, 2) {
            (_, 0) => return Ok(b"\\x".to_vec()),
            (code, _) => low_byte(code),
        },
        b'u' | b'U' => {
            let most = if byte == b'u' { 4 } else { 8 };
            return Ok(match digits(lexer, 0, 16, most) {
                (_, 0) => vec![b'\\', byte],
                (code, _) => char::from_u32(code)
                    .unwrap_or(char::REPLACEMENT_CHARACTER)
                    .to_string()
                    .into_bytes(),
            });
        }
        b'0'..=b'7' => low_byte(digits(lexer, u32::from(byte - b'0'), 8, 2).0),
        b'c' => match lexer.take() {
            Some(byte) => byte.to_ascii_uppercase() ^ 64,
            None => return Err(Refusal::unclosed(b'\'')),
        },
        byte => return Ok(vec![b'\\', byte]),
    }])
}

fn low_byte(code: u32) -> u8 {
    let [low, ..] = code.to_le_bytes();
    low
}

/// Reads at most so many digits after those that make up `value`. Returns the value and how many were read.
fn digits(lexer: &mut Lexer<'_>, mut value: u32, base: u32, most: usize) -> (u32, usize) {
    let mut read = 0;
    while read < most
        && let Some(digit) = lexer
            .peek()
            .and_then(|byte| char::from(byte).to_digit(base))
    {
        value = value * base + digit;
        lexer.skip(1);
        read += 1;
    }
    (value, read)
}
