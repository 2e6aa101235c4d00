//! Patterns: POSIX basic and extended regular expressions with GNU's extensions, and plain strings, translated for
//! `regex_automata`.
//!
//! No byte class produced here contains a newline, so a match never leaves its line and a whole buffer can be
//! searched at once. Where POSIX leaves a meaning open, GNU grep 3.8 decides (`src/dfa.c`); error messages are those
//! of regcomp(3). Back-references are not regular and are refused.

mod bracket;
mod byte_set;

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use crate::pattern::class_of;
pub(super) use byte_set::PatternError;
use byte_set::byte_class;

/// The syntax of the patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum PatternSyntax {
    /// Basic expressions (`-G`).
    Basic,
    /// Extended expressions (`-E`).
    Extended,
    /// Plain strings (`-F`).
    Fixed,
}

/// The extent that a match has to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum MatchScope {
    /// Any part of a line.
    Part,
    /// Whole words: no letter, digit or underscore on either side (`-w`).
    Word,
    /// A whole line (`-x`).
    Line,
}

/// The largest bound of an interval (`RE_DUP_MAX`).
const MAX_BOUND: u32 = 0x7fff;
/// The maximum nesting of groups and repetitions, so that no expression exhausts the stack.
const MAX_DEPTH: usize = 250;

const TOO_BIG: PatternError = "Regular expression too big";

/// Translates patterns into an expression that matches where any of them does.
///
/// # Errors
/// A malformed pattern, in the words of regcomp(3).
pub(in super::super) fn translate<'p>(
    patterns: impl Iterator<Item = &'p [u8]>,
    syntax: PatternSyntax,
    ignore_case: bool,
    whole: MatchScope,
) -> Result<Hir, PatternError> {
    let translated: Result<Vec<Hir>, PatternError> = patterns
        .map(|pattern| match syntax {
            PatternSyntax::Fixed => Ok(literal_expression(pattern, ignore_case)),
            _ => RegexParser::new(pattern, syntax == PatternSyntax::Extended, ignore_case).parse(),
        })
        .collect();
    let any = Hir::alternation(translated?);
    Ok(match whole {
        MatchScope::Part => any,
        MatchScope::Word => Hir::concat(vec![
            Hir::look(Look::WordStartHalfAscii),
            any,
            Hir::look(Look::WordEndHalfAscii),
        ]),
        MatchScope::Line => {
            Hir::concat(vec![Hir::look(Look::StartLF), any, Hir::look(Look::EndLF)])
        }
    })
}

fn literal_expression(pattern: &[u8], ignore_case: bool) -> Hir {
    if ignore_case {
        Hir::concat(
            pattern
                .iter()
                .map(|byte| byte_expression(*byte, true))
                .collect(),
        )
    } else {
        Hir::literal(pattern)
    }
}

/// Matches one byte, or both cases of it.
fn byte_expression(byte: u8, ignore_case: bool) -> Hir {
    if ignore_case && byte.is_ascii_alphabetic() {
        let cases = [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
        class_expression(byte_class(|b| cases.contains(&b)))
    } else {
        Hir::literal([byte])
    }
}

/// Makes a class without the newline.
fn class_expression(mut set: ClassBytes) -> Hir {
    set.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
    Hir::class(Class::Bytes(set))
}

enum RegexToken {
    Atom(Hir),
    /// An assertion between two bytes. What follows is still at the start of its branch.
    Look(Look),
    Repeat(u32, Option<u32>),
    Open,
    Close,
    Or,
    End,
}

struct RegexParser<'p> {
    rest: &'p [u8],
    extended: bool,
    ignore_case: bool,
    /// The number of open groups.
    open: usize,
    /// The deepest nesting so far.
    depth: usize,
}

