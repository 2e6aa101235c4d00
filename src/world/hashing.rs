//! The place where digests are computed: the calling thread, or a thread that yields to every other.
//!
//! The yielding thread takes nobody's lock and opens nothing: under load it may not run for a second, and then only
//! the thread that gave it a file may wait for it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use super::digest::{Sum, of_file, of_version};
use crate::error::Result;

/// The input of a digest.
#[derive(Debug)]
pub(super) enum Job {
    /// An open file.
    File(File),
    /// A version in the directory of its session.
    Version(OwnedFd, u64),
}

/// The result; `None` if time ran out or the content is missing.
type Answer = Result<Option<Sum>>;

/// The thread that computes digests.
#[derive(Debug)]
pub(super) enum Hashing {
    /// The calling thread.
    Here,
    /// The yielding thread.
    Idle(SyncSender<(Job, SyncSender<Answer>)>),
}

impl Hashing {
    /// Starts the thread, which gives up when `ended` is set. If it cannot be started, callers compute their own
    /// digests.
    pub(super) fn idle(ended: Arc<AtomicBool>) -> Hashing {
        let (jobs, given) = sync_channel::<(Job, SyncSender<Answer>)>(0);
        let run = move || {
            if let Err(errno) = crate::sys::sched::set_yielding(0) {
                log::debug!("digests are not made at the lowest priority: {errno}");
            }
            let _ = crate::sys::sched::set_idle_reads();
            for (job, answer) in given {
                let sum = make(&job, &mut || !ended.load(Ordering::Acquire));
                let _ = answer.send(sum);
            }
        };
        let thread = std::thread::Builder::new().name("hashing".to_owned());
        match thread.spawn(run) {
            Ok(_) => Hashing::Idle(jobs),
            Err(error) => {
                log::warn!("no thread that yields: {error}");
                Hashing::Here
            }
        }
    }

    /// Computes a digest and waits for it.
    ///
    /// # Errors
    /// Any error from reading.
    pub(super) fn make(&self, job: Job, on: &mut dyn FnMut() -> bool) -> Answer {
        let Hashing::Idle(jobs) = self else {
            return make(&job, on);
        };
        let (answer, answered) = sync_channel(1);
        let sent = jobs.send((job, answer));
        let sum = sent.ok().and_then(|()| answered.recv().ok());
        sum.unwrap_or(Ok(None))
    }
}

fn make(job: &Job, on: &mut dyn FnMut() -> bool) -> Answer {
    match job {
        Job::File(file) => of_file(file, &mut |_| on()),
        Job::Version(dir, n) => of_version(dir, *n, &mut |_| on()),
    }
}
