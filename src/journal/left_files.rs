//! The files that were made or changed in a session: the last record about each, and the stamps that wait for a seal.
//!
//! Owns the numbers in stamps, and their time: none is written while the home has the file open for writing, since
//! what changes then has no record of its own. A stamp is taken anew only of a file that is as the last one says: else
//! it would call somebody else's change the home's. Of two stamps after the same record the later one counts. Where
//! other records about a file come before its last close, stamps after them are taken anew.

use foldhash::HashMap;
use rustix::fs::FileType;

use super::ids::InodeNumbers;
use super::left_state::LeftState;
use super::op::Op;
use super::stamp::FileTime;
use super::waiting_stamps::WaitingStamps;
use crate::name::WorldPath;
use trumanfs_types::meta::{Id, Meta, Time};

/// The number of files whose last record is remembered; those with the oldest are forgotten, and get no stamp.
const MAX_FILES: usize = 1 << 16;

/// The files of a session.
#[derive(Debug, Default)]
pub(super) struct LeftFiles {
    /// The number of the last record.
    newest: u64,
    files: HashMap<InodeNumbers, Box<LeftFile>>,
    waiting: WaitingStamps,
}

/// A file.
#[derive(Debug)]
struct LeftFile {
    /// The last record of a change of its content or attributes.
    changed: u64,
    /// The last record about it.
    seq: u64,
    /// The path that the last record has of it after it.
    path: Option<WorldPath>,
    /// True if a former content was kept, or a file replaced.
    had_former: bool,
    /// True if it may be open for writing.
    writing: bool,
    /// True if the session has only moved it: its stamp says how it was found.
    was_found: bool,
    /// True if it was when what is left was to be copied.
    is_copy_due: bool,
    /// The size and modification time when it was opened, if nothing is known to have changed it since.
    opened: Option<(u64, FileTime)>,
    /// The stamp taken last.
    stamp: Option<LeftState>,
    /// The stamp that was added last.
    left: Option<LeftState>,
    /// The stamp that names a copy of its content, if there is one.
    copied: Option<Box<LeftState>>,
    /// The records since the content was kept last that a stamp followed.
    stamped: Vec<StampedRecord>,
}

impl LeftFile {
    /// Returns whether the file is as the stamp taken last says. The time of change is the home's own too: of a rename,
    /// say.
    fn is_as_stamped(&self, meta: &Meta) -> bool {
        self.stamp.as_ref().is_some_and(|last| {
            (last.born, last.size, last.mtime) == (meta.born, meta.size, time(meta.mtime))
        })
    }

    /// Returns the stamp taken last. It names the copy of the content, if that is the same.
    fn last_stamp(&self) -> Option<LeftState> {
        let last = self.stamp.clone()?;
        let copied = self.copied.as_deref();
        Some(match copied.filter(|copied| last.has_content_of(copied)) {
            Some(copied) => LeftState {
                sha256: copied.sha256.clone(),
                n: copied.n,
                ..last
            },
            None => last,
        })
    }

    /// Notes its state, as it is now.
    fn note_state(&mut self, ids: InodeNumbers, meta: &Meta) {
        self.stamp = Some(stamp(self.seq, ids, meta));
    }

    /// Notes that its last open for writing has ended, in such a state.
    fn note_left(&mut self, ids: InodeNumbers, meta: &Meta, waiting: &mut WaitingStamps) {
        self.note_state(ids, meta);
        self.writing = false;
        self.leave(ids, waiting);
    }

    /// Adds its stamp to those that wait, and those after earlier records since its opening.
    fn leave(&mut self, ids: InodeNumbers, waiting: &mut WaitingStamps) {
        let Some(last) = self.last_stamp() else {
            return;
        };
        if self.stamped.last().is_none_or(|of| of.seq != last.seq) {
            if self.stamped.len() == MAX_STAMPED {
                self.stamped.drain(..MAX_STAMPED / 2);
            }
            self.stamped.push(StampedRecord::new(last.seq));
        } else if self.left.as_ref() == Some(&last) {
            return;
        }
        let is_needless = |of: &mut StampedRecord| of.before_attributes && !of.made;
        for of in self.stamped.extract_if(.., is_needless) {
            waiting.remove(ids, of.seq);
        }
        self.add_stamps(&last, waiting);
        self.left = Some(last);
    }

