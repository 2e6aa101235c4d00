//! [`BracketParser`]: bracket expressions (`[a-z]`, `[^[:space:]]`, `[[.-.]]`, `[[=a=]]`), as regcomp(3) reads them in
//! the C locale.

use regex_syntax::hir::ClassBytes;

use super::byte_set::byte_class;
use super::posix_syntax::{PosixSyntax, SubjectText};
use super::refusal::PatternError;
use crate::pattern::class_of;

const UNMATCHED: PatternError = PatternError::Malformed("Unmatched [, [^, [:, [., or [=");
const RANGE: PatternError = PatternError::Malformed("Invalid range end");

enum BracketElement {
    Byte(u8),
    /// Cannot begin or end a range.
    Class(fn(&u8) -> bool),
    /// `[=a=]`: cannot begin or end a range either.
    Equivalent(u8),
}

/// A parser of bracket expressions.
pub(super) struct BracketParser<'p> {
    pub(super) syntax: &'p PosixSyntax,
    pub(super) ignore_case: bool,
}

impl BracketParser<'_> {
    /// Parses a bracket expression after its `[`. Returns the set and the text after the `]`.
    ///
    /// # Errors
    /// A malformed expression, in the words of regcomp(3).
    pub(super) fn parse<'t>(&self, text: &'t [u8]) -> Result<(ClassBytes, &'t [u8]), PatternError> {
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
                _ => self.parse_element(rest)?,
            };
            first = false;
            rest = after;
            let alone = !rest.starts_with(b"-") || rest.starts_with(b"-]");
            plain &= alone && matches!(start, BracketElement::Byte(_));
            match (start, rest) {
                (BracketElement::Class(is), _) => add(&|byte| is(&byte)),
                (BracketElement::Equivalent(one), _) => add(&|byte| byte == one),
                (BracketElement::Byte(from), [b'-', end @ ..]) if !alone => {
                    let (BracketElement::Byte(to), after) = self.parse_element(end)? else {
                        return Err(RANGE);
                    };
                    if from > to && !self.syntax.empty_ranges {
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
        let lines = self.syntax.subject == SubjectText::Lines;
        if lines && colons && plain && inner.iter().any(|byte| *byte != b':') {
            return Err(PatternError::Malformed(
                "character class syntax is [[:space:]], not [:space:]",
            ));
        }
        let has = |byte: u8| members.get(usize::from(byte)).copied().unwrap_or(false);
        let mut found = byte_class(|byte| has(self.in_upper_case(byte)));
        if self.ignore_case && lines {
            found.case_fold_simple();
        }
        if inverted {
            found.negate();
        }
        Ok((found, after))
    }

    /// Converts a byte as re_compile_pattern(3) does for `RE_ICASE`: in the pattern, also in ranges, and in the text.
    fn in_upper_case(&self, byte: u8) -> u8 {
        match self.syntax.subject {
            SubjectText::Path if self.ignore_case => byte.to_ascii_uppercase(),
            _ => byte,
        }
    }

    /// Parses one element.
    fn parse_element<'t>(
        &self,
        text: &'t [u8],
    ) -> Result<(BracketElement, &'t [u8]), PatternError> {
        let byte = |byte: u8| BracketElement::Byte(self.in_upper_case(byte));
        let (kind, inside) = match text {
            [b'\\', escaped, rest @ ..] if self.syntax.bracket_escapes => {
                return Ok((byte(*escaped), rest));
            }
            [b'[', b':', rest @ ..] if !self.syntax.classes => {
                return Ok((byte(b'['), text.get(1..).unwrap_or(rest)));
            }
            [b'[', kind @ (b':' | b'.' | b'='), inside @ ..] => (*kind, inside),
            [first, rest @ ..] => return Ok((byte(*first), rest)),
            [] => return Err(UNMATCHED),
        };
        let end = inside
            .windows(2)
            .position(|pair| pair == [kind, b']'])
            .ok_or(UNMATCHED)?;
        let (name, rest) = inside.split_at(end);
        let rest = rest.get(2..).unwrap_or_default();
        let element = match (kind, name) {
            (b':', b"lower" | b"upper") if self.ignore_case => {
                BracketElement::Class(u8::is_ascii_alphabetic)
            }
            (b':', name) => {
                let unknown = PatternError::Malformed("Invalid character class name");
                BracketElement::Class(class_of(name).ok_or(unknown)?)
            }
            (b'.', [one]) => byte(*one),
            (b'=', [one]) => BracketElement::Equivalent(self.in_upper_case(*one)),
            _ => return Err(PatternError::Malformed("Invalid collation character")),
        };
        Ok((element, rest))
    }
}
