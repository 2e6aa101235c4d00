//! The place where digests are computed: the calling thread, or a thread that yields to every other.
//!
//! The yielding thread takes no lock that another thread takes, and opens nothing: under load it may not run for
//! seconds, and then only the thread that gave it a file may wait for it. A process ends with the last of its threads,
//! so this one yields only while it has work, and no longer once the session ends. Small inputs are hashed by the
//! calling thread: handing one over takes two switches between threads and two changes of policy, several times the
//! cost of reading and hashing it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;

use crate::error::Result;
use crate::name::Name;
use crate::sys::sched;
use crate::world::keep::digest::{SizedDigest, of_file, of_version};
use crate::world::root::{stat_at, stat_fd};
use crate::world::store::layout::version_name;

/// The input of a digest.
#[derive(Debug)]
pub(in crate::world) enum HashInput {
    /// An open file.
    File(File),
    /// A version in the directory of its session.
    Version(OwnedFd, u64),
}

/// The number of bytes up to which an input is small.
const SMALL_INPUT_BYTES: u64 = 8 << 10;

impl HashInput {
    /// Returns whether the calling thread computes the digest.
    fn is_small(&self) -> bool {
        match self {
            HashInput::File(file) => {
                stat_fd(file.as_fd()).is_ok_and(|meta| meta.size <= SMALL_INPUT_BYTES)
            }
            // A version that is kept block by block has the size of its file, and mostly a few blocks.
            HashInput::Version(dir, n) => Name::new(version_name(*n).as_bytes())
                .and_then(|name| stat_at(dir.as_fd(), name))
                .is_ok_and(|meta| {
                    meta.size <= SMALL_INPUT_BYTES
                        || (1..=SMALL_INPUT_BYTES).contains(&(meta.blocks * 512))
                }),
        }
    }
}

/// The result; `None` if time ran out or the content is missing.
type HashResult = Result<Option<SizedDigest>>;

/// The thread that computes digests.
#[derive(Debug)]
pub(in crate::world) enum HashWorker {
    /// The calling thread.
    Here,
    /// The yielding thread.
    Idle(SyncSender<HashRequest>, Arc<YieldingThread>),
}

/// The nice value of a thread that could not stop yielding. With a higher one it delays the process's end for seconds
/// (1.5 to 3 with 19 and 20 busy processes).
const NICE: i32 = 10;

type HashRequest = (HashInput, SyncSender<HashResult>);

/// A thread whose policy is `SCHED_IDLE` while it works. Other threads set the policy: a thread that did so itself
/// might be stopped on the way back.
#[derive(Debug)]
pub(in crate::world) struct YieldingThread {
    thread: u32,
    /// The policy to come back to; `None` if that is not permitted. Then the thread has [`NICE`] for good, which lets
    /// it run a little even under load.
    usual: Option<sched::SchedPolicy>,
    /// True once the thread yields no more. Held while the policy is set, which never blocks.
    ended: Mutex<bool>,
}

impl YieldingThread {
    fn of(thread: u32) -> YieldingThread {
        let usual = if sched::may_stop_yielding(thread) {
            sched::policy(thread).ok()
        } else {
            None
        };
        if usual.is_none() {
            let pid = rustix::process::Pid::from_raw(thread.cast_signed());
            let _ = rustix::process::setpriority_process(pid, NICE);
        }
        YieldingThread {
            thread,
            usual,
            ended: Mutex::new(false),
        }
    }

    fn begin(&self) {
        let ended = self.ended.lock();
        if !*ended
            && self.usual.is_some()
            && let Err(errno) = sched::set_yielding(self.thread)
        {
            log::debug!("digests are not made at the lowest priority: {errno}");
        }
    }

    fn rest(&self) {
        if let Some(usual) = self.usual
            && let Err(errno) = sched::set_policy(self.thread, usual)
        {
            log::debug!("the thread that makes digests keeps yielding: {errno}");
        }
    }

    /// Makes the thread an ordinary one for good, so that the end of the process does not wait for it.
    pub(in crate::world) fn end(&self) {
        *self.ended.lock() = true;
        self.rest();
    }
}