    /// Adds the stamps after its records that are new. `last` is the state now.
    fn add_stamps(&mut self, last: &LeftState, waiting: &mut WaitingStamps) {
        for of in &mut self.stamped {
            if let Some(stamp) = of.stamp(last) {
                waiting.add(stamp);
            }
        }
        // Of the others it is known how the next record found the file.
        let writing = self.writing;
        self.stamped.retain(|of| of.then.is_none() || writing);
    }
}

/// The knowledge of the state in which the home last had a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastLeft {
    /// Its size in bytes and modification time; `None` where these are not known.
    pub state: Option<(u64, FileTime)>,
    /// True if it may be open for writing.
    pub is_written: bool,
}

/// The size, where it is known, and the modification time that a record has from before it.
type StateBefore = (Option<u64>, FileTime);

/// A record that a stamp followed.
#[derive(Debug)]
struct StampedRecord {
    seq: u64,
    /// True if it made the file: the stamp tells which inode that is.
    made: bool,
    /// The state that the next record has from before it.
    then: Option<StateBefore>,
    /// True if the next record is one of attributes: a stamp of that one tells more.
    before_attributes: bool,
    /// The state in the stamp of it that was added last.
    left: Option<(u64, FileTime, Option<u32>)>,
}

impl StampedRecord {
    fn new(seq: u64) -> StampedRecord {
        StampedRecord {
            seq,
            made: false,
            then: None,
            before_attributes: false,
            left: None,
        }
    }

    /// Returns the stamp that the file has after the record, given its state now. `None`: it has that one already.
    fn stamp(&mut self, last: &LeftState) -> Option<LeftState> {
        let size = self.then.and_then(|(size, _)| size).unwrap_or(last.size);
        let mtime = self.then.map_or(last.mtime, |(_, mtime)| mtime);
        let mode = last.mode.filter(|_| self.then.is_none());
        let left = Some((size, mtime, mode));
        // The time of change does not count: each rename sets it.
        if self.left == left {
            return None;
        }
        self.left = left;
        Some(LeftState {
            seq: self.seq,
            mode,
            ..last.with_content(size, mtime)
        })
    }
}

/// A change of a content by a record.
struct RecordedWrite {
    ids: InodeNumbers,
    /// True if the content before is known: the stamps of it are true. Else the record goes on with an earlier one.
    begins: bool,
    /// The size before.
    size: u64,
    before: StateBefore,
}

impl RecordedWrite {
    fn of(op: &Op) -> Option<RecordedWrite> {
        let (ids, size, mtime, kept, grows) = match op {
            Op::Write {
                ids,
                size,
                mtime,
                kept,
                ..
            } => (ids, size, mtime, kept, false),
            Op::Truncate {
                ids,
                size,
                to,
                mtime,
                kept,
                new,
                ..
            }
            | Op::Content {
                ids,
                size,
                to,
                mtime,
                kept,
                new,
                ..
            } => (new.as_ref().unwrap_or(ids), size, mtime, kept, to >= size),
            Op::Allocate {
                ids,
                size,
                mode,
                mtime,
                kept,
                ..
            } => (ids, size, mtime, kept, *mode <= 1),
            _ => return None,
        };
        Some(RecordedWrite {
            ids: *ids,
            begins: kept.is_some() || *size == 0,
            size: *size,
            before: (grows.then_some(*size), *mtime),
        })
    }
}

/// The number of such records for each file; of more, the first ones keep their stamps.
const MAX_STAMPED: usize = 64;

impl LeftFiles {
    /// Notes the file that a record made.
    pub(super) fn note_made(&mut self, seq: u64, ids: InodeNumbers, meta: &Meta) {
        let file = self.remember(ids, seq);
        file.opened = Some((meta.size, time(meta.mtime)));
        file.stamped.push(StampedRecord {
            made: true,
            ..StampedRecord::new(seq)
        });
        self.waiting.add(LeftState {
            made: true,
            ..stamp(seq, ids, meta)
        });
    }

    /// Notes a record: a change of a content lets its file be stamped.
    pub(super) fn note_record(&mut self, seq: u64, op: &Op) {
        self.newest = seq;
        let change = RecordedWrite::of(op);
        if let Some(change) = &change
            && (change.begins || !self.files.contains_key(&change.ids))
        {
            self.end_writing(change);
            self.remember(change.ids, seq);
        }
        if self.files.is_empty() {
            return;
        }
        let before = match op {
            Op::Attr { was, .. } => Some((None, was.mtime)),
            _ => change.map(|change| change.before),
        };
        self.note_place(op);
        for ids in op.ids() {
            let Some(file) = self.files.get_mut(ids) else {
                continue;
            };
            file.seq = seq;
            if let Some(before) = before {
                file.changed = seq;
                let open = file.stamped.iter_mut().filter(|of| of.then.is_none());
                open.for_each(|of| {
                    of.then = Some(before);
                    of.before_attributes = matches!(op, Op::Attr { .. });
                });
            }
            if let Op::Write { size, mtime, .. } = op {
                file.opened = Some((*size, *mtime));
                (file.writing, file.stamp) = (true, None);
            }
        }
    }

