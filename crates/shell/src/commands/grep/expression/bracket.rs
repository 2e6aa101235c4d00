//! Bracket expressions: `[a-z]`, `[^[:space:]]`, `[[.-.]]`, `[[=a=]]`, as regcomp(3) reads them in the C locale.

use regex_syntax::hir::ClassBytes;

use super::byte_set::{PatternError, byte_class};
use crate::pattern::class_of;

const UNMATCHED: PatternError = "Unmatched [, [^, [:, [., or [=";
const RANGE: PatternError = "Invalid range end";

enum BracketElement {
    Byte(u8),
    /// Cannot begin or end a range.
    Class(fn(&u8) -> bool),
    /// `[=a=]`: cannot begin or end a range either.
    Equivalent(u8),
}

/// Parses a bracket expression after its `[`. Returns the set and the text after the `]`.
pub(super) fn parse_bracket(
    text: &[u8],
    ignore_case: bool,
) -> Result<(ClassBytes, &[u8]), PatternError> {
    let (inverted, text) = match text {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut members = [false; 256];
    let mut add = |has: &dyn Fn(u8) -> bool| {
        for (byte, member) in (0..=u8::MAX).zip(&mut members) {
            *member |= has(byte);
        }
    };
    let mut rest = text;
    let mut first = true;
    // Whether the set has neither a class nor a range so far.
    let mut plain = true;
    let after = loop {
        let (start, after) = match rest {
            [b']', after @ ..] if !first => break after,
            // A hyphen is literal at either end of the set, and may end a range.
            [b'-', next, ..] if !first && *next != b']' => return Err(RANGE),
            _ => parse_element(rest)?,
        };
        first = false;
        rest = after;
        let alone = !rest.starts_with(b"-") || rest.starts_with(b"-]");
        plain &= alone && matches!(start, BracketElement::Byte(_));
        match (start, rest) {
            (BracketElement::Class(is), _) => add(&|byte| is(&byte)),
            (BracketElement::Equivalent(one), _) => add(&|byte| byte == one),
            (BracketElement::Byte(from), [b'-', end @ ..]) if !alone => {
                let (BracketElement::Byte(to), after) = parse_element(end)? else {
                    return Err(RANGE);
                };
                if from > to {
                    return Err(RANGE);
                }
                add(&|byte| (from..=to).contains(&byte));
                rest = after;
            }
            (BracketElement::Byte(one), _) => add(&|byte| byte == one),
        }
    };
    let body = text.get(..text.len() - after.len() - 1).unwrap_or_default();
    let (colons, inner) = match body {
        [b':', inner @ .., b':'] => (true, inner),
        _ => (false, body),
    };
    if colons && plain && inner.iter().any(|byte| *byte != b':') {
        return Err("character class syntax is [[:space:]], not [:space:]");
    }
    let mut found = byte_class(|byte| members.get(usize::from(byte)).copied().unwrap_or(false));
    if ignore_case {
        found.case_fold_simple();
    }
    if inverted {
        found.negate();
    }
    Ok((found, after))
}

/// Parses one element.
fn parse_element(text: &[u8]) -> Result<(BracketElement, &[u8]), PatternError> {
    let (kind, inside) = match text {
        [b'[', kind @ (b':' | b'.' | b'='), inside @ ..] => (*kind, inside),
        [byte, rest @ ..] => return Ok((BracketElement::Byte(*byte), rest)),
        [] => return Err(UNMATCHED),
    };
    let end = inside
        .windows(2)
        .position(|pair| pair == [kind, b']'])
        .ok_or(UNMATCHED)?;
    let (name, rest) = inside.split_at(end);
    let rest = rest.get(2..).unwrap_or_default();
    let element = match (kind, name) {
        (b':', name) => {
            BracketElement::Class(class_of(name).ok_or("Invalid character class name")?)
        }
        (b'.', [byte]) => BracketElement::Byte(*byte),
        (b'=', [byte]) => BracketElement::Equivalent(*byte),
        _ => return Err("Invalid collation character"),
    };
    Ok((element, rest))
}
