//! Which files are volatile. An inode is volatile by birth: the home made it under a pattern of `--volatile`, in a
//! recorded session.
//!
//! An inode is volatile no more once it has had a name outside the patterns, was changed outside the home, is tracked by git, or has
//! a former content that was kept. So a volatile file has no versions, and none is read through another. What is not
//! known for certain is not volatile: a session that was killed, a file system without times of birth, more files than
//! are remembered.
//!
//! Lock: one mutex, never held over a system call; the journal's own is taken under it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::thread::Thread;

use parking_lot::Mutex;
use rustix::fs::FileType;

use crate::error::Result;
use crate::journal::{Author, FileTime, Journal};
use crate::name::WorldPath;
use crate::world::Caller;
use crate::world::trash::trash_entries::EntryName;
use crate::world::view::PathPatterns;
use crate::world::volatile::git_tracked::TrackedFiles;
use trumanfs_types::meta::{Id, Meta};

/// The number of volatile files that are remembered; any more are kept like others.
const MAX_FILES: usize = 1 << 19;

/// The number of entries of the trash that may wait for their deletion; any more are kept.
const MAX_WAITING: usize = 1 << 18;

/// The number of new files after which the thread is to note the states of those that are closed by now: the journal
/// remembers only so many.
const MAX_UNSETTLED: usize = 1 << 13;

/// A volatile file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VolatileFile {
    /// The time of birth, which tells the inode from a later one of the same number.
    born: u64,
    /// The size and modification time as the home left it; absent for what is no regular file, and until they are known.
    left: Option<(u64, FileTime)>,
}

/// An entry of the trash that is to be deleted for good.
#[derive(Debug, Clone)]
pub(in crate::world) struct TrashedVolatile {
    pub(in crate::world) id: Id,
    pub(in crate::world) author: Author,
    /// The uppermost path that matches a pattern.
    pub(in crate::world) dir: WorldPath,
}

/// The knowledge of a file at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::world) enum Volatility {
    /// Kept like others.
    Kept,
    /// Volatile if it is as the home leaves it when it is closed.
    Open,
    /// Volatile, and as the home left it.
    Volatile,
}

/// The volatile files of a store.
#[derive(Debug)]
pub(in crate::world) struct VolatileFiles {
    texts: Vec<String>,
    patterns: PathPatterns,
    device: u64,
    pub(in crate::world) tracked: TrackedFiles,
    state: Mutex<VolatileState>,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct VolatileState {
    by_inode: HashMap<u64, VolatileFile>,
    /// The files whose state at their close is not known yet.
    unsettled: Vec<u64>,
    waiting: HashMap<EntryName, TrashedVolatile>,
    order: VecDeque<EntryName>,
    /// Names of files that have others outside the trash, by inode: they wait for the removal of those.
    names: HashMap<u64, Vec<(EntryName, TrashedVolatile)>>,
    /// The number of entries that were taken and are not done.
    taken: usize,
}

impl VolatileFiles {
    /// Returns the volatile files of a session. `known` is what an earlier one left (`format`); a session of an
    /// operator, who gives no patterns, goes on with those.
    ///
    /// # Errors
    /// As [`PathPatterns::new`].
    pub(in crate::world) fn new(
        patterns: &[String],
        is_operators: bool,
        device: u64,
        known: &str,
    ) -> Result<VolatileFiles> {
        let (first, lines) = known.split_once('\n').unwrap_or_default();
        let former: Vec<String> = serde_json::from_str(first).unwrap_or_default();
        let texts = match is_operators && patterns.is_empty() {
            true => former,
            false => patterns.to_vec(),
        };
        let patterns = PathPatterns::new("--volatile", &texts)?;
        let by_inode = match patterns.any() {
            true => lines
                .lines()
                .filter_map(parse_line)
                .take(MAX_FILES)
                .collect(),
            false => HashMap::new(),
        };
        Ok(VolatileFiles {
            texts,
            patterns,
            device,
            tracked: TrackedFiles::default(),
            state: Mutex::new(VolatileState {
                by_inode,
                ..VolatileState::default()
            }),
            thread: OnceLock::new(),
        })
    }

    /// Returns whether anything can be volatile.
    pub(in crate::world) fn any(&self) -> bool {
        self.patterns.any()
    }

    /// Returns whether a path lies under a pattern.
    pub(in crate::world) fn covers(&self, path: &WorldPath, is_dir: bool) -> bool {
        self.patterns.matches(path, is_dir)
    }

    /// Returns whether a move of a directory may change what lies under a pattern.
    pub(in crate::world) fn depend_on_place(&self) -> bool {
        self.patterns.anchored
    }

    /// Returns the uppermost path that a pattern names, of a path under one.
    pub(in crate::world) fn top(&self, path: &WorldPath, is_dir: bool) -> WorldPath {
        let mut top = WorldPath::root();
        let last = path.components().count();
        for (at, name) in path.components().enumerate() {
            top.push(name);
            if self.covers(&top, is_dir || at + 1 < last) {
                break;
            }
        }
        top
    }

    /// Notes that the home made an inode.
    pub(in crate::world) fn note_made(&self, path: &WorldPath, meta: &Meta, caller: Caller) {
        // What an undo makes is what was kept.
        let is_own = meta.id.0 == self.device && meta.born != 0 && !caller.origin.is_undo();
        if !is_own || !self.covers(path, meta.is_dir()) {
            return;
        }
        let mut state = self.state.lock();
        if state.by_inode.len() >= MAX_FILES {
            return;
        }
        let file = VolatileFile {
            born: meta.born,
            left: None,
        };
        state.by_inode.insert(meta.id.1, file);
        if meta.kind == FileType::RegularFile {
            state.unsettled.push(meta.id.1);
        }
        let is_due = state.unsettled.len() >= MAX_UNSETTLED;
        drop(state);
        if is_due {
            self.wake();
        }
    }

