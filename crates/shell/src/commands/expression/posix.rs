//! [`PosixParser`]: POSIX basic and extended expressions with GNU's extensions.
//!
//! Where POSIX leaves a meaning open, GNU decides: for lines grep 3.8 (`src/dfa.c`), for paths re_compile_pattern(3),
//! which read an operator without operand and an anchor inside an expression differently. Error messages are those of
//! regcomp(3).

use regex_syntax::hir::{Class, Hir, Look, Repetition};

use super::bracket::BracketParser;
use super::byte_set::{byte_class, byte_expression, is_space_byte, is_word_byte, line_class};
use super::posix_syntax::{LeadingRepeat, OperatorForm, PosixSyntax, SubjectText};
use super::refusal::PatternError;

/// The largest bound of an interval (`RE_DUP_MAX`).
const MAX_BOUND: u32 = 0x7fff;
/// The maximum nesting of groups and repetitions, so that no expression exhausts the stack.
const MAX_DEPTH: usize = 250;

const TOO_BIG: PatternError = PatternError::Malformed("Regular expression too big");
const INVALID_INTERVAL: PatternError = PatternError::Malformed("Invalid content of \\{\\}");
const NOTHING_TO_REPEAT: PatternError =
    PatternError::Malformed("Invalid preceding regular expression");

const ESCAPED_LETTER: PatternError =
    PatternError::Unsupported("an ordinary letter after a backslash in -iregex");

enum PosixToken {
    Atom(Hir),
    /// An assertion between two bytes.
    Look(Look),
    Repeat(u32, Option<u32>),
    /// A repetition of nothing, which is passed over.
    Skip,
    Open,
    Close,
    Or,
    End,
}

/// The place in an expression at which a token is read.
#[derive(Debug, Clone, Copy)]
struct TokenPlace {
    /// True if there is nothing yet that could be repeated.
    start: bool,
    /// True if `^` is an anchor in every dialect.
    first: bool,
    /// True directly after a repetition.
    repeated: bool,
}

/// A parser of one expression.
pub(super) struct PosixParser<'p> {
    rest: &'p [u8],
    syntax: &'p PosixSyntax,
    ignore_case: bool,
    /// The number of open groups.
    open: usize,
    /// The deepest nesting so far.
    depth: usize,
}