    /// Notes where a record leaves its file, and whether something was there before.
    fn note_place(&mut self, op: &Op) {
        let (path, ids, had_former) = match op {
            Op::Rename {
                to, ids, replaced, ..
            }
            | Op::Restore {
                to, ids, replaced, ..
            } => (to, *ids, replaced.is_some()),
            op => match (op.changed_file(), op.content()) {
                (Some((path, ids)), Some((kept, _))) => (path, ids, kept.is_some()),
                _ => return,
            },
        };
        if let Some(file) = self.files.get_mut(&ids) {
            file.path = Some(path.clone());
            file.had_former |= had_former;
        }
    }

    /// Returns the files that were left and had a former content, and of which there is no copy, with their paths and
    /// last stamps.
    fn left_texts(&mut self) -> Vec<(WorldPath, LeftState)> {
        for file in self.files.values_mut() {
            file.is_copy_due = file.had_former && file.writing;
        }
        let left = self
            .files
            .values()
            .filter(|file| file.had_former && !file.writing);
        let mut left: Vec<(WorldPath, LeftState)> = left
            .filter_map(|file| Some((file.path.clone()?, file.left.clone()?)))
            .filter(|(_, left)| left.n.is_none())
            .collect();
        left.sort_unstable_by_key(|(_, left)| left.seq);
        left
    }

    /// Returns what is known of a file's last state.
    fn last_left(&self, ids: InodeNumbers) -> Option<LastLeft> {
        let file = self.files.get(&ids).filter(|file| !file.was_found)?;
        let stamped = file.stamp.as_ref().map(|last| (last.size, last.mtime));
        Some(LastLeft {
            state: stamped.or(file.opened.filter(|_| file.writing)),
            is_written: file.writing,
        })
    }

    /// Adds a stamp that names a copy of what was left.
    fn note_copied(&mut self, copied: LeftState) {
        if let Some(file) = self.files.get_mut(&copied.ids) {
            let is_last = |left: &LeftState| {
                left.seq == copied.seq && left.n.is_none() && left.has_content_of(&copied)
            };
            if file.left.as_ref().is_some_and(is_last) {
                file.left = Some(copied.clone());
            }
            file.copied = Some(Box::new(copied.clone()));
        }
        self.waiting.add(copied);
    }

    /// Notes the state of a file that is still open for writing.
    pub(super) fn note_state(&mut self, ids: InodeNumbers, meta: &Meta) {
        if let Some(file) = self.files.get_mut(&ids) {
            file.note_state(ids, meta);
        }
    }

    /// Forgets the state of a file. Stamps that say it are taken back.
    fn forget_state(&mut self, ids: InodeNumbers) {
        let Some(file) = self.files.get_mut(&ids) else {
            return;
        };
        (file.stamp, file.opened) = (None, None);
        if let Some(left) = file.left.take() {
            for of in file.stamped.iter_mut().filter(|of| of.then.is_none()) {
                of.left = None;
            }
            self.waiting.add(LeftState {
                mapped: true,
                ..left
            });
        }
    }

    /// Returns whether no record has changed a file after a given one.
    fn is_unchanged(&self, ids: InodeNumbers, since: u64) -> bool {
        self.files
            .get(&ids)
            .is_none_or(|file| file.changed <= since)
    }

    /// Takes a stamp of a file that a record moved, if the file is as the last one says: one that the session has not
    /// changed has none yet.
    pub(super) fn note_moved(&mut self, seq: u64, ids: InodeNumbers, meta: &Meta) {
        let Some(file) = self.files.get_mut(&ids) else {
            self.remember(ids, seq).was_found = true;
            return self.note_left(ids, meta);
        };
        if !file.is_as_stamped(meta) {
            return;
        }
        if file.writing {
            // It was closed, which may be told after this.
            file.note_state(ids, meta);
        } else {
            file.note_left(ids, meta, &mut self.waiting);
        }
    }

