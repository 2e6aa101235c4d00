//! The files that were made or changed in a session: the last record about each, and the stamps that wait for a seal.
//!
//! Owns the numbers in stamps, and that a stamp is taken anew only of a file that is as the last one says: else it
//! would call somebody else's change the home's. Of two stamps after the same record the later one is written.

use std::collections::HashMap;

use super::ids::InodeNumbers;
use super::left_state::LeftState;
use super::op::Op;
use trumanfs_types::meta::{Id, Meta};

/// The number of files whose last record is remembered; those with the oldest are forgotten, and get no stamp.
const MAX_FILES: usize = 1 << 16;

/// The number of stamps that may wait, on a full disk; any more are left out.
const MAX_WAITING: usize = 1 << 16;

/// The files of a session.
#[derive(Debug, Default)]
pub(super) struct LeftFiles {
    files: HashMap<InodeNumbers, LeftFile>,
    waiting: Vec<LeftState>,
    /// The place in `waiting` of each file's stamp after a record.
    places: HashMap<(InodeNumbers, u64), usize>,
}

/// A file.
#[derive(Debug)]
struct LeftFile {
    /// The last record about it.
    seq: u64,
    /// The stamp taken last.
    stamp: Option<LeftState>,
}

impl LeftFiles {
    /// Notes the file that a record made.
    pub(super) fn note_made(&mut self, seq: u64, ids: InodeNumbers, meta: &Meta) {
        self.remember(ids, seq);
        self.add(LeftState {
            made: true,
            ..stamp(seq, ids, meta)
        });
    }

    /// Notes a record: a change of a content lets its file be stamped.
    pub(super) fn note_record(&mut self, seq: u64, op: &Op) {
        let changed = match op {
            Op::Write { ids, .. } | Op::Allocate { ids, .. } => Some(*ids),
            Op::Truncate { ids, new, .. } | Op::Content { ids, new, .. } => {
                Some(new.unwrap_or(*ids))
            }
            _ => None,
        };
        if let Some(ids) = changed {
            self.remember(ids, seq);
        }
        if self.files.is_empty() {
            return;
        }
        for ids in op.ids() {
            if let Some(file) = self.files.get_mut(ids) {
                file.seq = seq;
            }
        }
    }

    /// Takes a stamp of a file.
    pub(super) fn note_left(&mut self, ids: InodeNumbers, meta: &Meta) {
        let Some(file) = self.files.get_mut(&ids) else {
            return;
        };
        let stamp = stamp(file.seq, ids, meta);
        if file.stamp.as_ref() == Some(&stamp) {
            return;
        }
        file.stamp = Some(stamp.clone());
        self.add(stamp);
    }

    /// Takes a stamp anew after an act of the home on the attributes, if the file was as the last one says.
    pub(super) fn note_attributes(&mut self, ids: InodeNumbers, before: &Meta, after: &Meta) {
        let file = self.files.get(&ids);
        let is_same = |last: &LeftState| *last == stamp(last.seq, ids, before);
        if file.is_some_and(|file| file.stamp.as_ref().is_some_and(is_same)) {
            self.note_left(ids, after);
        }
    }

    /// Adds a stamp to those that wait.
    pub(super) fn add(&mut self, stamp: LeftState) {
        let place = (stamp.ids, stamp.seq);
        let is_own = stamp.session.is_none();
        match self.places.get(&place).filter(|_| is_own) {
            Some(at) => {
                if let Some(waiting) = self.waiting.get_mut(*at) {
                    *waiting = stamp;
                }
            }
            None if self.waiting.len() >= MAX_WAITING => {}
            None => {
                if is_own {
                    self.places.insert(place, self.waiting.len());
                }
                self.waiting.push(stamp);
            }
        }
    }

    /// Takes all stamps that wait.
    pub(super) fn take(&mut self) -> Vec<LeftState> {
        self.places.clear();
        std::mem::take(&mut self.waiting)
    }

    fn remember(&mut self, ids: InodeNumbers, seq: u64) {
        if self.files.len() >= MAX_FILES {
            let mut all: Vec<u64> = self.files.values().map(|file| file.seq).collect();
            let (_, middle, _) = all.select_nth_unstable(MAX_FILES / 2);
            let middle = *middle;
            self.files.retain(|_, file| file.seq > middle);
        }
        self.files.insert(ids, LeftFile { seq, stamp: None });
    }
}

fn stamp(seq: u64, ids: InodeNumbers, meta: &Meta) -> LeftState {
    LeftState {
        session: None,
        seq,
        ids,
        born: meta.born,
        size: meta.size,
        mtime: (meta.mtime.sec, meta.mtime.nsec),
        ctime: (meta.ctime.sec, meta.ctime.nsec),
        made: false,
        sha256: None,
        n: None,
    }
}

impl super::Journal {
    /// Notes the file that a record made: its stamp tells which inode that is.
    pub fn note_made(&self, seq: u64, meta: &Meta) {
        let ids = self.ids(meta.id);
        self.with_left(|left| left.note_made(seq, ids, meta));
    }

    /// Takes a stamp of a file that the session made or changed, as it is left now.
    pub fn note_left(&self, meta: &Meta) {
        let ids = self.ids(meta.id);
        self.with_left(|left| left.note_left(ids, meta));
    }

    /// Takes a stamp anew after a change of a file's attributes, unless somebody else had changed the file.
    pub fn note_attributes(&self, before: &Meta, after: &Meta) {
        if before.id == after.id {
            let ids = self.ids(after.id);
            self.with_left(|left| left.note_attributes(ids, before, after));
        }
    }

    /// Adds stamps to the next seal.
    pub fn add_stamps(&self, stamps: impl IntoIterator<Item = LeftState>) {
        self.with_left(|left| stamps.into_iter().for_each(|stamp| left.add(stamp)));
    }

    fn with_left(&self, note: impl FnOnce(&mut LeftFiles)) {
        if self.v < super::SEALED {
            return;
        }
        let waits = {
            let mut left = self.left.lock();
            note(&mut left);
            !left.waiting.is_empty()
        };
        if waits {
            self.wake();
        }
    }

    fn ids(&self, Id(device, inode): Id) -> InodeNumbers {
        [if device == self.device { 0 } else { device }, inode]
    }
}
