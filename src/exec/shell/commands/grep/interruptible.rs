//! [`InterruptibleDfa`]: the search for expressions that are big by repetition (`(a|b){1,5000}c`), which may take long for each byte.
//!
//! It goes byte by byte and looks at the clock on the way, which no search of `regex_automata`'s own does. GNU grep has no
//! answer either: it takes minutes to compile such an expression.

use std::io;
use std::ops::Range;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_syntax::hir::{Hir, HirKind};

use crate::exec::shell::stream::Deadline;

/// How many copies of what is repeated make an expression big. Below, the quick search takes microseconds for a byte at worst.
const BIG: u64 = 1000;

/// After how many bytes the clock is looked at: each may take a hundred microseconds.
const PIECE: usize = 16;

/// An automaton that is made as it goes, however often it has to forget what it made.
pub(super) struct InterruptibleDfa {
    dfa: DFA,
    cache: Cache,
}

impl InterruptibleDfa {
    /// Takes an automaton.
    pub(super) fn new(dfa: DFA) -> InterruptibleDfa {
        let cache = dfa.create_cache();
        InterruptibleDfa { dfa, cache }
    }

    /// Returns where the first match in a range ends that ends at all; `Err(None)` where the automaton cannot tell.
    ///
    /// # Errors
    /// `TimedOut`.
    pub(super) fn first_end(
        &mut self,
        text: &[u8],
        range: Range<usize>,
        deadline: &Deadline,
    ) -> Result<Option<usize>, Option<io::Error>> {
        let (dfa, cache) = (&self.dfa, &mut self.cache);
        let input = Input::new(text).range(range.clone());
        let mut state = dfa.start_state_forward(cache, &input).map_err(|_| None)?;
        // A match is known one byte after its end.
        for (number, byte) in text.get(range.clone()).into_iter().flatten().enumerate() {
            if number % PIECE == 0 {
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

/// Returns whether an expression is big by repetition.
pub(super) fn is_big(hir: &Hir) -> bool {
    copies(hir) > BIG
}

/// Counts the copies that repetitions make of what they repeat.
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
