//! [`Cancel`]: the token that ends a request, at a time or when somebody says so.
//!
//! Every wait and every loop of an executor looks at it. Nothing ends the process: a server has other requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Why a request has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its time is up.
    Late,
    /// Somebody said so.
    Cancelled,
}

/// In the place of a signal's number where it was no signal: a number that none has.
const CALLER: usize = 1000;

/// When a request has to end. Clones end together.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    /// 0, or the number of the signal that ends the request, or [`CALLER`].
    cancelled: Arc<AtomicUsize>,
    end: Option<Instant>,
}

impl Cancel {
    /// Makes a token that ends when this is no longer 0: a signal's handler may put the signal's number there.
    pub fn by(signal: Arc<AtomicUsize>) -> Cancel {
        Cancel {
            cancelled: signal,
            end: None,
        }
    }

    /// Returns this token with an end so long from now, unless it has one that comes before.
    #[must_use]
    pub fn within(&self, time: Option<Duration>) -> Cancel {
        let end = time.and_then(|time| Instant::now().checked_add(time));
        let end = [self.end, end].into_iter().flatten().min();
        let cancelled = self.cancelled.clone();
        Cancel { cancelled, end }
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

    /// Returns why the request has to end, once it has to.
    pub fn ended(&self) -> Option<Ended> {
        if self.cancelled.load(Ordering::Relaxed) != 0 {
            return Some(Ended::Cancelled);
        }
        let late = self.end.is_some_and(|end| Instant::now() >= end);
        late.then_some(Ended::Late)
    }

    /// Returns how long a wait may last that looks at this again after `most`: no longer than the request.
    pub fn left(&self, most: Duration) -> Duration {
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
        let cancel = Cancel::default();
        let other = cancel.within(Some(Duration::from_secs(3600)));
        assert_eq!((cancel.ended(), other.ended()), (None, None));
        other.clone().cancel();
        assert_eq!(cancel.ended(), Some(Ended::Cancelled));
        assert_eq!(other.ended(), Some(Ended::Cancelled));
        assert_eq!(other.signal(), None);
        let by_signal = Cancel::by(Arc::new(AtomicUsize::new(15))).within(None);
        assert_eq!(by_signal.ended(), Some(Ended::Cancelled));
        assert_eq!(by_signal.signal(), Some(15));
    }

    #[test]
    fn the_first_end_counts() {
        let long = Duration::from_secs(3600);
        let cancel = Cancel::default().within(Some(Duration::ZERO));
        assert_eq!(cancel.ended(), Some(Ended::Late));
        assert_eq!(cancel.within(Some(long)).ended(), Some(Ended::Late));
        assert_eq!(cancel.left(long), Duration::ZERO);
        assert_eq!(Cancel::default().left(long), long);
        assert_eq!(Cancel::default().within(Some(Duration::MAX)).ended(), None);
    }
}
