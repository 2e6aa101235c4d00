//! Regular expressions of `grep` and `find`, translated for `regex_automata`: POSIX basic and extended ones with GNU's
//! extensions, Perl's, and plain strings.
//!
//! `posix` and `perl` parse. A valid expression without an equivalent here is refused by name and never approximated:
//! back-references and look-around are not regular.

mod bracket;
mod byte_set;
mod interruptible;
mod perl;
mod perl_class;
mod posix;
mod posix_syntax;
mod refusal;
#[cfg(test)]
mod tests;

use regex_syntax::hir::{Hir, Look};

use byte_set::byte_expression;
pub(super) use interruptible::{InterruptibleDfa, compile_dfa, is_big};
use perl::{PerlParser, repeats_empty};
use posix::PosixParser;
pub(super) use posix_syntax::PosixSyntax;
pub(super) use refusal::{PatternError, TOO_LARGE};

/// The syntax of the patterns of `grep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternSyntax {
    /// Basic expressions (`-G`).
    Basic,
    /// Extended expressions (`-E`).
    Extended,
    /// Plain strings (`-F`).
    Fixed,
    /// Perl's expressions (`-P`).
    Perl,
}

/// The extent that a match has to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchScope {
    /// Any part of a line.
    Part,
    /// Whole words: no letter, digit or underscore on either side (`-w`).
    Word,
    /// A whole line (`-x`).
    Line,
}

/// The meaning of the patterns of `grep`.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinePatternMode {
    pub(super) syntax: PatternSyntax,
    pub(super) ignore_case: bool,
    pub(super) whole: MatchScope,
    /// True if the ends of matches are needed.
    pub(super) needs_ends: bool,
}

/// Translates patterns into an expression that matches in a line where any of them does. No byte class in it contains a
/// newline, so a match never leaves its line and a whole buffer can be searched at once.
///
/// # Errors
/// A malformed pattern, or an unsupported one.
pub(super) fn translate_for_lines<'p>(
    patterns: impl Iterator<Item = &'p [u8]>,
    mode: LinePatternMode,
) -> Result<Hir, PatternError> {
    let LinePatternMode {
        syntax,
        ignore_case,
        whole,
        ..
    } = mode;
    let posix = |pattern, syntax| PosixParser::new(pattern, syntax, ignore_case).parse();
    let translated: Result<Vec<Hir>, PatternError> = patterns
        .map(|pattern| match syntax {
            PatternSyntax::Fixed => Ok(literal_expression(pattern, ignore_case)),
            PatternSyntax::Basic => posix(pattern, &posix_syntax::GREP_LINES),
            PatternSyntax::Extended => posix(pattern, &posix_syntax::EGREP_LINES),
            PatternSyntax::Perl => PerlParser::new(pattern, ignore_case).parse(whole),
        })
        .collect();
    let any = Hir::alternation(translated?);
    if syntax == PatternSyntax::Perl && mode.needs_ends && repeats_empty(&any) {
        return Err(PatternError::Unsupported(
            "with -o a repetition of something that may be empty",
        ));
    }
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

/// Translates a pattern into an expression that matches a whole path.
///
/// # Errors
/// A malformed pattern, or an unsupported one.
pub(super) fn translate_for_paths(
    pattern: &[u8],
    syntax: &PosixSyntax,
    ignore_case: bool,
) -> Result<Hir, PatternError> {
    let whole = PosixParser::new(pattern, syntax, ignore_case).parse()?;
    Ok(Hir::concat(vec![
        Hir::look(Look::Start),
        whole,
        Hir::look(Look::End),
    ]))
}

fn literal_expression(pattern: &[u8], ignore_case: bool) -> Hir {
    if ignore_case {
        let bytes = pattern.iter().map(|byte| byte_expression(*byte, true));
        Hir::concat(bytes.collect())
    } else {
        Hir::literal(pattern)
    }
}
