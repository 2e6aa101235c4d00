//! The acts that take long and go on aside, on threads of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::SharedState;

/// The acts under way.
#[derive(Debug, Default)]
pub struct AsideActs {
    count: Mutex<usize>,
    ended: Condvar,
}

/// An act under way, until it is dropped.
#[derive(Debug)]
pub(super) struct AsideGuard(Arc<SharedState>);

impl AsideActs {
    /// Waits until no act is under way, for a limited time.
    pub(super) fn wait_for_all(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut count = self.count.lock();
        while *count > 0 && !self.ended.wait_until(&mut count, until).timed_out() {}
    }
}

impl AsideGuard {
    pub(super) fn new(shared: Arc<SharedState>) -> AsideGuard {
        *shared.aside.count.lock() += 1;
        AsideGuard(shared)
    }
}

impl Drop for AsideGuard {
    fn drop(&mut self) {
        *self.0.aside.count.lock() -= 1;
        self.0.aside.ended.notify_all();
    }
}
