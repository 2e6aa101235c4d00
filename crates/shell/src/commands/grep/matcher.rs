//! [`LineMatcher`]: finds matching lines, and the matches in a line.
//!
//! Lines are found by searching all bytes in memory at once, not line by line: no match leaves its line (see
//! `expression`). The end of a match matters for `-o` only. POSIX wants the longest of the leftmost matches; a second
//! automaton finds it, from the start of the first match on. Perl wants the match that its order of trying finds first.

use std::io;
use std::ops::Range;

use memchr::{memchr, memrchr};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input, meta};
use regex_syntax::hir::Hir;

use crate::commands::expression::{InterruptibleDfa, PatternError, TOO_LARGE, compile_dfa, is_big};
use crate::deadline::Deadline;

/// A compiled expression.
pub(super) struct LineMatcher {
    regex: meta::Regex,
    cache: meta::Cache,
    longest: Option<(DFA, Cache)>,
    /// An interruptible automaton, for an expression whose search may take long.
    interruptible: Option<InterruptibleDfa>,
}

impl LineMatcher {
    /// Compiles an expression. `longest` is for callers that need the ends of the longest matches.
    ///
    /// # Errors
    /// The expression is too large.
    pub(super) fn new(hir: &Hir, longest: bool) -> Result<LineMatcher, PatternError> {
        let config = meta::Config::new().utf8_empty(false);
        let regex = meta::Builder::new()
            .configure(config)
            .build_from_hir(hir)
            .map_err(|_| TOO_LARGE)?;
        let longest = if longest {
            Some(compile_longest(hir).ok_or(TOO_LARGE)?)
        } else {
            None
        };
        let interruptible = if is_big(hir) {
            Some(InterruptibleDfa::new(compile_dfa(hir).ok_or(TOO_LARGE)?))
        } else {
            None
        };
        let cache = regex.create_cache();
        Ok(LineMatcher {
            regex,
            cache,
            longest,
            interruptible,
        })
    }

    /// Returns the first matching line in a range of whole lines, including its newline.
    ///
    /// # Errors
    /// `TimedOut`, for an expression that may take long.
    pub(super) fn find_line(
        &mut self,
        text: &[u8],
        lines: Range<usize>,
        deadline: &Deadline,
    ) -> io::Result<Option<Range<usize>>> {
        let interruptible = self.interruptible.as_mut();
        let found = interruptible
            .map(|interruptible| interruptible.first_end(text, lines.clone(), deadline));
        let end = match found {
            Some(Ok(end)) => end,
            Some(Err(Some(error))) => return Err(error),
            Some(Err(None)) | None => self.first_end(text, lines.clone()),
        };
        Ok(end.and_then(|at| line_of(text, lines, at)))
    }

    /// Returns the earliest end of a match in a range.
    fn first_end(&mut self, text: &[u8], range: Range<usize>) -> Option<usize> {
        let input = Input::new(text).range(range).earliest(true);
        let half = self.regex.search_half_with(&mut self.cache, &input);
        half.map(|half| half.offset())
    }

    /// Returns the leftmost match in a range that ends where its line does: the longest, or Perl's.
    pub(super) fn find_match(&mut self, text: &[u8], range: Range<usize>) -> Option<Range<usize>> {
        let end = range.end;
        let input = Input::new(text).range(range);
        let found = self.regex.search_with(&mut self.cache, &input)?.range();
        let anchored = input.range(found.start..end).anchored(Anchored::Yes);
        let end = self.longest.as_mut().and_then(|(dfa, cache)| {
            let half = dfa.try_search_fwd(cache, &anchored).ok()??;
            Some(half.offset())
        });
        Some(found.start..end.unwrap_or(found.end))
    }
}

/// Returns the line, in a range of whole lines, that contains the end of a match.
fn line_of(text: &[u8], lines: Range<usize>, at: usize) -> Option<Range<usize>> {
    // An empty match after the last newline is not in any line.
    if at >= lines.end {
        return None;
    }
    let before = text.get(lines.start..at)?;
    let start = memrchr(b'\n', before).map_or(lines.start, |newline| lines.start + newline + 1);
    let after = text.get(at..lines.end)?;
    let end = memchr(b'\n', after).map_or(lines.end, |newline| at + newline + 1);
    Some(start..end)
}

fn compile_longest(hir: &Hir) -> Option<(DFA, Cache)> {
    let dfa = compile_dfa(hir)?;
    let cache = dfa.create_cache();
    Some((dfa, cache))
}
