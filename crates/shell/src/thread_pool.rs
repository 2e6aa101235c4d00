//! A thread pool for the stages of pipelines. Idle threads wait for the next pipeline: starting one takes longer than
//! most stages.
//!
//! Lock: one mutex over the list of idle threads; nothing else is done under it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use trumanfs_executor::cancel::CancelToken;

/// The maximum number of idle threads; more than a pipeline's stages are needed only for nested pipelines.
const MAX_IDLE: usize = 10;

/// The length of a wait between two checks of the token.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

type PoolJob = Box<dyn FnOnce() + Send>;

/// The idle threads. They end with the last clone of the pool.
#[derive(Clone, Default)]
pub(super) struct ThreadPool(Arc<Mutex<Vec<Sender<PoolJob>>>>);

/// A job in progress.
pub(super) struct RunningJob<T> {
    done: Receiver<T>,
    worker: Sender<PoolJob>,
    threads: ThreadPool,
}

impl ThreadPool {
    /// Starts a job on a thread of its own.
    ///
    /// # Errors
    /// Those of pthread_create(3).
    pub(super) fn start<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<RunningJob<T>> {
        let (tell, done) = channel();
        let mut job: PoolJob = Box::new(move || {
            // The job's captures are dropped before its result is sent: the receiver may then hold the last reference
            // to a home.
            let result = job();
            let _ = tell.send(result);
        });
        loop {
            let waiting = self.0.lock().pop();
            let worker = match waiting {
                Some(worker) => worker,
                None => spawn_worker()?,
            };
            match worker.send(job) {
                Ok(()) => {
                    let threads = self.clone();
                    return Ok(RunningJob {
                        done,
                        worker,
                        threads,
                    });
                }
                // The thread ended in a panic.
                Err(SendError(back)) => job = back,
            }
        }
    }
}

/// The end of a job.
pub(super) enum JoinResult<T> {
    /// The job's result.
    Done(T),
    /// The thread panicked.
    Panicked,
    /// The job has not ended although it had to; its thread has left the pool.
    LeftBehind,
}

impl<T> RunningJob<T> {
    /// Waits for the job to end. Returns its result; `None` where it panicked.
    pub(super) fn join(self) -> Option<T> {
        let result = self.done.recv().ok()?;
        self.return_to_pool();
        Some(result)
    }

    /// Waits for the job to end; for no longer than `grace` after its token has ended.
    pub(super) fn join_within(self, cancel: &CancelToken, grace: Duration) -> JoinResult<T> {
        let mut ended: Option<Instant> = None;
        loop {
            match self.done.recv_timeout(CHECK_INTERVAL) {
                Ok(result) => {
                    self.return_to_pool();
                    return JoinResult::Done(result);
                }
                Err(RecvTimeoutError::Disconnected) => return JoinResult::Panicked,
                Err(RecvTimeoutError::Timeout) if cancel.ended().is_none() => {}
                Err(RecvTimeoutError::Timeout) => {
                    if ended.get_or_insert_with(Instant::now).elapsed() >= grace {
                        return JoinResult::LeftBehind;
                    }
                }
            }
        }
    }

    /// Returns the thread to the pool.
    fn return_to_pool(self) {
        let mut waiting = self.threads.0.lock();
        if waiting.len() < MAX_IDLE {
            waiting.push(self.worker);
        }
    }
}

fn spawn_worker() -> io::Result<Sender<PoolJob>> {
    let (worker, jobs) = channel::<PoolJob>();
    std::thread::Builder::new().spawn(move || {
        for job in jobs {
            job();
        }
    })?;
    Ok(worker)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::thread::{ThreadId, current};

    use super::*;

    fn id(threads: &ThreadPool) -> ThreadId {
        threads.start(|| current().id()).unwrap().join().unwrap()
    }

    #[test]
    fn thread_is_reused() {
        let threads = ThreadPool::default();
        let first = id(&threads);
        assert_eq!(id(&threads), first);
        assert_ne!(current().id(), first);
    }

    #[test]
    fn nested_and_parallel_jobs_have_their_own_threads() {
        let threads = ThreadPool::default();
        let inner = threads.clone();
        let outer = threads.start(move || (current().id(), id(&inner))).unwrap();
        let beside = id(&threads);
        let (outer, within) = outer.join().unwrap();
        assert_ne!(outer, within);
        assert_ne!(outer, beside);
    }

    #[test]
    fn panicking_job_costs_only_its_thread() {
        let threads = ThreadPool::default();
        let first = id(&threads);
        let gone = threads.start(|| -> () { panic!("meant") }).unwrap();
        assert_eq!(gone.join(), None);
        assert_ne!(id(&threads), first);
    }

    #[test]
    fn job_drops_its_captures_before_it_ends() {
        let threads = ThreadPool::default();
        for _ in 0..1000 {
            let held = Arc::new(());
            let job = held.clone();
            threads
                .start(move || drop(Arc::downgrade(&job)))
                .unwrap()
                .join()
                .unwrap();
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }
}
