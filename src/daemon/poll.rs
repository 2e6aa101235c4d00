//! Adaptive polling: while requests come closely, one worker asks for the next without sleeping.
//!
//! In a virtual machine an idle CPU is slow to wake, and a request costs what a wake-up costs. fuser tries a read again
//! on EAGAIN, so it is enough to switch `O_NONBLOCK` on for the descriptor of one worker (the others have clones of their
//! own), and off after a moment of quiet. At rest nothing runs: the thread that switches it off sleeps on a condition.
//!
//! Polling is for idle processors. Where others want this one, the poller waits for its turn, which the scheduler
//! counts; then polling ends, and is not tried again for a while.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::mountpoint::set_nonblocking;
use crate::fuse::Activity;

/// Requests that come within this of each other are close.
const CLOSE: u64 = 100_000; // ns
/// How many close requests in a row it takes.
const STREAK: u64 = 8;
/// Quiet for this long ends the polling; also how often it is looked at.
const QUIET: Duration = Duration::from_millis(1);
/// The part of its time that the poller may wait for a processor, as a divisor.
const WAITED: u64 = 8;
/// How long polling rests after others wanted the processor: at first, and at most.
const REST: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Switches polling on and off.
#[derive(Debug)]
pub struct Poller {
    device: OwnedFd,
    start: Instant,
    /// When the last request came, in nanoseconds since `start`.
    last: AtomicU64,
    streak: AtomicU64,
    on: AtomicBool,
    wanted: Mutex<bool>,
    changed: Condvar,
    /// The name of the thread that reads from `device`, and its number once a request has come to it.
    name: String,
    thread: AtomicU64,
}

thread_local! {
    /// Whether this thread has been asked whether it is the polling one.
    static ASKED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Poller {
    /// Starts the thread that ends the polling. `device` is a duplicate of the descriptor that the worker thread of this
    /// name reads from.
    ///
    /// # Errors
    /// What starting a thread says.
    pub fn start(device: OwnedFd, name: String) -> std::io::Result<Arc<Poller>> {
        let poller = Arc::new(Poller {
            device,
            start: Instant::now(),
            last: AtomicU64::new(0),
            streak: AtomicU64::new(0),
            on: AtomicBool::new(false),
            wanted: Mutex::new(false),
            changed: Condvar::new(),
            name,
            thread: AtomicU64::new(0),
        });
        let shared = poller.clone();
        std::thread::Builder::new()
            .name("poll".to_owned())
            .spawn(move || shared.run())?;
        Ok(poller)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(&self) {
        let mut rest = REST.0;
        loop {
            let mut wanted = self.wanted.lock();
            while !*wanted {
                self.changed.wait(&mut wanted);
            }
            drop(wanted);
            if set_nonblocking(&self.device, true).is_err() {
                return;
            }
            let crowded = self.watch_over();
            let _ = set_nonblocking(&self.device, false);
            if crowded {
                std::thread::sleep(rest);
                rest = (rest * 2).min(REST.1);
            } else {
                rest = REST.0;
            }
            *self.wanted.lock() = false;
            self.streak.store(0, Ordering::Relaxed);
            self.on.store(false, Ordering::Relaxed);
        }
    }

    /// Waits until the polling has to end. Returns whether others wanted the processor.
    fn watch_over(&self) -> bool {
        let mut before = (self.now(), self.waited());
        loop {
            std::thread::sleep(QUIET);
            let after = (self.now(), self.waited());
            if (after.1.saturating_sub(before.1)) * WAITED > after.0.saturating_sub(before.0) {
                return true;
            }
            before = after;
            let last = self.last.load(Ordering::Relaxed);
            if self.now().saturating_sub(last) >= QUIET.as_nanos() as u64 {
                return false;
            }
        }
    }

    /// How long the polling thread has waited for a processor, in nanoseconds: the second number in
    /// `/proc/self/task/TID/schedstat` (proc(5)). 0 where the kernel does not count it; then polling is never crowded.
    fn waited(&self) -> u64 {
        let thread = self.thread.load(Ordering::Relaxed);
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
        let text = text.unwrap_or_default();
        text.split(' ')
            .nth(1)
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    }
}

impl Activity for Poller {
    fn request(&self) {
        if !ASKED.replace(true) && std::thread::current().name() == Some(&self.name) {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            self.thread
                .store(u64::from(id.unsigned_abs()), Ordering::Relaxed);
        }
        let now = self.now();
        let last = self.last.swap(now, Ordering::Relaxed);
        if self.on.load(Ordering::Relaxed) {
            return;
        }
        if now.saturating_sub(last) > CLOSE {
            self.streak.store(0, Ordering::Relaxed);
        } else if self.streak.fetch_add(1, Ordering::Relaxed) >= STREAK
            && !self.on.swap(true, Ordering::Relaxed)
        {
            *self.wanted.lock() = true;
            self.changed.notify_one();
        }
    }
}

/// Does nothing: polling is off.
#[derive(Debug)]
pub struct Still;

impl Activity for Still {
    fn request(&self) {}
}
