//! [`InterruptibleDfa`]: searches for expressions that are large by repetition (`(a|b){1,5000}c`), where each byte
//! may take long.
//!
//! It goes byte by byte and checks the deadline on the way, which `regex_automata`'s own searches cannot do. GNU grep
//! has no solution either: it takes minutes to compile such an expression.

use std::io;
use std::ops::Range;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind};

use crate::deadline::Deadline;

/// The number of copies of repeated parts above which an expression is large. Below this, the ordinary search takes
/// microseconds for a byte at worst.
const MAX_COPIES: u64 = 1000;

/// The number of bytes between two checks of the deadline: each may take a hundred microseconds.
const CHECK_INTERVAL: usize = 16;

/// Compiles an automaton that reports all matches; `None` where the expression is too large.
pub(in super::super) fn compile_dfa(hir: &Hir) -> Option<DFA> {
    let config = thompson::Config::new().utf8(false);
    let nfa = NFA::compiler().configure(config).build_from_hir(hir).ok()?;
    // With all matches reported, the last one is the longest. Skipping the check makes room for states of any size.
    let config = DFA::config()
        .match_kind(MatchKind::All)
        .skip_cache_capacity_check(true);
    DFA::builder().configure(config).build_from_nfa(nfa).ok()
}

/// A lazy DFA that goes on however often it has to clear its cache.
#[derive(Debug)]
pub(in super::super) struct InterruptibleDfa {
    dfa: DFA,
    cache: Cache,
}

impl InterruptibleDfa {
    /// Makes a searcher from an automaton.
    pub(in super::super) fn new(dfa: DFA) -> InterruptibleDfa {
        let cache = dfa.create_cache();
        InterruptibleDfa { dfa, cache }
    }

    /// Returns the earliest end of a match in a range; `Err(None)` where the automaton gives up.
    ///
    /// # Errors
    /// `TimedOut`.
    pub(in super::super) fn first_end(
        &mut self,
        text: &[u8],
        range: Range<usize>,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Option<io::Error>> {
        let (dfa, cache) = (&self.dfa, &mut self.cache);
        let input = Input::new(text).range(range.clone());
        let mut state = dfa.start_state_forward(cache, &input).map_err(|_| None)?;
        // The automaton reports a match one byte after its end.
        for (number, byte) in text.get(range.clone()).into_iter().flatten().enumerate() {
            if number % CHECK_INTERVAL == 0 {
                deadline.check().map_err(Some)?;
            }
            state = dfa.next_state(cache, state, *byte).map_err(|_| None)?;
            if state.is_match() {
                return Ok(Some(range.start + number));
            }
            if state.is_dead() {
                return Ok(None);
            }
            if state.is_quit() {
                return Err(None);
            }
        }
        let behind = match text.get(range.end) {
            Some(byte) => dfa.next_state(cache, state, *byte),
            None => dfa.next_eoi_state(cache, state),
        };
        let last = behind.map_err(|_| None)?;
        Ok(last.is_match().then_some(range.end))
    }
}

/// Returns whether an expression is large by repetition.
pub(in super::super) fn is_big(hir: &Hir) -> bool {
    copies(hir) > MAX_COPIES
}

/// Counts the copies that repetitions make of their operands.
fn copies(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            let each = copies(&repetition.sub).max(1);
            u64::from(times).saturating_mul(each)
        }
        HirKind::Capture(capture) => copies(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(copies).fold(0, u64::saturating_add)
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 0,
    }
}