    /// Takes a stamp of a file that is left.
    pub(super) fn note_left(&mut self, ids: InodeNumbers, meta: &Meta) {
        if let Some(file) = self.files.get_mut(&ids) {
            file.note_left(ids, meta, &mut self.waiting);
        }
    }

    /// Takes a stamp of a file that is about to be closed.
    pub(super) fn note_closing(&mut self, ids: InodeNumbers, meta: &Meta) {
        if let Some(file) = self.files.get_mut(&ids) {
            file.note_state(ids, meta);
            file.leave(ids, &mut self.waiting);
        }
    }

    /// Notes that the last open for writing of a file has ended. `unwritten` has its state if every write was seen. Returns
    /// whether a copy of what is left is due.
    pub(super) fn note_closed(&mut self, ids: InodeNumbers, unwritten: Option<&Meta>) -> bool {
        let Some(file) = self.files.get_mut(&ids) else {
            return false;
        };
        if let (Some(meta), None, Some((size, mtime))) = (unwritten, &file.stamp, file.opened) {
            // It should be as it was at the open: the home has changed nothing.
            file.stamp = Some(LeftState {
                size,
                mtime,
                ..stamp(file.seq, ids, meta)
            });
        }
        file.writing = false;
        file.leave(ids, &mut self.waiting);
        std::mem::take(&mut file.is_copy_due)
    }

    /// Takes stamps anew that a file got while it was open for writing: now a record tells its state.
    fn end_writing(&mut self, change: &RecordedWrite) {
        let file = self.files.get_mut(&change.ids);
        let Some(file) = file.filter(|file| file.writing) else {
            return;
        };
        if let (Some(last), (_, mtime)) = (&file.left, change.before) {
            let last = last.with_content(change.size, mtime);
            file.add_stamps(&last, &mut self.waiting);
        }
    }

    /// Takes a stamp anew after an act of the home on the attributes, if the file was as the last one says, or the home
    /// still writes to it.
    pub(super) fn note_attributes(
        &mut self,
        (seq, ids): (u64, InodeNumbers),
        before: &Meta,
        after: &Meta,
    ) {
        let Some(file) = self.files.get_mut(&ids) else {
            return self.note_moved(seq, ids, after);
        };
        if file.stamp.is_none() {
            // The close of a file that was only opened may be told after this.
            if file.opened == Some((before.size, time(before.mtime))) {
                file.opened = Some((after.size, time(after.mtime)));
            }
            return;
        }
        if file.writing {
            file.note_state(ids, after);
        } else if file.is_as_stamped(before) {
            file.note_left(ids, after, &mut self.waiting);
        }
    }

    /// Takes all stamps that wait.
    pub(super) fn take(&mut self) -> Vec<LeftState> {
        self.waiting.take()
    }

    fn remember(&mut self, ids: InodeNumbers, seq: u64) -> &mut LeftFile {
        if self.files.len() >= MAX_FILES {
            let mut all: Vec<u64> = self.files.values().map(|file| file.seq).collect();
            let (_, middle, _) = all.select_nth_unstable(MAX_FILES / 2);
            let middle = *middle;
            self.files.retain(|_, file| file.seq > middle);
        }
        let before = self.files.remove(&ids);
        let file = Box::new(LeftFile {
            seq,
            changed: seq,
            path: before.as_ref().and_then(|file| file.path.clone()),
            had_former: before.is_some_and(|file| file.had_former),
            writing: true,
            was_found: false,
            is_copy_due: false,
            opened: None,
            stamp: None,
            left: None,
            copied: None,
            stamped: Vec::new(),
        });
        self.files.entry(ids).insert_entry(file).into_mut()
    }
}

fn time(time: Time) -> FileTime {
    (time.sec, time.nsec)
}

fn stamp(seq: u64, ids: InodeNumbers, meta: &Meta) -> LeftState {
    LeftState {
        session: None,
        seq,
        ids,
        born: meta.born,
        size: meta.size,
        mtime: time(meta.mtime),
        mode: Some(meta.permissions()),
        ctime: time(meta.ctime),
        made: false,
        mapped: false,
        sha256: None,
        n: None,
        entries: None,
        by: None,
    }
}

impl super::Journal {
    /// Notes the file that a record made: its stamp tells which inode that is.
    pub fn note_made(&self, seq: u64, meta: &Meta) {
        let ids = self.ids(meta.id);
        self.with_left(|left| left.note_made(seq, ids, meta));
    }

