//! Keys that nobody can have meant: those that come before whoever sits there has seen what they would answer.
//!
//! The screen takes keys once it has had the terminal for a while, and a question once it has been on the screen for as
//! long. What a terminal answers to somebody else's query, what was typed ahead, and a key that is held down, decide
//! nothing. Pure: the time is a value.

use std::time::{Duration, Instant};

/// The time that something is on the screen before a key counts.
const MIN_SEEN_TIME: Duration = Duration::from_millis(300);

/// Since when the screen has the terminal, which question is on it, and since when.
#[derive(Debug)]
pub(super) struct KeyGuard {
    begun: Instant,
    drawn: Option<(String, Instant)>,
}

impl KeyGuard {
    /// Begins when the screen takes the terminal.
    pub(super) fn new(begun: Instant) -> KeyGuard {
        KeyGuard { begun, drawn: None }
    }

    /// Takes note that a frame with this question, or none, is on the screen now.
    pub(super) fn note_drawn(&mut self, question: Option<&str>, now: Instant) {
        match (question, &self.drawn) {
            (Some(question), Some((drawn, _))) if question == drawn => {}
            (question, _) => self.drawn = question.map(|question| (question.to_owned(), now)),
        }
    }

    /// Returns whether a key counts, where this question, or none, takes it.
    pub(super) fn admits(&mut self, question: Option<&str>, now: Instant) -> bool {
        if question.is_none() {
            // The same question may be put once more before the next frame.
            self.drawn = None;
        }
        self.is_open(question, now)
    }

    /// Returns whether the screen, and this question if there is one, have been there for long enough.
    pub(super) fn is_open(&self, question: Option<&str>, now: Instant) -> bool {
        let is_seen = match (question, &self.drawn) {
            (None, _) => true,
            (Some(question), Some((drawn, since))) => {
                drawn == question && time_until_seen(*since, now).is_zero()
            }
            (Some(_), None) => false,
        };
        is_seen && time_until_seen(self.begun, now).is_zero()
    }

    /// Returns how long it takes until the screen, or the question on it, takes keys; nothing where the frame that was drawn
    /// last says that it does. Drawing takes time: the moment may have come meanwhile.
    pub(super) fn time_left(&self, is_shown_open: bool, now: Instant) -> Option<Duration> {
        let since = self.drawn.as_ref().map_or(self.begun, |(_, since)| *since);
        (!is_shown_open).then(|| time_until_seen(since, now))
    }
}

/// Returns how long it takes until something that is there since then has been seen.
fn time_until_seen(since: Instant, now: Instant) -> Duration {
    MIN_SEEN_TIME.saturating_sub(now.saturating_duration_since(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_ahead_decides_nothing() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut guard = KeyGuard::new(begin);
        guard.note_drawn(None, at(10));
        assert!(!guard.admits(None, at(299)));
        let left = Duration::from_millis(100);
        assert_eq!(guard.time_left(false, at(200)), Some(left));
        assert!(guard.admits(None, at(300)));
        assert_eq!(guard.time_left(true, at(300)), None);
        // The frame took from before that moment until after it.
        assert_eq!(guard.time_left(false, at(310)), Some(Duration::ZERO));
    }

    #[test]
    fn a_question_is_answered_once_it_has_been_seen() {
        let begin = Instant::now();
        let at = |milliseconds| begin + MIN_SEEN_TIME + Duration::from_millis(milliseconds);
        let mut guard = KeyGuard::new(begin);
        guard.note_drawn(None, at(0));
        assert!(guard.admits(None, at(0)));
        // `ay` at once: the question was not on the screen.
        assert!(!guard.admits(Some("sure?"), at(0)));
        assert!(!guard.is_open(Some("sure?"), at(0)));
        guard.note_drawn(Some("sure?"), at(10));
        assert_eq!(guard.time_left(false, at(10)), Some(MIN_SEEN_TIME));
        assert!(!guard.admits(Some("sure?"), at(309)));
        guard.note_drawn(Some("sure?"), at(309));
        assert!(guard.admits(Some("sure?"), at(310)));
        assert_eq!(guard.time_left(true, at(310)), None);
        // Another one, and the same one anew.
        assert!(!guard.admits(Some("really?"), at(400)));
        assert!(guard.admits(None, at(400)));
        assert!(!guard.admits(Some("sure?"), at(400)));
        guard.note_drawn(Some("sure?"), at(500));
        assert!(!guard.admits(Some("sure?"), at(799)));
        assert!(guard.admits(Some("sure?"), at(800)));
    }
}