impl<'p> PosixParser<'p> {
    /// Makes a parser.
    pub(super) fn new(
        pattern: &'p [u8],
        syntax: &'p PosixSyntax,
        ignore_case: bool,
    ) -> PosixParser<'p> {
        PosixParser {
            rest: pattern,
            syntax,
            ignore_case,
            open: 0,
            depth: 0,
        }
    }

    /// Parses the expression.
    ///
    /// # Errors
    /// A malformed expression, in the words of regcomp(3); an unsupported one.
    pub(super) fn parse(mut self) -> Result<Hir, PatternError> {
        self.parse_alternatives()
    }

    /// Parses up to the end of a group or of the pattern.
    fn parse_alternatives(&mut self) -> Result<Hir, PatternError> {
        let mut branches = Vec::new();
        loop {
            let (branch, end) = self.parse_branch()?;
            branches.push(branch);
            match end {
                PosixToken::Or => {}
                PosixToken::End if self.open > 0 => {
                    return Err(PatternError::Malformed("Unmatched ( or \\("));
                }
                _ => return Ok(Hir::alternation(branches)),
            }
        }
    }

    fn parse_branch(&mut self) -> Result<(Hir, PosixToken), PatternError> {
        let mut parts: Vec<Hir> = Vec::new();
        let mut place = TokenPlace {
            start: true,
            first: true,
            repeated: false,
        };
        loop {
            let token = self.next_token(place)?;
            let again = std::mem::replace(&mut place.repeated, false);
            match token {
                PosixToken::Atom(atom) => parts.push(atom),
                PosixToken::Look(look) => {
                    parts.push(Hir::look(look));
                    // For re_compile_pattern(3), nothing before an anchor can be repeated after it.
                    place.start |= self.syntax.subject == SubjectText::Path;
                    place.first = false;
                    continue;
                }
                PosixToken::Repeat(min, max) => {
                    if again {
                        self.enter_level()?;
                    }
                    place.repeated = true;
                    let sub = Box::new(parts.pop().unwrap_or_else(Hir::empty));
                    parts.push(Hir::repetition(Repetition {
                        min,
                        max,
                        greedy: true,
                        sub,
                    }));
                }
                PosixToken::Skip => {
                    place.first = false;
                    continue;
                }
                PosixToken::Open => {
                    self.open += 1;
                    self.enter_level()?;
                    parts.push(self.parse_alternatives()?);
                    self.open -= 1;
                    self.depth -= 1;
                }
                end => return Ok((Hir::concat(parts), end)),
            }
            (place.start, place.first) = (false, false);
        }
    }

    fn enter_level(&mut self) -> Result<(), PatternError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TOO_BIG);
        }
        Ok(())
    }

    fn next_token(&mut self, place: TokenPlace) -> Result<PosixToken, PatternError> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return Ok(PosixToken::End);
        };
        self.rest = rest;
        let anywhere = self.syntax.anchors_anywhere;
        let atom = match byte {
            b'\\' => return self.escaped_token(place),
            b'[' => {
                let parser = BracketParser {
                    syntax: self.syntax,
                    ignore_case: self.ignore_case,
                };
                let (set, rest) = parser.parse(rest)?;
                self.rest = rest;
                match self.syntax.subject {
                    SubjectText::Lines => line_class(set),
                    SubjectText::Path => Hir::class(Class::Bytes(set)),
                }
            }
            b'.' if self.syntax.dot_newline => self.class(|_| true),
            b'.' => line_class(byte_class(|_| true)),
            b'*' => return self.repeat_token(0, None, b'*', place),
            b'^' if anywhere || place.first => return Ok(PosixToken::Look(Look::StartLF)),
            b'$' if anywhere || self.is_end_anchor() => {
                return Ok(PosixToken::Look(Look::EndLF));
            }
            b'\n' if self.syntax.newline_alternates => return Ok(PosixToken::Or),
            byte => return self.operator_token(*byte, OperatorForm::Bare, place),
        };
        Ok(PosixToken::Atom(atom))
    }

    /// Reads the token after a backslash.
    fn escaped_token(&mut self, place: TokenPlace) -> Result<PosixToken, PatternError> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return Err(PatternError::Malformed("Trailing backslash"));
        };
        self.rest = rest;
        let (start, end) = match self.syntax.subject {
            SubjectText::Lines => (Look::StartLF, Look::EndLF),
            SubjectText::Path => (Look::Start, Look::End),
        };
        Ok(match byte {
            b'1'..=b'9' if self.syntax.back_references => {
                return Err(PatternError::Unsupported("a back-reference (\\1 to \\9)"));
            }
            b'a'..=b'z' if self.ignore_case && !self.syntax.gnu_escapes => {
                return Err(ESCAPED_LETTER);
            }
            _ if !self.syntax.gnu_escapes => {
                return self.operator_token(*byte, OperatorForm::Escaped, place);
            }
            b'<' => PosixToken::Look(Look::WordStartAscii),
            b'>' => PosixToken::Look(Look::WordEndAscii),
            b'b' => PosixToken::Look(Look::WordAscii),
            b'B' => PosixToken::Look(Look::WordAsciiNegate),
            b'`' => PosixToken::Look(start),
            b'\'' => PosixToken::Look(end),
            b'w' => PosixToken::Atom(self.class(is_word_byte)),
            b'W' => PosixToken::Atom(self.class(|b| !is_word_byte(b))),
            b's' => PosixToken::Atom(self.class(is_space_byte)),
            b'S' => PosixToken::Atom(self.class(|b| !is_space_byte(b))),
            // re_compile_pattern(3) forgets to ignore its case.
            b'a'..=b'z' if self.ignore_case && self.syntax.subject == SubjectText::Path => {
                return Err(ESCAPED_LETTER);
            }
            byte => return self.operator_token(*byte, OperatorForm::Escaped, place),
        })
    }

    /// Makes the token of a character in one of its forms: an operator where the dialect has it in that form.
    fn operator_token(
        &mut self,
        byte: u8,
        form: OperatorForm,
        place: TokenPlace,
    ) -> Result<PosixToken, PatternError> {
        let syntax = self.syntax;
        Ok(match byte {
            b'(' if syntax.groups == form => PosixToken::Open,
            b')' if syntax.groups == form && self.open > 0 => PosixToken::Close,
            b')' if syntax.groups == form && !syntax.literal_close => {
                return Err(PatternError::Malformed("Unmatched ) or \\)"));
            }
            b'|' if syntax.alternation == form => PosixToken::Or,
            b'+' if syntax.repeats == form => return self.repeat_token(1, None, b'+', place),
            b'?' if syntax.repeats == form => return self.repeat_token(0, Some(1), b'?', place),
            b'{' if syntax.intervals == form => return self.interval_token(place),
            byte => PosixToken::Atom(byte_expression(byte, self.ignore_case)),
        })
    }

    /// Makes the token of a repetition, which may have nothing to repeat.
    fn repeat_token(
        &self,
        min: u32,
        max: Option<u32>,
        operator: u8,
        place: TokenPlace,
    ) -> Result<PosixToken, PatternError> {
        if place.repeated && self.syntax.repeats_once && matches!(operator, b'*' | b'{') {
            return Err(NOTHING_TO_REPEAT);
        }
        if !place.start {
            return Ok(PosixToken::Repeat(min, max));
        }
        match (self.syntax.leading_repeat, operator) {
            (LeadingRepeat::Applied, _) => Ok(PosixToken::Repeat(min, max)),
            (LeadingRepeat::Literal, _) => Ok(PosixToken::Atom(Hir::literal([operator]))),
            (LeadingRepeat::LiteralButIntervals, b'{') | (LeadingRepeat::Invalid, _) => {
                Err(NOTHING_TO_REPEAT)
            }
            (LeadingRepeat::LiteralButIntervals, _) => {
                Ok(PosixToken::Atom(Hir::literal([operator])))
            }
            (LeadingRepeat::Skipped, _) => match self.rest.first() {
                // re_compile_pattern(3) takes such a parenthesis for a literal one.
                Some(b')') if self.open > 0 => {
                    Err(PatternError::Unsupported("a group that only repeats"))
                }
                _ => Ok(PosixToken::Skip),
            },
        }
    }

    /// Parses an interval after its opening brace.
    fn interval_token(&mut self, place: TokenPlace) -> Result<PosixToken, PatternError> {
        let applied = self.syntax.leading_repeat == LeadingRepeat::Applied;
        if place.start && !applied {
            return self.repeat_token(0, None, b'{', place);
        }
        let (min, rest) = parse_number(self.rest);
        let (max, rest) = match rest.split_first() {
            Some((b',', rest)) => parse_number(rest),
            _ => (min, rest),
        };
        let open = min.is_none() && rest.len() == self.rest.len();
        let escaped = self.syntax.intervals == OperatorForm::Escaped;
        let close: &[u8] = if escaped { b"\\}" } else { b"}" };
        let Some(rest) = rest.strip_prefix(close).filter(|_| !open) else {
            // For re_compile_pattern(3), `{}` and `{1,2,` are errors in every dialect.
            let path = self.syntax.subject == SubjectText::Path;
            let always = path && (rest.starts_with(close) || rest.starts_with(b","));
            return match (self.syntax.literal_intervals && !always, rest) {
                (true, _) if path && rest.starts_with(b"\\") => {
                    Err(PatternError::Unsupported("a backslash after a brace"))
                }
                (true, _) => Ok(PosixToken::Atom(Hir::literal([b'{']))),
                (false, []) => Err(PatternError::Malformed("Unmatched \\{")),
                (false, _) => Err(INVALID_INTERVAL),
            };
        };
        self.rest = rest;
        let min = min.unwrap_or(0);
        if max.is_some_and(|max| max < min) {
            return Err(INVALID_INTERVAL);
        }
        if max.unwrap_or(min) > MAX_BOUND {
            return Err(TOO_BIG);
        }
        self.repeat_token(min, max, b'{', place)
    }

    /// Makes a class of bytes, without the newline where lines are matched.
    fn class(&self, has: impl Fn(u8) -> bool) -> Hir {
        let set = byte_class(has);
        match self.syntax.subject {
            SubjectText::Lines => line_class(set),
            SubjectText::Path => Hir::class(Class::Bytes(set)),
        }
    }

    /// Returns whether a `$` here is an anchor in a dialect whose anchors stand at the ends of branches.
    fn is_end_anchor(&self) -> bool {
        let is = |form: OperatorForm, operator: u8| match (form, self.rest) {
            (OperatorForm::Bare, [next, ..]) => *next == operator,
            (OperatorForm::Escaped, [b'\\', next, ..]) => *next == operator,
            _ => false,
        };
        self.rest.is_empty()
            || is(self.syntax.groups, b')')
            || is(self.syntax.alternation, b'|')
            || self.syntax.newline_alternates && self.rest.starts_with(b"\n")
    }
}

/// Parses a number, if there is one. A number that is too large saturates.
pub(super) fn parse_number(text: &[u8]) -> (Option<u32>, &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let value = digits.iter().fold(None, |value: Option<u32>, digit| {
        let tens = value.unwrap_or(0).saturating_mul(10);
        Some(tens.saturating_add(u32::from(digit - b'0')))
    });
    (value, rest)
}
