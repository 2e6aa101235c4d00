//! Classes and escapes of Perl's expressions, in the C locale.

use regex_syntax::hir::ClassBytes;

use super::byte_set::{byte_class, is_space_byte, is_word_byte};
use super::refusal::PatternError;
use crate::pattern::class_of;

const UNMATCHED: PatternError =
    PatternError::Malformed("missing terminating ] for character class");
const TOO_LARGE: PatternError = PatternError::Malformed("character code point value is too large");

/// The meaning of an escape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PerlEscape {
    Byte(u8),
    Set(ClassBytes),
}

/// Parses an escape, inside or outside a class, after its backslash. Returns the text after it.
///
/// # Errors
/// A malformed escape, in PCRE's words; an unsupported one.
pub(super) fn parse_escape(text: &[u8]) -> Result<(PerlEscape, &[u8]), PatternError> {
    let Some((byte, rest)) = text.split_first() else {
        return Err(PatternError::Malformed("\\ at end of pattern"));
    };
    let set = |has: &dyn Fn(u8) -> bool| PerlEscape::Set(byte_class(has));
    let horizontal = |b: u8| matches!(b, b'\t' | b' ' | 0xa0);
    let vertical = |b: u8| matches!(b, b'\n'..=b'\r' | 0x85);
    let escape = match byte {
        b'd' => set(&|b| b.is_ascii_digit()),
        b'D' => set(&|b| !b.is_ascii_digit()),
        b'w' => set(&is_word_byte),
        b'W' => set(&|b| !is_word_byte(b)),
        b's' => set(&is_space_byte),
        b'S' => set(&|b| !is_space_byte(b)),
        b'h' => set(&horizontal),
        b'H' => set(&|b| !horizontal(b)),
        b'v' => set(&vertical),
        b'V' => set(&|b| !vertical(b)),
        b'a' => PerlEscape::Byte(0x07),
        b'e' => PerlEscape::Byte(0x1b),
        b'f' => PerlEscape::Byte(0x0c),
        b'n' => PerlEscape::Byte(b'\n'),
        b'r' => PerlEscape::Byte(b'\r'),
        b't' => PerlEscape::Byte(b'\t'),
        b'x' => return parse_hexadecimal(rest),
        b'0' => {
            let digits = rest.iter().take_while(|b| matches!(b, b'0'..=b'7'));
            let (digits, rest) = rest.split_at(digits.count().min(2));
            return Ok((PerlEscape::Byte(number(digits, 8)?), rest));
        }
        b'c' => match rest.split_first() {
            Some((control @ b' '..=b'~', rest)) => {
                return Ok((PerlEscape::Byte(control.to_ascii_uppercase() ^ 0x40), rest));
            }
            _ => {
                return Err(PatternError::Malformed(
                    "\\c must be followed by a character",
                ));
            }
        },
        byte if !byte.is_ascii_alphanumeric() => PerlEscape::Byte(*byte),
        byte => return Err(unsupported_escape(*byte)),
    };
    Ok((escape, rest))
}

/// Returns the error for an escape without a meaning here.
fn unsupported_escape(byte: u8) -> PatternError {
    let what = match byte {
        b'1'..=b'9' => "a back-reference, \\1,",
        b'g' | b'k' => "a back-reference, \\g or \\k,",
        b'K' => "\\K",
        b'G' => "\\G",
        b'R' => "\\R",
        b'X' => "\\X",
        b'C' => "\\C",
        b'N' => "\\N",
        b'o' => "\\o",
        b'p' | b'P' => "a Unicode property, \\p or \\P,",
        b'Q' | b'E' => "\\Q in a class",
        b'A' | b'B' | b'Z' | b'z' => "an assertion in a class",
        _ => return PatternError::Malformed("unrecognized character follows \\"),
    };
    PatternError::Unsupported(what)
}

fn parse_hexadecimal(text: &[u8]) -> Result<(PerlEscape, &[u8]), PatternError> {
    let count = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if let Some(braced) = text.strip_prefix(b"{") {
        let (digits, rest) = braced.split_at(count(braced));
        let rest = rest.strip_prefix(b"}").filter(|_| !digits.is_empty());
        let rest = rest.ok_or(PatternError::Unsupported("\\x{…} without plain digits"))?;
        return Ok((PerlEscape::Byte(number(digits, 16)?), rest));
    }
    let (digits, rest) = text.split_at(count(text).min(2));
    Ok((PerlEscape::Byte(number(digits, 16)?), rest))
}

