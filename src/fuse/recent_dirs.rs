//! The directories that requests were about lately, open, so that the next request need not find them again.
//!
//! Owns how long such a directory may be used: as long as nothing says that a directory has moved or changed its
//! permissions (own requests, changes noticed behind the mount), and a second at most. What is done in it is done to
//! the inode, wherever that is by then, so this is as long as a directory that was moved out of the store can stay
//! reachable (SECURITY.md, T03). None in the trash is kept: there, things move with each removal.
//!
//! Lock: one mutex, never held over a system call.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::world::view::in_trash;
use crate::world::{Dir, Id};

/// The time for which a directory is used without finding it again.
const MAX_TRUST_TIME: Duration = Duration::from_secs(1);

/// The number of directories that are kept open.
const MAX_KEPT_DIRS: usize = 8;

/// The directories lately used.
#[derive(Debug, Default)]
pub struct RecentDirs(Mutex<RecentDirSlots>);

#[derive(Debug, Default)]
struct RecentDirSlots {
    slots: [Option<RecentDir>; MAX_KEPT_DIRS],
    /// The slot that is given away next.
    next: usize,
}

#[derive(Debug)]
struct RecentDir {
    number: u64,
    dir: Dir,
    since: Instant,
    /// The count of changes to directories when it was found ([`super::InodeTable::dir_changes`]).
    changes: u64,
}

impl RecentDirs {
    /// Returns a directory, if it was found lately and no directory has changed since.
    pub(super) fn get(&self, number: u64, changes: u64) -> Option<Dir> {
        let slots = self.0.lock();
        let mut slots = slots.slots.iter().flatten();
        let slot = slots.find(|slot| slot.number == number)?;
        let good = slot.changes == changes && slot.since.elapsed() < MAX_TRUST_TIME;
        good.then(|| slot.dir.duplicate())
    }

    /// Keeps a directory that was found after `changes` had been counted.
    pub(super) fn put(&self, number: u64, dir: &Dir, changes: u64) {
        if in_trash(dir.path()) {
            return;
        }
        let slot = RecentDir {
            number,
            dir: dir.duplicate(),
            since: Instant::now(),
            changes,
        };
        let mut slots = self.0.lock();
        let known =
            |slot: &Option<RecentDir>| slot.as_ref().is_some_and(|slot| slot.number == number);
        let at = slots.slots.iter().position(known).unwrap_or(slots.next);
        if at == slots.next {
            slots.next = (at + 1) % MAX_KEPT_DIRS;
        }
        let old = slots
            .slots
            .get_mut(at)
            .and_then(|place| place.replace(slot));
        drop(slots);
        drop(old); // Closing is a system call.
    }

    /// Lets go of a directory.
    pub(super) fn forget(&self, id: Id) {
        let mut slots = self.0.lock();
        let is_it = |slot: &&mut Option<RecentDir>| slot.as_ref().is_some_and(|s| s.dir.id() == id);
        let old = slots.slots.iter_mut().find(is_it).and_then(Option::take);
        drop(slots);
        drop(old);
    }
}
