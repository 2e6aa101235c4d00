//! Adaptive polling: while requests come closely, one worker asks for the next without sleeping.
//!
//! In a virtual machine an idle CPU is slow to wake, and a request costs what a wake-up costs. fuser tries a read again
//! on EAGAIN, so it is enough to switch `O_NONBLOCK` on for the descriptor of one worker (the others have clones of their
//! own), and off after a moment of quiet. At rest nothing runs: the thread that switches it off sleeps on a condition.
//!
//! Off unless asked for: where other programs want the processor it takes it from them, and the gain elsewhere has not
//! shown in the side-by-side benchmark (docs/ARCHITECTURE.md).

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
/// Quiet for this long ends the polling.
const QUIET: Duration = Duration::from_millis(1);

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
}

impl Poller {
    /// Starts the thread that ends the polling. `device` is a duplicate of the descriptor that one worker reads from.
    ///
    /// # Errors
    /// What starting a thread says.
    pub fn start(device: OwnedFd) -> std::io::Result<Arc<Poller>> {
        let poller = Arc::new(Poller {
            device,
            start: Instant::now(),
            last: AtomicU64::new(0),
            streak: AtomicU64::new(0),
            on: AtomicBool::new(false),
            wanted: Mutex::new(false),
            changed: Condvar::new(),
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
        loop {
            let mut wanted = self.wanted.lock();
            while !*wanted {
                self.changed.wait(&mut wanted);
            }
            drop(wanted);
            if set_nonblocking(&self.device, true).is_err() {
                return;
            }
            let quiet = u64::try_from(QUIET.as_nanos()).unwrap_or(u64::MAX);
            while self.now().saturating_sub(self.last.load(Ordering::Relaxed)) < quiet {
                std::thread::sleep(QUIET);
            }
            let _ = set_nonblocking(&self.device, false);
            *self.wanted.lock() = false;
            self.streak.store(0, Ordering::Relaxed);
            self.on.store(false, Ordering::Relaxed);
        }
    }
}

impl Activity for Poller {
    fn request(&self) {
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
