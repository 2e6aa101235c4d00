//! Following the caller: while one thread sends request after request, the workers share its processor.
//!
//! A request and its answer are two wake-ups, and waking a thread on another, idle processor costs more than the work
//! itself (most of all in a virtual machine). So when one thread's requests come in close succession, the workers are
//! bound to the processor it runs on. Binding alone is not enough: the kernel wakes the caller on an idle processor
//! (select_idle_sibling), and its own does not look idle while a worker is answering there. A processor that runs
//! nothing but `SCHED_IDLE` threads does look idle, so the workers have that policy meanwhile. A monitoring thread
//! keeps this state short: it moves the workers when the caller moves, it ends the state when requests come slowly for
//! any reason, and a request of any other thread ends it at once.
//!
//! Owns the workers' affinity and policy, and restores exactly the former values. Never fails a request: without the
//! privilege (CAP_SYS_NICE), without /proc, or with a caller in another PID namespace nothing happens. At rest nothing
//! runs.
//!
//! Lock: two mutexes, over the state and over the list of workers, never held over a system call (a worker that yields
//! may be off the processor for long, and any thread waiting for the lock with it).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::fuse::RequestObserver;
use crate::sys::sched::{SchedPolicy, may_stop_yielding, policy, set_policy, set_yielding};

/// The interval at which the monitoring thread checks whether to go on.
const MONITOR_PAUSE: Duration = Duration::from_millis(5);

/// The follower of callers.
#[derive(Debug)]
pub struct Follower {
    start: Instant,
    state: Mutex<FollowState>,
    changed: Condvar,
    workers: Mutex<Vec<u32>>,
}

#[derive(Debug, Default)]
struct FollowState {
    decision: FollowDecision,
    /// The caller being followed, and the workers' processor.
    followed: Option<(Arc<FollowedThread>, usize)>,
    /// True if the caller has moved to another processor.
    lost: bool,
}

thread_local! {
    /// True if this thread is in the list of workers.
    static IS_LISTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Follower {
    /// Starts the monitoring thread. `None` if following is not permitted or makes no sense.
    pub fn start() -> Option<Arc<Follower>> {
        let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        if !several || !may_yield() {
            return None;
        }
        let follower = Arc::new(Follower {
            start: Instant::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
            workers: Mutex::default(),
        });
        let shared = follower.clone();
        std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || shared.run())
            .ok()?;
        Some(follower)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            while !state.decision.following {
                self.changed.wait(&mut state);
            }
            let caller = state.decision.caller;
            drop(state);
            if self.follow(caller).is_none() {
                let now = self.now();
                let mut state = self.state.lock();
                state.followed = None;
                state.decision.end(now);
            }
        }
    }

    /// Follows a caller until it is time to stop; `None` if it cannot be followed.
    fn follow(&self, thread: u32) -> Option<()> {
        let caller = Arc::new(FollowedThread::find(thread)?);
        let mut leash = AffinityGuard::new(&self.workers.lock().clone())?;
        let mut tick = self.now() + MONITOR_PAUSE;
        loop {
            let processor = caller.processor()?;
            leash.bind(processor)?;
            let mut state = self.state.lock();
            state.followed = Some((caller.clone(), processor));
            state.lost = false;
            while state.decision.following && !state.lost {
                let now = self.now();
                if now >= tick {
                    state.decision.tick(now);
                    tick = now + MONITOR_PAUSE;
                } else {
                    self.changed.wait_for(&mut state, tick - now);
                }
            }
            if !state.decision.following || state.decision.caller != thread {
                state.followed = None;
                return Some(());
            }
        }
    }
}

