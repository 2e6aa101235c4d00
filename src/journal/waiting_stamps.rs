//! The stamps that wait for a seal. Only `left_files.rs` and the writer of seals use this, under the lock of the former.

use foldhash::HashMap;

use super::ids::InodeNumbers;
use super::left_state::LeftState;

/// The number of stamps that may wait, on a full disk; any more are left out.
const MAX_WAITING: usize = 1 << 16;

/// The number of stamps that there is room for from the beginning.
const MAX_ROOM: usize = 1 << 12;

/// The stamps that wait: of each file one after each of its records.
#[derive(Debug, Default)]
pub(super) struct WaitingStamps {
    stamps: Vec<LeftState>,
    /// The place in `stamps` of each file's stamp after a record.
    places: HashMap<(InodeNumbers, u64), usize>,
    /// The places of stamps that are needed no more.
    free: Vec<usize>,
}

impl WaitingStamps {
    /// Returns whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Adds a stamp, in place of an earlier one after the same record.
    pub(super) fn add(&mut self, stamp: LeftState) {
        let place = (stamp.ids, stamp.seq);
        let is_own = stamp.session.is_none();
        if let Some(at) = self.places.get(&place).filter(|_| is_own) {
            // One that names a copy stays, or nothing would name the copy.
            match self.stamps.get_mut(*at) {
                Some(copied) if copied.n.is_some() => copied.mapped |= stamp.mapped,
                Some(waiting) => *waiting = stamp,
                None => {}
            }
            return;
        }
        let at = self.free.pop().unwrap_or(self.stamps.len());
        match self.stamps.get_mut(at) {
            Some(waiting) => *waiting = stamp,
            None if at >= MAX_WAITING => return,
            None => self.stamps.push(stamp),
        }
        if is_own {
            self.places.insert(place, at);
        }
    }

    /// Lets go of the stamp of a file after a record, unless it names a copy: its place is given to the next one.
    pub(super) fn remove(&mut self, ids: InodeNumbers, seq: u64) {
        let is_copy = |at: &usize| self.stamps.get(*at).is_some_and(|at| at.n.is_some());
        if self.places.get(&(ids, seq)).is_some_and(|at| !is_copy(at)) {
            self.free.extend(self.places.remove(&(ids, seq)));
        }
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> Vec<LeftState> {
        self.places.clear();
        self.free.clear();
        // As many will wait again, perhaps: each time that it grows, a list is copied.
        let room = self.stamps.len().min(MAX_ROOM);
        std::mem::replace(&mut self.stamps, Vec::with_capacity(room))
    }
}