impl<'p> RegexParser<'p> {
    fn new(pattern: &'p [u8], extended: bool, ignore_case: bool) -> RegexParser<'p> {
        RegexParser {
            rest: pattern,
            extended,
            ignore_case,
            open: 0,
            depth: 0,
        }
    }

    fn parse(mut self) -> Result<Hir, PatternError> {
        self.parse_alternatives()
    }

    /// Parses up to the end of a group or of the pattern.
    fn parse_alternatives(&mut self) -> Result<Hir, PatternError> {
        let mut branches = Vec::new();
        loop {
            let (branch, end) = self.parse_branch()?;
            branches.push(branch);
            match end {
                RegexToken::Or => {}
                RegexToken::End if self.open > 0 => return Err("Unmatched ( or \\("),
                _ => return Ok(Hir::alternation(branches)),
            }
        }
    }

    fn parse_branch(&mut self) -> Result<(Hir, RegexToken), PatternError> {
        let mut parts: Vec<Hir> = Vec::new();
        // Whether there is nothing yet that could be repeated.
        let mut start = true;
        let mut repeated = false;
        loop {
            let again = repeated;
            repeated = false;
            match self.next_token(start, parts.is_empty())? {
                RegexToken::Atom(atom) => parts.push(atom),
                RegexToken::Look(look) => {
                    parts.push(Hir::look(look));
                    continue;
                }
                RegexToken::Repeat(min, max) => {
                    if again {
                        self.enter_level()?;
                    }
                    repeated = true;
                    let sub = Box::new(parts.pop().unwrap_or_else(Hir::empty));
                    parts.push(Hir::repetition(Repetition {
                        min,
                        max,
                        greedy: true,
                        sub,
                    }));
                }
                RegexToken::Open => {
                    self.open += 1;
                    self.enter_level()?;
                    parts.push(self.parse_alternatives()?);
                    self.open -= 1;
                    self.depth -= 1;
                }
                end => return Ok((Hir::concat(parts), end)),
            }
            start = false;
        }
    }

    fn enter_level(&mut self) -> Result<(), PatternError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TOO_BIG);
        }
        Ok(())
    }

    /// Reads a token. Nothing can be repeated at the `start` of a branch; only in the very `first` place is `^` an
    /// anchor in a basic expression.
    fn next_token(&mut self, start: bool, first: bool) -> Result<RegexToken, PatternError> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return Ok(RegexToken::End);
        };
        self.rest = rest;
        let atom = match (byte, self.extended) {
            (b'\\', _) => return self.escaped_token(start),
            (b'[', _) => {
                let (set, rest) = bracket::parse_bracket(rest, self.ignore_case)?;
                self.rest = rest;
                class_expression(set)
            }
            (b'.', _) => class_expression(byte_class(|_| true)),
            (b'*', true) => return Ok(RegexToken::Repeat(0, None)),
            (b'*', false) if !start => return Ok(RegexToken::Repeat(0, None)),
            (b'+', true) => return Ok(RegexToken::Repeat(1, None)),
            (b'?', true) => return Ok(RegexToken::Repeat(0, Some(1))),
            (b'{', true) => return self.interval_token(),
            (b'(', true) => return Ok(RegexToken::Open),
            (b')', true) if self.open > 0 => return Ok(RegexToken::Close),
            (b'|', true) => return Ok(RegexToken::Or),
            (b'^', extended) if extended || first => return Ok(RegexToken::Look(Look::StartLF)),
            (b'$', extended) if extended || is_end_anchor(rest) => {
                return Ok(RegexToken::Look(Look::EndLF));
            }
            (byte, _) => byte_expression(*byte, self.ignore_case),
        };
        Ok(RegexToken::Atom(atom))
    }

    /// Reads the token after a backslash.
    fn escaped_token(&mut self, start: bool) -> Result<RegexToken, PatternError> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return Err("Trailing backslash");
        };
        self.rest = rest;
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let space = |b: u8| class_of(b"space").is_some_and(|is| is(&b));
        Ok(match (byte, self.extended) {
            (b'(', false) => RegexToken::Open,
            (b')', false) if self.open > 0 => RegexToken::Close,
            (b')', false) => return Err("Unmatched ) or \\)"),
            (b'|', false) => RegexToken::Or,
            (b'{', false) if !start => return self.interval_token(),
            (b'+', false) if !start => RegexToken::Repeat(1, None),
            (b'?', false) if !start => RegexToken::Repeat(0, Some(1)),
            (b'<', _) => RegexToken::Look(Look::WordStartAscii),
            (b'>', _) => RegexToken::Look(Look::WordEndAscii),
            (b'b', _) => RegexToken::Look(Look::WordAscii),
            (b'B', _) => RegexToken::Look(Look::WordAsciiNegate),
            (b'`', _) => RegexToken::Look(Look::StartLF),
            (b'\'', _) => RegexToken::Look(Look::EndLF),
            (b'w', _) => RegexToken::Atom(class_expression(byte_class(word))),
            (b'W', _) => RegexToken::Atom(class_expression(byte_class(|b| !word(b)))),
            (b's', _) => RegexToken::Atom(class_expression(byte_class(space))),
            (b'S', _) => RegexToken::Atom(class_expression(byte_class(|b| !space(b)))),
            (b'1'..=b'9', _) => return Err("back-references (\\1 to \\9) are not supported"),
            (byte, _) => RegexToken::Atom(byte_expression(*byte, self.ignore_case)),
        })
    }

    /// Parses an interval after its opening brace. In an extended expression, a malformed interval is literal.
    fn interval_token(&mut self) -> Result<RegexToken, PatternError> {
        let (min, rest) = parse_number(self.rest);
        let (max, rest) = match rest.split_first() {
            Some((b',', rest)) => parse_number(rest),
            _ => (min, rest),
        };
        let open = min.is_none() && rest.len() == self.rest.len();
        let close: &[u8] = if self.extended { b"}" } else { b"\\}" };
        let Some(rest) = rest.strip_prefix(close).filter(|_| !open) else {
            return match (self.extended, rest) {
                (true, _) => Ok(RegexToken::Atom(Hir::literal([b'{']))),
                (false, []) => Err("Unmatched \\{"),
                (false, _) => Err("Invalid content of \\{\\}"),
            };
        };
        self.rest = rest;
        let min = min.unwrap_or(0);
        if max.is_some_and(|max| max < min) {
            return Err("Invalid content of \\{\\}");
        }
        if max.unwrap_or(min) > MAX_BOUND {
            return Err(TOO_BIG);
        }
        Ok(RegexToken::Repeat(min, max))
    }
}

/// Returns whether a `$` before this text is an anchor in a basic expression.
fn is_end_anchor(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"\\)") || rest.starts_with(b"\\|")
}

/// Parses a number, if there is one. A number that is too large saturates.
fn parse_number(text: &[u8]) -> (Option<u32>, &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let value = digits.iter().fold(None, |value: Option<u32>, digit| {
        let tens = value.unwrap_or(0).saturating_mul(10);
        Some(tens.saturating_add(u32::from(digit - b'0')))
    });
    (value, rest)
}