impl RequestObserver for Follower {
    fn note_request(&self, caller: Option<u32>) {
        if !IS_LISTED.replace(true) {
            self.workers.lock().push(this_thread());
        }
        let now = self.now();
        let mut state = self.state.lock();
        match state.decision.request(now, caller) {
            NextMove::Nothing => return,
            NextMove::Changed => {}
            NextMove::Look => {
                let Some((caller, processor)) = state.followed.clone() else {
                    return;
                };
                drop(state);
                if caller.processor() == Some(processor) {
                    return;
                }
                self.state.lock().lost = true;
            }
        }
        self.changed.notify_one();
    }
}

/// A listener that does nothing.
#[derive(Debug)]
pub struct NoObserver;

impl RequestObserver for NoObserver {
    fn note_request(&self, _caller: Option<u32>) {}
}

/// The consequence of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextMove {
    Nothing,
    /// Check where the caller runs.
    Look,
    /// Following begins or ends.
    Changed,
}

/// The decision when to follow which caller and when to stop. Uses no clock and no system call.
#[derive(Debug)]
struct FollowDecision {
    following: bool,
    /// The thread of the current run of requests.
    caller: u32,
    /// The number of close requests in a row; while following, the number since the caller's processor was checked.
    streak: u32,
    /// The time of the last request.
    last: Duration,
    /// The number of requests since the last tick.
    since_tick: u32,
    /// The time when following began.
    since: Duration,
    /// The earliest time to follow again.
    not_before: Duration,
    /// The present hold-off after a mistake.
    hold_off: Duration,
}

impl Default for FollowDecision {
    fn default() -> FollowDecision {
        FollowDecision {
            following: false,
            caller: 0,
            streak: 0,
            last: Duration::ZERO,
            since_tick: 0,
            since: Duration::ZERO,
            not_before: Duration::ZERO,
            hold_off: FollowDecision::MIN_HOLD_OFF,
        }
    }
}

impl FollowDecision {
    /// The largest gap between close requests.
    const MAX_CLOSE_GAP: Duration = Duration::from_micros(200);
    /// The number of close requests in a row that starts following.
    const MIN_STREAK: u32 = 24;
    /// The number of requests in a tick below which following ends.
    const MIN_REQUESTS_PER_TICK: u32 = 20;
    /// The number of requests between checks of the caller's processor, which take 3 µs.
    const REQUESTS_PER_CHECK: u32 = 16;
    /// The hold-off after following had to end, and the maximum that it doubles to after several short periods.
    const MIN_HOLD_OFF: Duration = Duration::from_millis(4);
    const MAX_HOLD_OFF: Duration = Duration::from_millis(500);
    /// Slow requests so soon after the start also count as a mistake.
    const MAX_MISTAKE_TIME: Duration = Duration::from_millis(12);
    /// The length of a period of following that is worth it, and resets the hold-off.
    const MIN_WORTHWHILE_TIME: Duration = Duration::from_millis(50);

    /// Records a request. `caller` is the thread that waits for it, 0 if the kernel names none, `None` for work that
    /// is better done on another processor.
    fn request(&mut self, now: Duration, caller: Option<u32>) -> NextMove {
        self.since_tick += 1;
        if caller == Some(0) {
            return NextMove::Nothing;
        }
        let same = caller == Some(self.caller);
        if self.following {
            if same {
                self.streak = (self.streak + 1) % FollowDecision::REQUESTS_PER_CHECK;
                let look = self.streak == 0;
                return if look {
                    NextMove::Look
                } else {
                    NextMove::Nothing
                };
            }
            self.end(now);
            return NextMove::Changed;
        }
        if same && now.saturating_sub(self.last) <= FollowDecision::MAX_CLOSE_GAP {
            self.streak += 1;
        } else {
            self.streak = 0;
        }
        self.last = now;
        self.caller = caller.unwrap_or(0);
        if self.streak < FollowDecision::MIN_STREAK || now < self.not_before {
            return NextMove::Nothing;
        }
        self.following = true;
        self.since = now;
        self.streak = 0;
        self.since_tick = 0;
        NextMove::Changed
    }

