//! [`InterruptSignals`]: signals that end a request instead of the process, so that the request still has an outcome, a line in
//! the audit log and a run that ends.
//!
//! Owns when a signal means what: while a request is under way the first one ends that, and the next one the process; at
//! any other time the first one ends the process. A signal that is ignored stays so (nohup(1)).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use super::cancel::CancelToken;
use crate::sys::signal::{end_at_next, is_ignored};

/// The signals that people and programs send to end a process, and whose default action is that.
pub const SIGNALS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Signals of this process, as those of its requests. One for the whole process, made before the first request.
#[derive(Debug)]
pub struct InterruptSignals {
    /// The signal that ends the request, or 0.
    cancelled: Arc<AtomicUsize>,
    /// True if the next signal ends the process.
    ends_process: Arc<AtomicBool>,
}

impl InterruptSignals {
    /// Installs the handlers of these signals.
    ///
    /// # Errors
    /// Errors of `sigaction(2)`.
    pub fn on(signals: &[i32]) -> io::Result<InterruptSignals> {
        let cancelled = Arc::new(AtomicUsize::new(0));
        let ends_process = Arc::new(AtomicBool::new(true));
        for signal in signals
            .iter()
            .copied()
            .filter(|signal| !is_ignored(*signal))
        {
            end_at_next(signal, ends_process.clone())?;
            flag::register_usize(signal, cancelled.clone(), number(signal))?;
        }
        Ok(InterruptSignals {
            cancelled,
            ends_process,
        })
    }

    /// Carries out a request, whose token these signals end. Returns what comes of it, and whether a signal came.
    pub fn during<T>(&self, request: impl FnOnce(CancelToken) -> T) -> (T, bool) {
        self.cancelled.store(0, Ordering::Relaxed);
        self.ends_process.store(false, Ordering::SeqCst);
        let outcome = request(CancelToken::from_signal(self.cancelled.clone()));
        let came = self.ends_process.swap(true, Ordering::SeqCst);
        (outcome, came)
    }

    /// Has another signal end the request that is under way, and do no more than that.
    ///
    /// # Errors
    /// Errors of `sigaction(2)`.
    pub fn add(&self, signal: i32) -> io::Result<()> {
        flag::register_usize(signal, self.cancelled.clone(), number(signal)).map(drop)
    }
}

fn number(signal: i32) -> usize {
    signal.unsigned_abs() as usize
}
