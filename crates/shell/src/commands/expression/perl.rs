//! [`PerlParser`]: Perl's expressions as `grep -P` has them in the C locale, where PCRE matches bytes.
//!
//! The subject is a line without its newline, so `\A` is `^`, `\Z` and `\z` are `$`, and `(?m)` and `(?s)` change
//! nothing. Look-around, back-references, recursion, `\K` and whatever cuts backtracking short are refused.

use std::collections::BTreeSet;

use regex_syntax::hir::{Hir, HirKind, Look, Repetition};

use super::MatchScope;
use super::byte_set::{byte_class, byte_expression, is_space_byte, line_class};
use super::perl_class::{PerlEscape, parse_class, parse_escape};
use super::posix::parse_number;
use super::refusal::PatternError;

/// The largest bound of an interval in PCRE.
const MAX_BOUND: u32 = 65_535;
/// The maximum nesting of groups, so that no expression exhausts the stack. PCRE's own limit is the same.
const MAX_DEPTH: usize = 250;

const UNMATCHED_OPEN: PatternError = PatternError::Malformed("missing closing parenthesis");
const UNMATCHED_CLOSE: PatternError = PatternError::Malformed("unmatched closing parenthesis");
const RECURSION: PatternError = PatternError::Unsupported("recursion, such as (?R) or (?1),");
const BACK_REFERENCE: PatternError = PatternError::Unsupported("a back-reference");
const LOOKAHEAD: PatternError = PatternError::Unsupported("lookahead, (?=…) or (?!…),");
const LOOKBEHIND: PatternError = PatternError::Unsupported("lookbehind, (?<=…) or (?<!…),");

/// The options that an expression sets by `(?…)`.
#[derive(Debug, Clone, Copy)]
struct PerlFlags {
    ignore_case: bool,
    /// True if white space is ignored.
    extended: bool,
    /// True if quantifiers are lazy without `?`.
    ungreedy: bool,
}

/// The item before a quantifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrecedingItem {
    Nothing,
    Repeatable,
    /// An assertion or a setting, which PCRE treats by rules of its own.
    Assertion,
    Repeated,
}

/// A parser of one expression.
pub(super) struct PerlParser<'p> {
    rest: &'p [u8],
    flags: PerlFlags,
    /// The number of open groups.
    open: usize,
    names: BTreeSet<&'p [u8]>,
    /// True if a `\Q` lasts to the end of the pattern.
    open_quote: bool,
}

