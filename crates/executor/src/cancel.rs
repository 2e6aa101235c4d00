//! [`CancelToken`]: the token that ends a request, at a deadline or when its caller cancels it.
//!
//! Every wait and every loop of an executor checks it. The process itself goes on: a server has other requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The reason for which a request has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The time of the request is up.
    TimedOut,
    /// A signal or the caller cancelled the request.
    Cancelled,
}

/// The value in place of a signal's number if the caller cancelled the request: no signal has this number.
const CALLER: usize = 1000;

/// A token that tells whether a request has to end. Clones end together.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    /// 0 while the request may go on; the number of the signal that ends it; or [`CALLER`].
    cancelled: Arc<AtomicUsize>,
    end: Option<Instant>,
}

impl CancelToken {
    /// Makes a token that ends when this number is no longer 0: a signal's handler may put the signal's number there.
    pub fn from_signal(signal: Arc<AtomicUsize>) -> CancelToken {
        CancelToken {
            cancelled: signal,
            end: None,
        }
    }

    /// Returns this token with a deadline so long from now, unless its own deadline comes first.
    #[must_use]
    pub fn within(&self, time: Option<Duration>) -> CancelToken {
        let end = time.and_then(|time| Instant::now().checked_add(time));
        let end = [self.end, end].into_iter().flatten().min();
        let cancelled = self.cancelled.clone();
        CancelToken { cancelled, end }
    }

    /// Ends the request.
    pub fn cancel(&self) {
        self.cancelled.store(CALLER, Ordering::Relaxed);
    }

    /// Returns the signal that ended the request, if one did.
    pub fn signal(&self) -> Option<u8> {
        let number = self.cancelled.load(Ordering::Relaxed);
        u8::try_from(number).ok().filter(|number| *number > 0)
    }

    /// Returns the reason to end, once the request has to.
    pub fn ended(&self) -> Option<CancelReason> {
        if self.cancelled.load(Ordering::Relaxed) != 0 {
            return Some(CancelReason::Cancelled);
        }
        let late = self.end.is_some_and(|end| Instant::now() >= end);
        late.then_some(CancelReason::TimedOut)
    }

    /// Returns the length of a wait of at most `most` that does not outlast the request.
    pub fn remaining(&self, most: Duration) -> Duration {
        let left = self
            .end
            .map(|end| end.saturating_duration_since(Instant::now()));
        left.map_or(most, |left| left.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_end_together() {
        let cancel = CancelToken::default();
        let other = cancel.within(Some(Duration::from_secs(3600)));
        assert_eq!((cancel.ended(), other.ended()), (None, None));
        other.clone().cancel();
        assert_eq!(cancel.ended(), Some(CancelReason::Cancelled));
        assert_eq!(other.ended(), Some(CancelReason::Cancelled));
        assert_eq!(other.signal(), None);
        let by_signal = CancelToken::from_signal(Arc::new(AtomicUsize::new(15))).within(None);
        assert_eq!(by_signal.ended(), Some(CancelReason::Cancelled));
        assert_eq!(by_signal.signal(), Some(15));
    }

    #[test]
    fn earlier_deadline_wins() {
        let long = Duration::from_secs(3600);
        let cancel = CancelToken::default().within(Some(Duration::ZERO));
        assert_eq!(cancel.ended(), Some(CancelReason::TimedOut));
        assert_eq!(
            cancel.within(Some(long)).ended(),
            Some(CancelReason::TimedOut)
        );
        assert_eq!(cancel.remaining(long), Duration::ZERO);
        assert_eq!(CancelToken::default().remaining(long), long);
        assert_eq!(
            CancelToken::default().within(Some(Duration::MAX)).ended(),
            None
        );
    }
}
