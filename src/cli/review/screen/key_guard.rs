//! Keys that nobody can have meant: those that come before whoever sits there has seen what they would answer.
//!
//! A question takes keys once it has been on the screen for a while. What a terminal answers to somebody else's query,
//! what was typed ahead, and a key that is held down, decide nothing. Pure: the time is a value.

use std::time::{Duration, Instant};

/// The time that a question is on the screen before a key answers it.
const MIN_QUESTION_TIME: Duration = Duration::from_millis(300);

/// Which question is on the screen, and since when.
#[derive(Debug, Default)]
pub(super) struct KeyGuard {
    drawn: Option<(String, Instant)>,
}

impl KeyGuard {
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

    /// Returns whether this question, or none, has been on the screen for long enough.
    pub(super) fn is_open(&self, question: Option<&str>, now: Instant) -> bool {
        let Some(question) = question else {
            return true;
        };
        let drawn = self.drawn.as_ref().filter(|(drawn, _)| drawn == question);
        drawn.is_some_and(|(_, since)| now.saturating_duration_since(*since) >= MIN_QUESTION_TIME)
    }

    /// Returns how long it takes until the question on the screen can be answered; nothing where it can, or there is
    /// none.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        let (_, since) = self.drawn.as_ref()?;
        let left = MIN_QUESTION_TIME.saturating_sub(now.saturating_duration_since(*since));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once_it_has_been_seen() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut guard = KeyGuard::default();
        guard.note_drawn(None, at(0));
        assert!(guard.admits(None, at(0)));
        // `ay` at once: the question was not on the screen.
        assert!(!guard.admits(Some("sure?"), at(0)));
        assert!(!guard.is_open(Some("sure?"), at(0)));
        guard.note_drawn(Some("sure?"), at(10));
        assert_eq!(guard.time_left(at(10)), Some(MIN_QUESTION_TIME));
        assert!(!guard.admits(Some("sure?"), at(309)));
        guard.note_drawn(Some("sure?"), at(309));
        assert!(guard.admits(Some("sure?"), at(310)));
        assert_eq!(guard.time_left(at(310)), None);
        // Another one, and the same one anew.
        assert!(!guard.admits(Some("really?"), at(400)));
        assert!(guard.admits(None, at(400)));
        assert!(!guard.admits(Some("sure?"), at(400)));
        guard.note_drawn(Some("sure?"), at(500));
        assert!(!guard.admits(Some("sure?"), at(799)));
        assert!(guard.admits(Some("sure?"), at(800)));
    }
}
