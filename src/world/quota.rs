//! The disk space that versions take, and may take (`--keep-max`).
//!
//! At the limit a version cannot be made, so the write that needs it fails with `ENOSPC`. With `--keep-evict`, other
//! versions are evicted instead (`evict.rs`).
//!
//! Lock: one mutex over the set of versions being written, never held over a system call.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::evict::Evictor;
use super::ranges::new_name;
use super::root::{open_beneath, stat_at};
use super::state::SESSIONS;
use super::versions::{VERSIONS, map_name, number_of};
use crate::error::{Error, Result};
use crate::name::Name;

/// A request for so many bytes, and the channel for the answer: whether there is more space now.
pub(super) type Asked = (u64, SyncSender<bool>);

/// The quota for versions.
#[derive(Debug, Default)]
pub struct Quota {
    used: AtomicU64,
    max: Option<u64>,
    refused: AtomicU64,
    /// The thread that evicts versions.
    evict: OnceLock<Sender<Asked>>,
    /// Versions of this session still being made or written, and by how many writers.
    live: Mutex<HashMap<u64, u32>>,
}

impl Quota {
    /// Makes the quota of a session.
    pub(super) fn new(max: Option<u64>) -> Arc<Quota> {
        Arc::new(Quota {
            max,
            ..Quota::default()
        })
    }

    /// Starts a thread that evicts versions at the limit.
    pub(super) fn evict_with(self: &Arc<Quota>, evictor: Evictor) {
        let (sender, asked) = channel();
        let weak = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("evict".to_owned());
        match thread.spawn(move || evictor.serve(&asked, &weak)) {
            Ok(_) => drop(self.evict.set(sender)),
            // Nothing is evicted then, and writes fail at the limit.
            Err(error) => log::warn!("no thread to delete former contents: {error}"),
        }
    }

    pub(super) fn max(&self) -> Option<u64> {
        self.max
    }

    /// Takes space for so many bytes.
    ///
    /// # Errors
    /// `ENOSPC` at the limit.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
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
                return Err(Error::Os {
                    call: "keep",
                    errno: Errno::NOSPC,
                });
            }
        }
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
    pub fn counted(&self, bytes: u64) {
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
    pub(super) fn is_live(&self, n: u64) -> bool {
        self.live.lock().contains_key(&n)
    }

    /// Notes that a version is being written, or no longer is.
    pub(super) fn set_live(&self, n: u64, live: bool) {
        let mut all = self.live.lock();
        let count = all.entry(n).or_default();
        *count = match live {
            true => *count + 1,
            false => count.saturating_sub(1),
        };
        if *count == 0 {
            all.remove(&n);
        }
    }
}

/// Opens the versions of a session; `None` if it has none.
///
/// # Errors
/// Any error from `openat2(2)`.
pub fn versions_of(state: impl AsFd, session: &str) -> Result<Option<OwnedFd>> {
    let path = format!("{SESSIONS}/{session}/{VERSIONS}");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_beneath(state.as_fd(), path.as_bytes(), flags, Mode::empty()) {
        Err(Error::NotFound) => Ok(None),
        dir => dir.map(Some),
    }
}

/// Lists the versions in a directory, oldest first, as numbers and bytes on disk.
///
/// # Errors
/// Any error from `getdents64(2)`.
pub fn list(dir: &OwnedFd) -> Result<Vec<(u64, u64)>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in rustix::fs::Dir::read_from(dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let name = entry.file_name().to_bytes();
        let number = name.strip_suffix(b".map").unwrap_or(name);
        if let Some(n) = number_of(number)
            && let Ok(meta) = stat_at(dir.as_fd(), Name::new(name)?)
        {
            *found.entry(n).or_insert(0) += meta.blocks * 512;
        }
    }
    Ok(found.into_iter().collect())
}

/// Deletes lists whose versions are gone: a crash came between the two deletions, or before the version was made.
/// Returns the message for the operator. Nobody else has the store.
///
/// # Errors
/// Any error from reading the directory.
pub(super) fn sweep(state: &impl AsFd, session: &str) -> Result<Option<String>> {
    let Some(dir) = versions_of(state, session)? else {
        return Ok(None);
    };
    let mut lists = Vec::new();
    for entry in rustix::fs::Dir::read_from(&dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let name = entry.file_name().to_bytes();
        let of = name
            .strip_suffix(b".new")
            .unwrap_or(name)
            .strip_suffix(b".map");
        if let Some(n) = of.and_then(number_of)
            && (name.ends_with(b".new")
                || !is_there(&dir, Name::new(super::versions::file_name(n).as_bytes())?)?)
        {
            lists.push(entry.file_name().to_owned());
        }
    }
    for name in &lists {
        rustix::fs::unlinkat(&dir, name, AtFlags::empty()).map_err(Error::os("unlinkat"))?;
    }
    Ok((!lists.is_empty()).then(|| {
        let lists = lists.len();
        format!("{lists} list(s) of ranges had no version, and were deleted")
    }))
}

fn is_there(dir: &OwnedFd, name: Name<'_>) -> Result<bool> {
    match stat_at(dir.as_fd(), name) {
        Ok(_) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes one version permanently. Its list goes last: without it, a version with holes would be taken for whole.
pub fn delete(dir: &OwnedFd, n: u64) {
    for name in [super::versions::file_name(n), map_name(n), new_name(n)] {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
}
