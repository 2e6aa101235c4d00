//! The disk space that versions take, and its limit (`--keep-max`).
//!
//! At the limit a version cannot be made, so the write that needs it fails with `ENOSPC`. With `--keep-evict`, other
//! versions are evicted instead (`evict.rs`).
//!
//! Lock: one mutex over the set of versions being written, never held over a system call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::{Error, Result};

/// A request for a number of bytes, and the channel for the answer: true if there is more space now.
pub(in crate::world) type SpaceRequest = (u64, SyncSender<bool>);

/// The divisor of the quota that gives the part left for needed versions.
const SPARE_DIVISOR: u64 = 8;

/// The quota for versions.
#[derive(Debug, Default)]
pub struct VersionQuota {
    used: AtomicU64,
    max: Option<u64>,
    refused: AtomicU64,
    /// The thread that evicts versions.
    evict: OnceLock<Sender<SpaceRequest>>,
    /// Versions of this session still being made or written, and by how many writers.
    live: Mutex<HashMap<u64, u32>>,
}

impl VersionQuota {
    /// Creates the quota of a session.
    pub(in crate::world) fn new(max: Option<u64>) -> Arc<VersionQuota> {
        Arc::new(VersionQuota {
            max,
            ..VersionQuota::default()
        })
    }

    /// Sets the thread that is asked for space at the limit.
    pub(in crate::world) fn evict_by(&self, evictor: Sender<SpaceRequest>) {
        let _ = self.evict.set(evictor);
    }

    pub(in crate::world) fn max(&self) -> Option<u64> {
        self.max
    }

    /// Takes space for a number of bytes.
    ///
    /// # Errors
    /// `ENOSPC` at the limit.
    pub(in crate::world) fn take(&self, bytes: u64) -> Result<()> {
        loop {
            let used = self.used.fetch_add(bytes, Ordering::Relaxed);
            if self.max.is_none_or(|max| used.saturating_add(bytes) <= max) {
                return Ok(());
            }
            self.give_back(bytes);
            if self.max.is_some_and(|max| bytes > max) || !self.make_room(bytes) {
                if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
                    log::warn!(
                        "the versions have reached their limit (--keep-max): writes that would destroy content fail \
                         with ENOSPC. Make room with `trumanfs trash purge --versions`, or mount with a higher limit"
                    );
                }
                return Err(Error::os("keep")(Errno::NOSPC));
            }
        }
    }

    /// Takes space for something that is not needed yet, if a good part of the quota stays free then.
    pub(in crate::world) fn take_spare(&self, bytes: u64) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = self
            .max
            .is_none_or(|max| used.saturating_add(bytes) <= max - max / SPARE_DIVISOR);
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn make_room(&self, bytes: u64) -> bool {
        let Some(evict) = self.evict.get() else {
            return false;
        };
        let (answer, answered) = sync_channel(1);
        evict.send((bytes, answer)).is_ok() && answered.recv().unwrap_or(false)
    }

    /// Gives space back.
    pub fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts the versions of earlier sessions.
    pub fn add_used(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that versions take on disk, as far as they have been counted.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of writes refused at the limit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether a version of this session is still being written.
    pub(in crate::world) fn is_live(&self, n: u64) -> bool {
        self.live.lock().contains_key(&n)
    }

    /// Notes that a version is being written, or no longer is.
    pub(in crate::world) fn set_live(&self, n: u64, live: bool) {
        let mut all = self.live.lock();
        let count = all.entry(n).or_default();
        *count = if live {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            all.remove(&n);
        }
    }
}