impl<'p> PerlParser<'p> {
    /// Makes a parser.
    pub(super) fn new(pattern: &'p [u8], ignore_case: bool) -> PerlParser<'p> {
        PerlParser {
            rest: pattern,
            flags: PerlFlags {
                ignore_case,
                extended: false,
                ungreedy: false,
            },
            open: 0,
            names: BTreeSet::new(),
            open_quote: false,
        }
    }

    /// Parses the expression.
    ///
    /// # Errors
    /// A malformed expression, in PCRE's words; an unsupported one.
    pub(super) fn parse(mut self, whole: MatchScope) -> Result<Hir, PatternError> {
        let parsed = self.parse_alternatives();
        let parsed = parsed.and_then(|hir| match self.rest {
            [] => Ok(hir),
            _ => Err(UNMATCHED_CLOSE),
        });
        if parsed.is_ok() && self.open_quote && whole != MatchScope::Part {
            return Err(PatternError::Unsupported("\\Q without \\E with -w or -x"));
        }
        match parsed {
            // GNU grep puts a group around the expression, in which `a)|(?:b` is well-formed.
            Err(UNMATCHED_CLOSE) if whole != MatchScope::Part => Err(PatternError::Unsupported(
                "an unmatched parenthesis with -w or -x",
            )),
            parsed => parsed,
        }
    }

    /// Parses up to the end of a group or of the pattern.
    fn parse_alternatives(&mut self) -> Result<Hir, PatternError> {
        let mut branches = vec![self.parse_branch()?];
        while let Some(rest) = self.rest.strip_prefix(b"|") {
            self.rest = rest;
            branches.push(self.parse_branch()?);
        }
        Ok(Hir::alternation(branches))
    }

    fn parse_branch(&mut self) -> Result<Hir, PatternError> {
        let mut parts: Vec<Hir> = Vec::new();
        let mut before = PrecedingItem::Nothing;
        while let Some((byte, rest)) = self.rest.split_first() {
            let mut item = PrecedingItem::Repeatable;
            match byte {
                b'|' | b')' => break,
                b'*' | b'+' | b'?' | b'{' if self.is_quantifier()? => {
                    item = PrecedingItem::Repeated;
                    let repeated = self.parse_quantifier(before, parts.pop())?;
                    parts.push(repeated);
                }
                _ => {
                    self.rest = rest;
                    match byte {
                        byte if self.flags.extended && is_space_byte(*byte) => item = before,
                        b'#' if self.flags.extended => {
                            return Err(PatternError::Unsupported("a comment after #"));
                        }
                        b'(' => match self.parse_group(before)? {
                            (Some(group), _) => parts.push(group),
                            (None, after) => item = after,
                        },
                        b'^' | b'$' => {
                            item = PrecedingItem::Assertion;
                            let start = *byte == b'^';
                            parts.push(Hir::look(if start { Look::StartLF } else { Look::EndLF }));
                        }
                        b'.' => parts.push(line_class(byte_class(|_| true))),
                        b'[' => {
                            let (set, rest) = parse_class(rest, self.flags.ignore_case)?;
                            self.rest = rest;
                            parts.push(line_class(set));
                        }
                        b'\\' => item = self.parse_escape(before, &mut parts)?,
                        byte => parts.push(self.literal(*byte)),
                    }
                }
            }
            before = item;
        }
        Ok(Hir::concat(parts))
    }

    /// Makes an expression for a byte. No line contains a newline.
    fn literal(&self, byte: u8) -> Hir {
        match byte {
            b'\n' => line_class(byte_class(|_| false)),
            byte => byte_expression(byte, self.flags.ignore_case),
        }
    }

    /// Parses what follows a backslash. Returns the item that a quantifier would follow.
    fn parse_escape(
        &mut self,
        before: PrecedingItem,
        parts: &mut Vec<Hir>,
    ) -> Result<PrecedingItem, PatternError> {
        let look = match self.rest.first() {
            Some(b'A') => Some(Look::StartLF),
            Some(b'Z' | b'z') => Some(Look::EndLF),
            Some(b'b') => Some(Look::WordAscii),
            Some(b'B') => Some(Look::WordAsciiNegate),
            _ => None,
        };
        if let Some(look) = look {
            self.rest = self.rest.get(1..).unwrap_or_default();
            parts.push(Hir::look(look));
            return Ok(PrecedingItem::Assertion);
        }
        if let Some(quoted) = self.rest.strip_prefix(b"Q") {
            let end = quoted.windows(2).position(|pair| pair == b"\\E");
            let (text, rest) = quoted.split_at(end.unwrap_or(quoted.len()));
            self.rest = rest.get(2..).unwrap_or_default();
            self.open_quote |= end.is_none();
            parts.extend(text.iter().map(|byte| self.literal(*byte)));
            return Ok(match text {
                [] => before,
                _ => PrecedingItem::Repeatable,
            });
        }
        if let Some(rest) = self.rest.strip_prefix(b"E") {
            self.rest = rest;
            return Ok(before);
        }
        let (escape, rest) = parse_escape(self.rest)?;
        self.rest = rest;
        parts.push(match escape {
            PerlEscape::Byte(byte) => self.literal(byte),
            PerlEscape::Set(set) => line_class(set),
        });
        Ok(PrecedingItem::Repeatable)
    }

    /// Returns whether a quantifier comes next: a brace may be literal.
    fn is_quantifier(&self) -> Result<bool, PatternError> {
        let Some(inside) = self.rest.strip_prefix(b"{") else {
            return Ok(true);
        };
        if parse_bounds(inside).is_some() {
            return Ok(true);
        }
        // Newer releases of PCRE read `{,3}` and `{ 1, 2 }` as quantifiers, older ones as text.
        let bounds = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b',' | b' ' | b'\t');
        let end = inside.iter().position(|byte| !bounds(byte));
        let (bounds, after) = inside.split_at(end.unwrap_or(inside.len()));
        if after.starts_with(b"}") && bounds.iter().any(u8::is_ascii_digit) {
            return Err(PatternError::Unsupported(
                "a quantifier without its first number, or with spaces,",
            ));
        }
        Ok(false)
    }

    /// Parses a quantifier and applies it.
    fn parse_quantifier(
        &mut self,
        before: PrecedingItem,
        item: Option<Hir>,
    ) -> Result<Hir, PatternError> {
        let ((min, max), rest) = match self.rest {
            [b'*', rest @ ..] => ((0, None), rest),
            [b'+', rest @ ..] => ((1, None), rest),
            [b'?', rest @ ..] => ((0, Some(1)), rest),
            [_, inside @ ..] => parse_bounds(inside).unwrap_or(((1, Some(1)), inside)),
            [] => ((1, Some(1)), self.rest),
        };
        if max.unwrap_or(min).max(min) > MAX_BOUND {
            return Err(PatternError::Malformed("number too big in {} quantifier"));
        }
        if max.is_some_and(|max| max < min) {
            return Err(PatternError::Malformed(
                "numbers out of order in {} quantifier",
            ));
        }
        let (lazy, rest) = match rest {
            [b'?', rest @ ..] => (true, rest),
            [b'+', ..] => return Err(PatternError::Unsupported("a possessive quantifier")),
            rest => (false, rest),
        };
        self.rest = rest;
        match (before, item) {
            (PrecedingItem::Repeatable, Some(item)) => Ok(Hir::repetition(Repetition {
                min,
                max,
                greedy: lazy == self.flags.ungreedy,
                sub: Box::new(item),
            })),
            (PrecedingItem::Assertion, _) => {
                Err(PatternError::Unsupported("a quantifier after an assertion"))
            }
            (PrecedingItem::Repeated, _) => {
                Err(PatternError::Unsupported("a quantifier after another one"))
            }
            _ => Err(PatternError::Malformed(
                "quantifier does not follow a repeatable item",
            )),
        }
    }