impl HashWorker {
    /// Starts the thread, which gives up when `ended` is set. If it cannot be started, callers compute their own
    /// digests.
    pub(in crate::world) fn start_idle(ended: Arc<AtomicBool>) -> HashWorker {
        let (jobs, given) = sync_channel::<HashRequest>(0);
        let (number, numbered) = sync_channel(1);
        let thread = std::thread::Builder::new().name("hashing".to_owned());
        let started = thread.spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            let _ = number.send(tid.unsigned_abs());
            serve_requests(&given, &ended);
        });
        match (started, numbered.recv()) {
            (Ok(_), Ok(thread)) => HashWorker::Idle(jobs, Arc::new(YieldingThread::of(thread))),
            (Err(error), _) => {
                log::warn!("no thread that yields: {error}");
                HashWorker::Here
            }
            (Ok(_), Err(_)) => HashWorker::Here,
        }
    }

    /// Returns the thread, if there is one.
    pub(in crate::world) fn thread(&self) -> Option<Arc<YieldingThread>> {
        match self {
            HashWorker::Here => None,
            HashWorker::Idle(_, thread) => Some(thread.clone()),
        }
    }

    /// Computes a digest and waits for it.
    ///
    /// # Errors
    /// Any error from reading.
    pub(in crate::world) fn compute_digest(
        &self,
        job: HashInput,
        on: &mut dyn FnMut() -> bool,
    ) -> HashResult {
        let (jobs, thread) = match self {
            HashWorker::Idle(jobs, thread) if !job.is_small() => (jobs, thread),
            HashWorker::Idle(..) | HashWorker::Here => return compute_digest(&job, on),
        };
        let (answer, answered) = sync_channel(1);
        thread.begin();
        let sent = jobs.send((job, answer));
        let sum = sent.ok().and_then(|()| answered.recv().ok());
        thread.rest();
        sum.unwrap_or(Ok(None))
    }
}

fn serve_requests(given: &Receiver<HashRequest>, ended: &AtomicBool) {
    let _ = sched::set_idle_reads();
    while let Ok((job, answer)) = given.recv() {
        let sum = compute_digest(&job, &mut || !ended.load(Ordering::Acquire));
        let _ = answer.send(sum);
    }
}

fn compute_digest(job: &HashInput, on: &mut dyn FnMut() -> bool) -> HashResult {
    match job {
        HashInput::File(file) => of_file(file, &mut |_| on()),
        HashInput::Version(dir, n) => of_version(dir, *n, &mut |_| on()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A daemon at rest once took 13 seconds to end where others wanted its processors (16 busy loops in its cgroup):
    /// the thread yielded from its start, and so it did when it had to end.
    #[test]
    fn the_thread_yields_while_it_works_and_no_longer_at_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SMALL_INPUT_BYTES + 1).unwrap();
        let big = tempfile::tempfile().unwrap();
        for at in 0..256 {
            std::os::unix::fs::FileExt::write_all_at(&big, &[7; 1 << 18], at << 18).unwrap();
        }
        let ended = Arc::new(AtomicBool::new(false));
        let hashing = HashWorker::start_idle(ended.clone());
        let thread = hashing.thread().unwrap();
        if thread.usual.is_none() {
            crate::need::skip!("root", "changing a thread's policy back needs CAP_SYS_NICE");
        }
        let policy = || sched::policy(thread.thread).unwrap();
        let usual = policy();
        assert_eq!(thread.usual, Some(usual));
        let sum = hashing
            .compute_digest(HashInput::File(file), &mut || true)
            .unwrap();
        assert_eq!(sum.unwrap().0, SMALL_INPUT_BYTES + 1);
        assert_eq!(policy(), usual, "after its work");
        std::thread::scope(|threads| {
            let work = threads.spawn(|| hashing.compute_digest(HashInput::File(big), &mut || true));
            let limit = Instant::now() + Duration::from_secs(20);
            while policy() == usual {
                assert!(
                    !work.is_finished() && Instant::now() < limit,
                    "never yields"
                );
                std::thread::yield_now();
            }
            ended.store(true, Ordering::Release);
            thread.end();
            assert_eq!(policy(), usual, "at the end, with work left");
            let _ = work.join().unwrap().unwrap();
        });
        // No work makes it yield again.
        thread.begin();
        assert_eq!(policy(), usual);
    }

    /// A removed file cost 33 µs of processor time behind the reply, most of which went into handing it over.
    #[test]
    fn what_is_small_is_not_handed_over() {
        let hashing = HashWorker::start_idle(Arc::default());
        let jobs = match &hashing {
            HashWorker::Idle(jobs, _) => Some(jobs),
            HashWorker::Here => None,
        };
        // The thread is busy: nobody takes its answer.
        let (answer, _answered) = sync_channel(0);
        let empty = || tempfile::tempfile().unwrap();
        jobs.unwrap()
            .send((HashInput::File(empty()), answer))
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create_new(dir.path().join(version_name(7))).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"former", 0).unwrap();
        file.set_len(1 << 30).unwrap();
        std::fs::write(
            dir.path().join(crate::world::store::layout::map_name(7)),
            "0 4096\n",
        )
        .unwrap();
        let versions = std::fs::File::open(dir.path()).unwrap().into();
        let sum = hashing.compute_digest(HashInput::Version(versions, 7), &mut || true);
        assert_eq!(sum.unwrap().unwrap().0, 1 << 30);
        let sum = hashing
            .compute_digest(HashInput::File(empty()), &mut || true)
            .unwrap();
        assert_eq!(sum.unwrap().0, 0);
    }
}
