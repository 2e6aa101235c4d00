//! Making the digests of what lies in the trash, and of versions that are final, while nothing else is to be done.
//!
//! Owns what gets a digest, and when. The journal itself is the queue: a thread of its own reads it behind the requests, and goes
//! through each entry of the trash some seconds after its removal, when what belongs to a tree has been gathered in it. So no
//! request waits, no list of the trash is read that a removal might wait for, and no memory grows with what is still to be done.
//! The reading and hashing itself is left to a thread that yields to every other (`hashing.rs`). What is left to do when the session ends is done for so long at the most, and left out then; so is what a kill takes
//! away. `fsck` counts what has no digest.
//!
//! A file in the trash gets one when it is at rest: nobody has it open for writing, and it has no other name. The digest says after
//! which record it was made; whatever names the inode later ends its validity.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::World;
use super::digest_round::{On, Round, Work};
use super::finals::{Final, Finals};
use super::hashing::Hashing;
use super::root::Root;
use super::writers::Writers;
use crate::error::{Error, Result};
use crate::journal::Journal;

/// How many versions may wait; past it they are left out.
const VERSIONS: usize = 1 << 16;

/// How long what could not be done yet is left alone.
const LATER: Duration = Duration::from_secs(3);

/// How long is taken for them when a mount ends.
const AT_THE_END: Duration = Duration::from_secs(2);

/// How long, when somebody ends who worked on an unmounted store.
const AT_ONCE: Duration = Duration::from_millis(250);

/// Makes the digests of one session.
#[derive(Debug)]
pub struct Digests {
    pub(super) journal: Arc<Journal>,
    pub(super) root: Root,
    pub(super) state: OwnedFd,
    pub(super) session: String,
    writers: OnceLock<Box<dyn Writers>>,
    /// Versions that are final.
    pub(super) versions: Mutex<BTreeSet<u64>>,
    work: Mutex<Work>,
    ended: Arc<AtomicBool>,
}

impl Digests {
    pub(super) fn new(
        journal: &Arc<Journal>,
        root: &Root,
        state: impl AsFd,
        session: &str,
    ) -> Result<Digests> {
        let state = rustix::io::fcntl_dupfd_cloexec(state, 0).map_err(Error::os("fcntl"))?;
        Ok(Digests {
            journal: journal.clone(),
            root: root.again()?,
            state,
            session: session.to_owned(),
            writers: OnceLock::new(),
            versions: Mutex::default(),
            work: Mutex::default(),
            ended: Arc::default(),
        })
    }

    /// Says who has files open, and starts the thread. It works when the journal's own thread has seen records.
    pub fn start(self: &Arc<Digests>, writers: Box<dyn Writers>) {
        let _ = self.writers.set(writers);
        let weak = Arc::downgrade(self);
        self.work.lock().hashing = Some(Hashing::idle(self.ended.clone()));
        let run = move || {
            let mut more = false;
            loop {
                match more {
                    true => std::thread::park_timeout(LATER),
                    false => std::thread::park(),
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
            Ok(thread) => self.journal.tell(thread.thread().clone()),
            Err(error) => log::warn!("no thread to make digests: {error}"),
        }
    }

    /// Makes what is left to make, for a while at the most; for the end of a session. `writers` is asked where nobody was named
    /// before.
    pub(super) fn finish(&self, writers: &dyn Writers, mounted: bool) {
        let until = Instant::now() + if mounted { AT_THE_END } else { AT_ONCE };
        self.ended.store(true, Ordering::Release);
        self.journal.tell_of_records();
        let writers = self.writers.get().map_or(writers, |writers| &**writers);
        self.work(writers, true, &mut || Instant::now() < until);
    }

    /// Does what can be done while `on` says so, `all` of it also where it is young. Returns whether something is left that
    /// may be done later.
    fn work(&self, writers: &dyn Writers, all: bool, on: On<'_>) -> bool {
        // The thread does not keep whoever ends the session: it asks after each chunk whether to go on.
        let Some(mut work) = self.work.try_lock_for(Duration::from_secs(1)) else {
            return true;
        };
        if all {
            work.hashing = None;
        }
        let mut round = Round {
            digests: self,
            work: &mut work,
            writers,
        };
        let done = round.some(all, on);
        done.unwrap_or_else(|error| {
            log::warn!("digests: {error}");
            false
        })
    }
}

impl Finals for Arc<Digests> {
    fn became_final(&self, version: &Final<'_>) {
        let mut versions = self.versions.lock();
        if versions.len() < VERSIONS {
            versions.insert(version.n);
        }
        drop(versions);
        self.journal.tell_of_records();
    }
}

impl World {
    /// Has records sealed now and then, and written out soon after they are made, for the rest of the session
    /// ([`Journal::attend`]).
    pub fn attend_records(&self) {
        self.journal.attend();
    }

    /// Seals what has been recorded, for somebody who is about to rely on it. Where that cannot be done it is read as it is.
    pub fn seal(&self) {
        if let Err(error) = self.journal.seal() {
            log::warn!("the journal could not be sealed: {error}");
        }
    }

    /// Returns what makes digests of contents that change no more.
    pub fn digests(&self) -> &Arc<Digests> {
        &self.digests
    }
}