    /// Returns the files that were left and had a former content, and of which there is no copy, with their paths and
    /// last stamps. Those that are open for writing are due when they are closed ([`note_closed`](super::Journal::note_closed)).
    pub fn left_texts(&self) -> Vec<(WorldPath, LeftState)> {
        self.left.lock().left_texts()
    }

    /// Returns what is known of the state in which the home last had a file that it made or changed in this session;
    /// `None` for other files, and for those that were forgotten.
    pub fn last_left(&self, id: Id) -> Option<LastLeft> {
        self.left.lock().last_left(self.ids(id))
    }

    /// Notes the state of a file that is still open for writing, as `stat` gives it: under the lock, so that of two who
    /// look at it the later one tells.
    ///
    /// # Errors
    /// Those of `stat`.
    pub fn note_state<E>(
        &self,
        stat: impl FnOnce() -> std::result::Result<Meta, E>,
    ) -> std::result::Result<Meta, E> {
        let mut left = self.left.lock();
        let meta = stat()?;
        left.note_state(self.ids(meta.id), &meta);
        Ok(meta)
    }

    /// Forgets the state of a file that was noted last, and the one at its open: it may be written to through a map.
    pub fn forget_state(&self, id: Id) {
        let ids = self.ids(id);
        self.with_left(|left| left.forget_state(ids));
    }

    /// Returns the number of the last record, for [`Journal::note_left_since`](super::Journal::note_left_since).
    pub fn newest_for_stamps(&self) -> u64 {
        self.left.lock().newest
    }

    /// Takes a stamp of a file as it was left after a record, unless a later one has changed it.
    pub fn note_left_since(&self, meta: &Meta, since: u64) {
        let ids = self.ids(meta.id);
        self.with_left(|left| {
            if left.is_unchanged(ids, since) {
                left.note_left(ids, meta);
            }
        });
    }

    /// Takes a stamp of a file that a record moved, as it was found.
    pub fn note_moved(&self, seq: u64, meta: &Meta) {
        if meta.kind == FileType::RegularFile {
            let ids = self.ids(meta.id);
            self.with_left(|left| left.note_moved(seq, ids, meta));
        }
    }

    /// Takes a stamp of a file that is about to be closed by its only writer.
    pub fn note_closing(&self, meta: &Meta) {
        let ids = self.ids(meta.id);
        self.with_left(|left| left.note_closing(ids, meta));
    }

    /// Takes a stamp of a file that the session made or changed, as it is left now.
    pub fn note_left(&self, meta: &Meta) {
        let ids = self.ids(meta.id);
        self.with_left(|left| left.note_left(ids, meta));
    }

    /// Notes that the last open for writing of a file has ended. `was_seen` is true if every write through it came to
    /// the home. Returns whether the file was asked for by [`left_texts`](super::Journal::left_texts) while it was open.
    pub fn note_closed(&self, meta: &Meta, was_seen: bool) -> bool {
        let ids = self.ids(meta.id);
        let unwritten = Some(meta).filter(|_| was_seen);
        self.with_left(|left| left.note_closed(ids, unwritten))
    }

    /// Takes a stamp anew after a change of a file's attributes, unless somebody else had changed the file.
    pub fn note_attributes(&self, seq: u64, before: &Meta, after: &Meta) {
        if before.id == after.id && after.kind == FileType::RegularFile {
            let ids = self.ids(after.id);
            self.with_left(|left| left.note_attributes((seq, ids), before, after));
        }
    }

    /// Adds a stamp that names a copy of what was left.
    pub fn note_copied(&self, copied: LeftState) {
        self.with_left(|left| left.note_copied(copied));
    }

    /// Adds stamps to the next seal.
    pub fn add_stamps(&self, stamps: impl IntoIterator<Item = LeftState>) {
        self.with_left(|left| stamps.into_iter().for_each(|stamp| left.waiting.add(stamp)));
    }

    fn with_left<T: Default>(&self, note: impl FnOnce(&mut LeftFiles) -> T) -> T {
        if self.v < super::SEALED {
            return T::default();
        }
        let (noted, waits) = {
            let mut left = self.left.lock();
            (note(&mut left), !left.waiting.is_empty())
        };
        if waits {
            self.wake();
        }
        noted
    }

    /// Returns a node's numbers as stamps have them: the store's own device is 0.
    pub fn ids(&self, Id(device, inode): Id) -> InodeNumbers {
        [if device == self.device { 0 } else { device }, inode]
    }
}