    /// Stops following because another thread sent a request, or because the caller cannot be followed.
    fn end(&mut self, now: Duration) {
        self.following = false;
        self.streak = 0;
        self.hold_off = if now.saturating_sub(self.since) < FollowDecision::MIN_WORTHWHILE_TIME {
            (self.hold_off * 2).min(FollowDecision::MAX_HOLD_OFF)
        } else {
            FollowDecision::MIN_HOLD_OFF
        };
        self.not_before = now + self.hold_off;
    }

    /// Returns, once per tick, whether to go on.
    fn tick(&mut self, now: Duration) -> bool {
        let few = std::mem::take(&mut self.since_tick) < FollowDecision::MIN_REQUESTS_PER_TICK;
        if self.following && few {
            // So soon, most likely something else wants that processor, and a yielding worker then gets no time on it.
            let brief = now.saturating_sub(self.since) < FollowDecision::MAX_MISTAKE_TIME;
            self.following = false;
            self.streak = 0;
            self.hold_off = if brief {
                (self.hold_off * 2).min(FollowDecision::MAX_HOLD_OFF)
            } else {
                FollowDecision::MIN_HOLD_OFF
            };
            self.not_before = now + self.hold_off;
        }
        self.following
    }
}

/// A thread whose requests are answered: its open `/proc/…/stat`. Reading it fails once the thread has ended, even if
/// its id is reused.
#[derive(Debug)]
struct FollowedThread(File);

impl FollowedThread {
    fn find(thread: u32) -> Option<FollowedThread> {
        let stat = File::open(format!("/proc/{thread}/task/{thread}/stat"));
        stat.ok().map(FollowedThread)
    }

    /// Returns the processor it last ran on: field 39 of stat, the 37th after the name, which may contain any
    /// character.
    fn processor(&self) -> Option<usize> {
        let mut text = [0; 1024];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let text = text.get(..length)?;
        let name_ends = text.iter().rposition(|b| *b == b')')?;
        let field = text.get(name_ends + 2..)?.split(|b| *b == b' ').nth(36)?;
        let number = std::str::from_utf8(field).ok()?.parse().ok()?;
        (number < CpuSet::MAX_CPU).then_some(number)
    }
}

/// The workers made to yield and bound to one processor. Dropping it restores them.
struct AffinityGuard {
    workers: Vec<(u32, Pid, CpuSet, SchedPolicy)>,
    bound: bool,
}

impl AffinityGuard {
    fn new(workers: &[u32]) -> Option<AffinityGuard> {
        let found = workers.iter().map(|worker| {
            let pid = Pid::from_raw(worker.cast_signed())?;
            let before = sched_getaffinity(Some(pid)).ok()?;
            Some((*worker, pid, before, policy(*worker).ok()?))
        });
        Some(AffinityGuard {
            workers: found.collect::<Option<_>>()?,
            bound: false,
        })
    }

    fn bind(&mut self, processor: usize) -> Option<()> {
        let mut one = CpuSet::new();
        one.set(processor);
        for (worker, pid, ..) in &self.workers {
            sched_setaffinity(Some(*pid), &one).ok()?;
            if !self.bound {
                set_yielding(*worker).ok()?;
            }
        }
        self.bound = true;
        Some(())
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        for (worker, pid, mask, policy) in &self.workers {
            let back = set_policy(*worker, *policy).and(sched_setaffinity(Some(*pid), mask));
            if let Err(errno) = back {
                log::warn!("a worker's scheduling could not be put back: {errno}");
            }
        }
    }
}

fn this_thread() -> u32 {
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    tid.unsigned_abs()
}