/// Returns the byte that digits stand for; none stand for zero.
fn number(digits: &[u8], base: u32) -> Result<u8, PatternError> {
    let digits = digits.iter().map(|b| char::from(*b).to_digit(base));
    let value = digits.fold(0u32, |value, digit| {
        value
            .saturating_mul(base)
            .saturating_add(digit.unwrap_or_default())
    });
    u8::try_from(value).map_err(|_| TOO_LARGE)
}

/// Parses a class after its `[`. Returns the set and the text after the `]`.
///
/// # Errors
/// A malformed class, in PCRE's words; an unsupported one.
pub(super) fn parse_class(
    text: &[u8],
    ignore_case: bool,
) -> Result<(ClassBytes, &[u8]), PatternError> {
    if let Some((kind @ (b':' | b'.' | b'='), inside)) = text.split_first() {
        let close = inside.iter().position(|byte| *byte == b']').unwrap_or(0);
        if close > 0 && inside.get(close - 1) == Some(kind) {
            return Err(PatternError::Malformed(
                "POSIX named classes are supported only within a class",
            ));
        }
    }
    let (inverted, mut rest) = match text {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = ClassBytes::empty();
    let mut first = true;
    loop {
        if let Some(after) = rest.strip_prefix(b"]").filter(|_| !first) {
            if ignore_case {
                found.case_fold_simple();
            }
            if inverted {
                found.negate();
            }
            return Ok((found, after));
        }
        first = false;
        let (start, after) = parse_element(rest, ignore_case)?;
        let end = after
            .strip_prefix(b"-")
            .filter(|end| !end.starts_with(b"]"));
        rest = after;
        match (start, end) {
            (PerlEscape::Byte(byte), None) => found.union(&byte_class(|b| b == byte)),
            (PerlEscape::Set(set), None) => found.union(&set),
            (PerlEscape::Byte(from), Some(end)) => {
                let (PerlEscape::Byte(to), after) = parse_element(end, ignore_case)? else {
                    return Err(PatternError::Malformed("invalid range in character class"));
                };
                if from > to {
                    return Err(PatternError::Malformed(
                        "range out of order in character class",
                    ));
                }
                found.union(&byte_class(|b| (from..=to).contains(&b)));
                rest = after;
            }
            (PerlEscape::Set(_), Some(_)) => {
                return Err(PatternError::Malformed("invalid range in character class"));
            }
        }
    }
}

/// Parses one element of a class.
fn parse_element(text: &[u8], ignore_case: bool) -> Result<(PerlEscape, &[u8]), PatternError> {
    match text {
        [] => Err(UNMATCHED),
        [b'[', b':', inside @ ..] => {
            let unsupported = PatternError::Unsupported("this bracket in a class");
            let end = inside.windows(2).position(|pair| pair == b":]");
            let (name, rest) = inside.split_at(end.ok_or(unsupported.clone())?);
            let (inverted, name) = match name {
                [b'^', name @ ..] => (true, name),
                name => (false, name),
            };
            let is: fn(&u8) -> bool = match name {
                b"lower" | b"upper" if ignore_case => u8::is_ascii_alphabetic,
                b"word" => |b| is_word_byte(*b),
                b"ascii" => u8::is_ascii,
                name => class_of(name).ok_or(unsupported)?,
            };
            let set = byte_class(|b| is(&b) != inverted);
            Ok((PerlEscape::Set(set), rest.get(2..).unwrap_or_default()))
        }
        [b'[', b'.' | b'=', ..] => Err(PatternError::Unsupported("this bracket in a class")),
        [b'\\', b'b', rest @ ..] => Ok((PerlEscape::Byte(0x08), rest)),
        [b'\\', rest @ ..] => parse_escape(rest),
        [byte, rest @ ..] => Ok((PerlEscape::Byte(*byte), rest)),
    }
}
