//! Background computation of digests, of the trash and of final versions.
//!
//! Owns the choice of contents that get a digest, and the time. The journal itself is the queue: a thread reads it
//! behind the requests and processes each trash entry a few seconds after its removal, when the rest of its tree has
//! been gathered in it. So no request waits, no listing of the trash blocks a removal, and no queue grows in memory.
//! The reading and hashing is left to a thread that yields to all others (`hashing.rs`). The end of a session works on
//! the rest for a limited time and leaves out the remainder; a kill leaves out more. `fsck` counts what has no digest.
//!
//! A file in the trash gets a digest when it is at rest: not open for writing, and without another name. The digest
//! names the last record before it; any later record that names the inode ends its validity.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::journal::{ContentDigest, DigestSubject, Journal};
use crate::world::keep::digest_round::{ContinueCheck, DigestProgress, DigestRound, DigestSource};
use crate::world::keep::finalize::{FinalListener, FinalVersion};
use crate::world::keep::hashing::{HashWorker, YieldingThread};
use crate::world::keep::open_writers::OpenWriters;
use crate::world::root::Root;

/// The number of versions that may wait; any more are left out.
const MAX_WAITING_VERSIONS: usize = 1 << 16;

/// The pause before work that could not be done is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(3);

/// The time for remaining digests when a mount ends.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The time for remaining digests when a command on an unmounted store ends.
const OFFLINE_END_LIMIT: Duration = Duration::from_millis(250);

/// The digests of one session, and the thread that computes them.
#[derive(Debug)]
pub struct SessionDigests {
    contents: DigestSource,
    writers: OnceLock<Box<dyn OpenWriters>>,
    work: Mutex<DigestProgress>,
    ended: Arc<AtomicBool>,
    /// The thread that yields, once it is started.
    yielding: OnceLock<Arc<YieldingThread>>,
}

impl SessionDigests {
    pub(in crate::world) fn new(
        journal: &Arc<Journal>,
        root: &Root,
        state: impl AsFd,
        session: &str,
    ) -> Result<SessionDigests> {
        let state = rustix::io::fcntl_dupfd_cloexec(state, 0).map_err(Error::os("fcntl"))?;
        Ok(SessionDigests {
            contents: DigestSource {
                journal: journal.clone(),
                root: root.duplicate()?,
                state,
                session: session.to_owned(),
                versions: Mutex::default(),
            },
            writers: OnceLock::new(),
            work: Mutex::default(),
            ended: Arc::default(),
            yielding: OnceLock::new(),
        })
    }

    /// Starts the thread, with the table of open files. It works after the journal's own thread has seen records.
    pub fn start(self: &Arc<SessionDigests>, writers: Box<dyn OpenWriters>) {
        let _ = self.writers.set(writers);
        let weak = Arc::downgrade(self);
        let hashing = HashWorker::start_idle(self.ended.clone());
        if let Some(thread) = hashing.thread() {
            let _ = self.yielding.set(thread);
        }
        self.work.lock().hashing = Some(hashing);
        let run = move || {
            let mut more = false;
            loop {
                if more {
                    std::thread::park_timeout(RETRY_PAUSE)
                } else {
                    std::thread::park()
                }
                let Some(digests) = weak.upgrade() else {
                    return;
                };
                if digests.ended.load(Ordering::Acquire) {
                    return;
                }
                let Some(writers) = digests.writers.get() else {
                    return;
                };
                let ended = &digests.ended;
                more = digests.work(&**writers, false, &mut || !ended.load(Ordering::Acquire));
            }
        };
        let thread = std::thread::Builder::new().name("digests".to_owned());
        match thread.spawn(run) {
            Ok(thread) => self
                .contents
                .journal
                .set_record_watcher(thread.thread().clone()),
            Err(error) => log::warn!("no thread to make digests: {error}"),
        }
    }

    /// Computes the remaining digests at the end of a session, for a limited time. `writers` is used if the thread was
    /// never started.
    pub(in crate::world) fn finish(&self, writers: &dyn OpenWriters, mounted: bool) {
        let until = Instant::now()
            + if mounted {
                END_LIMIT
            } else {
                OFFLINE_END_LIMIT
            };
        self.ended.store(true, Ordering::Release);
        // The thread has to run to see `ended`, and to end with the process.
        if let Some(thread) = self.yielding.get() {
            thread.end();
        }
        self.contents.journal.wake_record_watcher();
        let writers = self.writers.get().map_or(writers, |writers| &**writers);
        self.work(writers, true, &mut || Instant::now() < until);
    }

    /// Works while `on` allows; with `at_end`, young entries too. Returns whether something is left to do later.
    fn work(&self, writers: &dyn OpenWriters, at_end: bool, on: ContinueCheck<'_>) -> bool {
        // The thread does not delay a session's end: it checks after each chunk whether to go on.
        let Some(mut work) = self.work.try_lock_for(Duration::from_secs(1)) else {
            return true;
        };
        if at_end {
            work.hashing = None;
        }
        let mut round = DigestRound {
            contents: &self.contents,
            work: &mut work,
            writers,
            at_end,
        };
        let done = round.work_on_some(on);
        done.unwrap_or_else(|error| {
            log::warn!("digests: {error}");
            false
        })
    }
}

impl FinalListener for Arc<SessionDigests> {
    fn became_final(&self, version: &FinalVersion<'_>) {
        let mut versions = self.contents.versions.lock();
        if versions.len() < MAX_WAITING_VERSIONS {
            versions.insert(version.n);
        }
        drop(versions);
        self.contents.journal.wake_record_watcher();
    }

    fn will_shorten(&self, n: u64) {
        self.contents.versions.lock().remove(&n);
        // A daemon that is killed before there is another digest must not leave one that tells of damage.
        let none = ContentDigest {
            session: None,
            of: DigestSubject::Version { n },
            size: 0,
            sha256: String::new(),
        };
        self.contents.journal.add_digests(Some(none));
        if let Err(error) = self.contents.journal.seal() {
            log::debug!("the journal could not be sealed: {error}");
        }
    }
}
