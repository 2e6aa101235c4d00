//! How much room the versions take, and may take (`--keep-max`).
//!
//! At the limit a version cannot be made, so the write that it was for fails with `ENOSPC`. Where the operator has chosen
//! so (`--keep-evict`), the oldest versions go instead, recorded: a thread of its own deletes them, because the threads that
//! act for the owner have no way into older sessions.
//!
//! Lock: one mutex over the versions that are being written, never held over a system call.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::root::{open_beneath, stat_at};
use super::settle::sessions;
use super::state::SESSIONS;
use super::versions::{VERSIONS, map_name, number_of};
use crate::error::{Error, Result};
use crate::journal::{Journal, Op};
use crate::name::Name;

/// How much is deleted at once, in bytes, so that not every write has to wait for it.
const AT_ONCE: u64 = 16 << 20;

/// How many versions one record of deleting names.
const NAMED_AT_ONCE: usize = 500;

/// The room for versions.
#[derive(Debug, Default)]
pub struct Room {
    used: AtomicU64,
    max: Option<u64>,
    refused: AtomicU64,
    /// The thread that deletes the oldest; it answers whether it has deleted any.
    evict: Option<Sender<SyncSender<bool>>>,
    /// Versions of this session that are still being written.
    live: Mutex<HashSet<u64>>,
}

impl Room {
    /// Makes the room for a session. Where the oldest versions shall go at the limit, `evict` gives what that takes: the
    /// state directory and the journal.
    pub(super) fn new(
        max: Option<u64>,
        evict: Option<(OwnedFd, Arc<Journal>, String)>,
    ) -> Arc<Room> {
        let (sender, asked) = channel();
        let room = Arc::new(Room {
            max,
            evict: evict.is_some().then_some(sender),
            ..Room::default()
        });
        if let Some((state, journal, session)) = evict {
            let weak = Arc::downgrade(&room);
            let serve = move || serve(&asked, &weak, &state, &journal, &session);
            // Without the thread nothing is deleted, and writes fail at the limit.
            let _ = std::thread::Builder::new()
                .name("evict".to_owned())
                .spawn(serve);
        }
        room
    }

    /// Takes room for so many bytes.
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
            if self.max.is_some_and(|max| bytes > max) || !self.make_room() {
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

    fn make_room(&self) -> bool {
        let Some(evict) = &self.evict else {
            return false;
        };
        let (answer, answered) = sync_channel(1);
        evict.send(answer).is_ok() && answered.recv().unwrap_or(false)
    }

    /// Gives room back.
    pub fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts what earlier sessions have kept.
    pub fn counted(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns how many bytes the versions take, as far as they have been counted.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns how many writes were refused at the limit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether a version of this session is still being written.
    pub(super) fn is_live(&self, n: u64) -> bool {
        self.live.lock().contains(&n)
    }

    /// Notes that a version is being written, or is not any more.
    pub(super) fn set_live(&self, n: u64, live: bool) {
        let mut set = self.live.lock();
        if live {
            set.insert(n);
        } else {
            set.remove(&n);
        }
    }
}

fn serve(
    asked: &Receiver<SyncSender<bool>>,
    room: &std::sync::Weak<Room>,
    state: &OwnedFd,
    journal: &Journal,
    session: &str,
) {
    for answer in asked {
        let Some(room) = room.upgrade() else {
            return;
        };
        let deleted = delete_oldest(&room, state, journal, session);
        let deleted = deleted.unwrap_or_else(|error| {
            log::warn!("the oldest versions could not be deleted: {error}");
            0
        });
        room.give_back(deleted);
        let _ = answer.send(deleted > 0);
    }
}

/// Deletes the oldest versions, and returns how many bytes they took.
fn delete_oldest(room: &Room, state: &OwnedFd, journal: &Journal, this: &str) -> Result<u64> {
    let live = room.live.lock().clone();
    let mut deleted = 0;
    for session in sessions(state)? {
        let Some(dir) = versions_of(state, &session)? else {
            continue;
        };
        let mut versions = list(&dir)?;
        if session == this {
            versions.retain(|(n, _)| !live.contains(n));
        }
        let mut rest = versions.as_slice();
        while deleted < AT_ONCE && !rest.is_empty() {
            let mut some = Vec::new();
            while let Some(((n, bytes), more)) = rest.split_first() {
                if deleted >= AT_ONCE || some.len() >= NAMED_AT_ONCE {
                    break;
                }
                some.push((session.clone(), *n));
                deleted += bytes;
                rest = more;
            }
            let names: Vec<u64> = some.iter().map(|(_, n)| *n).collect();
            journal.note(Op::Evict { versions: some }, None)?;
            for n in names {
                delete(&dir, n);
            }
        }
        if deleted >= AT_ONCE {
            break;
        }
    }
    Ok(deleted)
}

/// Opens the versions of a session; `None` where it has none.
///
/// # Errors
/// What `openat2(2)` says.
pub fn versions_of(state: impl AsFd, session: &str) -> Result<Option<OwnedFd>> {
    let path = format!("{SESSIONS}/{session}/{VERSIONS}");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_beneath(state.as_fd(), path.as_bytes(), flags, Mode::empty()) {
        Err(Error::NotFound) => Ok(None),
        dir => dir.map(Some),
    }
}

/// Lists the versions in a directory of them, oldest first: each one's number and what it takes on disk, in bytes.
///
/// # Errors
/// What `getdents64(2)` says.
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

/// Deletes one version for good.
pub fn delete(dir: &OwnedFd, n: u64) {
    for name in [super::versions::file_name(n), map_name(n)] {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
}