    /// Forgets an inode: it is kept from now on.
    pub(in crate::world) fn forget(&self, id: Id) {
        if id.0 == self.device {
            self.state.lock().by_inode.remove(&id.1);
        }
    }

    /// Forgets all inodes.
    pub(in crate::world) fn forget_all(&self) {
        let mut state = self.state.lock();
        state.by_inode.clear();
        state.unsettled.clear();
    }

    /// Returns what is known of an inode, given its attributes now. One that somebody else changed is forgotten.
    pub(in crate::world) fn volatility(&self, meta: &Meta, journal: &Journal) -> Volatility {
        let mut state = self.state.lock();
        let known = state.by_inode.get(&meta.id.1).copied();
        let known = known.filter(|file| meta.id.0 == self.device && file.born == meta.born);
        let Some(file) = known else {
            return Volatility::Kept;
        };
        if meta.kind != FileType::RegularFile {
            return Volatility::Volatile;
        }
        let now = Some((meta.size, (meta.mtime.sec, meta.mtime.nsec)));
        let last = journal.last_left(meta.id);
        let left = last.map_or(file.left, |last| last.state);
        if left.is_some() && left == now {
            return Volatility::Volatile;
        }
        if last.is_some_and(|last| last.is_written) {
            return Volatility::Open;
        }
        state.by_inode.remove(&meta.id.1);
        Volatility::Kept
    }

    /// Notes the states of new files that are closed by now.
    pub(in crate::world) fn settle(&self, journal: &Journal) {
        let unsettled = std::mem::take(&mut self.state.lock().unsettled);
        for inode in unsettled {
            let mut state = self.state.lock();
            let last = journal.last_left(Id(self.device, inode));
            match (state.by_inode.get_mut(&inode), last) {
                (Some(file), Some(last)) if !last.is_written => file.left = last.state,
                (Some(_), Some(_)) => state.unsettled.push(inode),
                (Some(_), None) | (None, _) => {}
            }
        }
    }

    /// Has an entry of the trash deleted for good soon, if there is room for it.
    pub(in crate::world) fn put(&self, entry: &EntryName, trashed: TrashedVolatile) {
        let mut entries = self
            .state
            .lock()
            .names
            .remove(&trashed.id.1)
            .unwrap_or_default();
        entries.push((entry.clone(), trashed));
        self.put_back(entries);
        self.wake();
    }

    /// Lets names of a file wait until another one of it is removed.
    pub(in crate::world) fn put_names(&self, names: Vec<(EntryName, TrashedVolatile)>) {
        let mut state = self.state.lock();
        for (entry, trashed) in names {
            let all = state.names.entry(trashed.id.1).or_default();
            all.push((entry, trashed));
        }
    }

    /// Lets entries wait, without waking the thread.
    pub(in crate::world) fn put_back(&self, entries: Vec<(EntryName, TrashedVolatile)>) {
        let mut state = self.state.lock();
        for (entry, trashed) in entries {
            if state.waiting.len() < MAX_WAITING {
                state.waiting.insert(entry.clone(), trashed);
                state.order.push_back(entry);
            }
        }
    }

    /// Returns whether an entry of the trash waits for its deletion.
    pub(in crate::world) fn is_waiting(&self, entry: &EntryName) -> bool {
        self.any() && self.state.lock().waiting.contains_key(entry)
    }

    /// Takes the oldest entries that wait.
    pub(in crate::world) fn take(&self, most: usize) -> Vec<(EntryName, TrashedVolatile)> {
        let mut state = self.state.lock();
        let count = most.min(state.order.len());
        let entries: Vec<_> = state.order.drain(..count).collect();
        state.taken += count;
        let taken = entries
            .into_iter()
            .filter_map(|entry| state.waiting.remove_entry(&entry));
        taken.collect()
    }

    /// Notes that all entries that were taken are done, or wait again.
    pub(in crate::world) fn note_done(&self) {
        self.state.lock().taken = 0;
    }

    /// Returns the number of entries that wait, or are being deleted.
    pub(in crate::world) fn waiting_count(&self) -> usize {
        let state = self.state.lock();
        state.order.len() + state.taken
    }

    pub(in crate::world) fn set_thread(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Wakes the thread, if there is one.
    pub(in crate::world) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Returns the patterns and the files for a later session; nothing if there are none.
    pub(in crate::world) fn format(&self, journal: &Journal) -> Option<String> {
        let state = self.state.lock();
        if state.by_inode.is_empty() {
            return None;
        }
        let mut text = serde_json::to_string(&self.texts).ok()?;
        text.push('\n');
        for (inode, file) in &state.by_inode {
            let last = journal.last_left(Id(self.device, *inode));
            let left = match last {
                Some(last) if last.is_written => continue,
                Some(last) => last.state,
                None => file.left,
            };
            let (size, (sec, nsec)) = left.unwrap_or_default();
            let _ = writeln!(text, "{inode} {} {size} {sec} {nsec}", file.born);
        }
        Some(text)
    }
}

fn parse_line(line: &str) -> Option<(u64, VolatileFile)> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (inode, born, size) = (number()?, number()?, number()?);
    let sec = words.next()?.parse().ok()?;
    let nsec = words.next()?.parse().ok()?;
    let left = Some((size, (sec, nsec)));
    Some((inode, VolatileFile { born, left }))
}
