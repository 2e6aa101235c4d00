//! Where digests are made: at once, or by a thread that yields to every other.
//!
//! That thread takes no lock of anybody's and opens nothing: under load it may not run for a second, and nobody may wait for it
//! then but whoever gave it a file to read.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use super::digest::{Sum, of_file, of_version};
use crate::error::Result;

/// What a digest is to be made of.
#[derive(Debug)]
pub(super) enum Job {
    /// An open file.
    File(File),
    /// A version, in the directory of its session's.
    Version(OwnedFd, u64),
}

/// What comes of it; `None` where there was no time, or nothing there.
type Answer = Result<Option<Sum>>;

/// Who makes them.
#[derive(Debug)]
pub(super) enum Hashing {
    /// Whoever wants them.
    Here,
    /// The thread that yields.
    Idle(SyncSender<(Job, SyncSender<Answer>)>),
}

impl Hashing {
    /// Starts the thread, which gives up when `ended` says so; without it, whoever wants them makes them.
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

    /// Makes a digest, and waits for it.
    ///
    /// # Errors
    /// What reading says.
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