    /// Parses a group after its parenthesis; a comment or a setting is none, and gives the item that a quantifier would
    /// follow.
    fn parse_group(
        &mut self,
        before: PrecedingItem,
    ) -> Result<(Option<Hir>, PrecedingItem), PatternError> {
        let flags = self.flags;
        match self.rest {
            [b'*', ..] => {
                return Err(PatternError::Unsupported("a verb, such as (*SKIP),"));
            }
            [b'?', b'#', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b')');
                let end = end.ok_or(PatternError::Malformed("missing ) after (?# comment"))?;
                self.rest = rest.get(end + 1..).unwrap_or_default();
                return Ok((None, before));
            }
            [b'?', rest @ ..] => {
                self.rest = rest;
                if self.parse_group_kind()? {
                    return Ok((None, PrecedingItem::Assertion));
                }
            }
            _ => {}
        }
        self.open += 1;
        if self.open > MAX_DEPTH {
            return Err(PatternError::Malformed("parentheses are too deeply nested"));
        }
        let inside = self.parse_alternatives()?;
        self.rest = self.rest.strip_prefix(b")").ok_or(UNMATCHED_OPEN)?;
        self.open -= 1;
        self.flags = flags;
        Ok((Some(inside), PrecedingItem::Repeatable))
    }

    /// Parses what follows `(?`, up to the content of the group. Returns true for a setting, `(?i)`, which has none.
    fn parse_group_kind(&mut self) -> Result<bool, PatternError> {
        match self.rest {
            [b':' | b'|', rest @ ..] => self.rest = rest,
            [b'=' | b'!' | b'*', ..] => return Err(LOOKAHEAD),
            [b'<', b'=' | b'!' | b'*', ..] => return Err(LOOKBEHIND),
            [b'>', ..] => return Err(PatternError::Unsupported("an atomic group, (?>…),")),
            [b'(', ..] => return Err(PatternError::Unsupported("a conditional, (?(…)…),")),
            [b'C', ..] => return Err(PatternError::Unsupported("a callout, (?C),")),
            [b'P', b'=', ..] => return Err(BACK_REFERENCE),
            [b'R' | b'&' | b'0'..=b'9' | b'+', ..] | [b'P', b'>', ..] | [b'-', b'0'..=b'9', ..] => {
                return Err(RECURSION);
            }
            [b'P', b'<', rest @ ..] | [b'<', rest @ ..] => self.parse_name(rest, b'>')?,
            [b'\'', rest @ ..] => self.parse_name(rest, b'\'')?,
            _ => return self.parse_flags(),
        }
        Ok(false)
    }

    fn parse_name(&mut self, text: &'p [u8], close: u8) -> Result<(), PatternError> {
        let end = text.iter().position(|byte| *byte == close);
        let (name, rest) = text.split_at(end.unwrap_or(0));
        let is_name = name.len() <= 32
            && name.first().is_some_and(|byte| !byte.is_ascii_digit())
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if !is_name || !self.names.insert(name) {
            return Err(PatternError::Unsupported("this name of a group"));
        }
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(())
    }

    /// Parses settings such as `i-x`. Returns true where no group follows.
    fn parse_flags(&mut self) -> Result<bool, PatternError> {
        let mut on = true;
        let mut flags = self.flags;
        while let Some((byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            match byte {
                b')' | b':' => {
                    self.flags = flags;
                    // A setting lasts to the end of the group around it, a group's own to that group's end.
                    return Ok(*byte == b')');
                }
                b'-' if on => on = false,
                b'i' => flags.ignore_case = on,
                b'x' if rest.first() != Some(&b'x') => flags.extended = on,
                b'U' => flags.ungreedy = on,
                b'm' | b's' => {}
                _ => return Err(PatternError::Unsupported("this group or setting, (?…),")),
            }
        }
        Err(UNMATCHED_OPEN)
    }
}

/// Minimum and maximum of an interval, and the text after it.
type IntervalBounds<'t> = ((u32, Option<u32>), &'t [u8]);

/// Parses an interval after its brace; `None` where it is literal.
fn parse_bounds(text: &[u8]) -> Option<IntervalBounds<'_>> {
    let (min, rest) = parse_number(text);
    let min = min?;
    let (max, rest) = match rest.split_first()? {
        (b',', rest) => parse_number(rest),
        _ => (Some(min), rest),
    };
    Some(((min, max), rest.strip_prefix(b"}")?))
}

/// Returns whether an expression repeats what may be empty: PCRE and an automaton may prefer different matches then.
pub(super) fn repeats_empty(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let many = repetition.max.is_none_or(|max| max > 1);
            let may_be_empty = repetition.sub.properties().minimum_len() == Some(0);
            many && may_be_empty || repeats_empty(&repetition.sub)
        }
        HirKind::Capture(capture) => repeats_empty(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(repeats_empty),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}