/// Tests, on a short-lived thread, whether a yielding thread can be made an ordinary one again.
fn may_yield() -> bool {
    let tried = std::thread::spawn(|| may_stop_yielding(this_thread()));
    tried.join().unwrap_or(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Sends requests of one thread, `gap` apart; returns the time of the last one and whether following began.
    fn row(
        decision: &mut FollowDecision,
        from: Duration,
        caller: u32,
        n: u32,
        gap: u64,
    ) -> Duration {
        let mut now = from;
        for _ in 0..n {
            now += us(gap);
            decision.request(now, Some(caller));
        }
        now
    }

    #[test]
    fn close_requests_of_one_thread_are_followed() {
        let mut decision = FollowDecision::default();
        row(&mut decision, us(0), 7, FollowDecision::MIN_STREAK, 50);
        assert!(!decision.following);
        assert_eq!(decision.request(us(50 * 25), Some(7)), NextMove::Changed);
        assert!(decision.following && decision.caller == 7);
    }

    #[test]
    fn rare_requests_are_not() {
        let mut decision = FollowDecision::default();
        row(&mut decision, us(0), 7, 1000, 300);
        assert!(!decision.following);
    }

    #[test]
    fn neither_are_two_threads_that_take_turns() {
        let mut decision = FollowDecision::default();
        for n in 0..1000 {
            let step = decision.request(us(n * 20), Some(7 + (n % 2) as u32));
            assert_eq!(step, NextMove::Nothing);
        }
    }

    #[test]
    fn who_waits_for_nothing_does_not_count() {
        let mut decision = FollowDecision::default();
        let mut now = us(0);
        for _ in 0..40 {
            now = row(&mut decision, now, 7, 1, 30);
            decision.request(now, Some(0));
        }
        assert!(decision.following);
    }

    #[test]
    fn another_thread_ends_it_and_again_and_again_for_longer() {
        let mut decision = FollowDecision::default();
        let mut now = us(0);
        let mut waits = Vec::new();
        for _ in 0..12 {
            let from = now;
            while !decision.following {
                now = row(&mut decision, now, 7, 1, 50);
            }
            waits.push(now - from);
            now += us(10);
            assert_eq!(decision.request(now, Some(8)), NextMove::Changed);
            assert!(!decision.following);
        }
        assert!(waits.is_sorted(), "{waits:?}");
        assert!(*waits.last().unwrap() >= FollowDecision::MAX_HOLD_OFF);
        now = row(&mut decision, now + FollowDecision::MAX_HOLD_OFF, 7, 40, 50);
        // A state that lasted resets the hold-off.
        now += FollowDecision::MIN_WORTHWHILE_TIME;
        assert_eq!(decision.request(now, None), NextMove::Changed);
        assert_eq!(decision.hold_off, FollowDecision::MIN_HOLD_OFF);
    }

    #[test]
    fn slow_requests_end_it() {
        let mut decision = FollowDecision::default();
        let mut now = row(&mut decision, us(0), 7, 80, 50);
        assert!(decision.tick(now));
        now = row(&mut decision, now, 7, 10, 500);
        assert!(!decision.tick(now));
        assert!(!decision.following);
    }

    #[test]
    fn a_leash_leaves_nothing_behind() {
        if !may_yield() {
            crate::need::skip!("root", "changing a thread's policy back needs CAP_SYS_NICE");
        }
        let (send, received) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            send.send(this_thread()).unwrap();
            let _ = ended.recv();
        });
        let tid = received.recv().unwrap();
        let state = || {
            let pid = Pid::from_raw(tid.cast_signed());
            (sched_getaffinity(pid).unwrap(), policy(tid).unwrap())
        };
        let before = state();
        let mut leash = AffinityGuard::new(&[tid]).unwrap();
        let processor = FollowedThread::find(this_thread())
            .unwrap()
            .processor()
            .unwrap();
        leash.bind(processor).unwrap();
        assert_eq!(state().0.count(), 1);
        assert_ne!(state().1, before.1);
        drop(leash);
        assert_eq!(state(), before);
        // This processor does not exist.
        assert!(AffinityGuard::new(&[tid]).unwrap().bind(1000).is_none());
        assert_eq!(state(), before);
        drop(end);
        worker.join().unwrap();
    }
}
