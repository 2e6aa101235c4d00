//! The noise in the trash: entries that are not worth restoring.
//!
//! There are three kinds, each recognized by more than its name (`Cargo.lock` and a file called `dream-journal` may be
//! a user's work): files that one process created and removed again, with no other process writing to them; lock files
//! that contain only a process number, and git's; SQLite's journals, recognized by their first bytes. Memory is
//! bounded: a file that outlives very many newer ones does not count as ephemeral.

use std::collections::{HashMap, HashSet, VecDeque};

use rustix::fs::{FileType, OFlags};

use super::Store;
use super::log::ForwardRecords;
use super::trash::TrashEntry;
use super::trash_size::size_of;
use crate::error::Result;
use crate::journal::{Op, Record};
use crate::name::{Name, WorldPath};
use crate::world::Root;
use crate::world::store::layout::TRASH;

/// The greatest number of created files that are remembered at a time.
const MAX_REMEMBERED_FILES: usize = 200_000;

/// The maximum size of a lock file: a process number and a host name.
const MAX_LOCK_BYTES: u64 = 64;

/// Returns which of the given entries of the trash are noise.
///
/// # Errors
/// Those of reading the journals; a damaged one only causes a warning, and nothing in it counts as noise.
pub fn ephemeral_among(store: &Store, listed: &[TrashEntry]) -> Result<HashSet<Vec<u8>>> {
    let passing = short_lived_entries(store)?;
    let mut noise = HashSet::new();
    for entry in listed {
        if short_lived(store, entry, &passing)? || is_helper(store, entry) {
            noise.insert(entry.entry.0.clone());
        }
    }
    Ok(noise)
}

/// Returns whether one process created and removed everything in an entry.
fn short_lived(store: &Store, entry: &TrashEntry, passing: &HashMap<Vec<u8>, u64>) -> Result<bool> {
    let Some(names) = passing.get(&entry.entry.0) else {
        return Ok(false);
    };
    if !entry.directory {
        return Ok(true);
    }
    // Files hidden from the occupant move along with a directory without a record.
    let name = Name::new(&entry.entry.0)?;
    let trash = WorldPath::parse(TRASH)?;
    let meta = store.root.dir(&trash)?.stat(name)?;
    Ok(size_of(store, trash.join(name), &meta)?.names <= *names)
}

/// Files created and not yet removed, by path.
#[derive(Default)]
struct LivingFiles {
    by_path: HashMap<WorldPath, (u32, bool)>,
    order: VecDeque<WorldPath>,
}

impl LivingFiles {
    fn note_creation(&mut self, path: WorldPath, pid: u32, directory: bool) {
        self.order.push_back(path.clone());
        self.by_path.insert(path, (pid, directory));
        while self.order.len() > MAX_REMEMBERED_FILES {
            if let Some(oldest) = self.order.pop_front() {
                self.by_path.remove(&oldest);
            }
        }
    }

    /// Notes a change: another process's work makes a file more than ephemeral.
    fn note_change(&mut self, path: &WorldPath, pid: u32) {
        if self.by_path.get(path).is_some_and(|(by, _)| *by != pid) {
            self.by_path.remove(path);
        }
    }

    fn note_removal(&mut self, path: &WorldPath, pid: u32, directory: bool) -> bool {
        self.by_path.remove(path) == Some((pid, directory))
    }
}

/// Scans the journals for entries whose content one process created and removed. Returns the number of names in each.
fn short_lived_entries(store: &Store) -> Result<HashMap<Vec<u8>, u64>> {
    let mut found = HashMap::new();
    let mut living = LivingFiles::default();
    let mut log = ForwardRecords::open(store)?;
    loop {
        match log.next_record() {
            Ok(Some((_, record))) => note_record(record, &mut living, &mut found),
            Ok(None) => return Ok(found),
            Err(error) => {
                log::warn!("{error}");
                living = LivingFiles::default();
            }
        }
    }
}

fn note_record(record: Record, living: &mut LivingFiles, found: &mut HashMap<Vec<u8>, u64>) {
    let pid = record.actor.as_ref().map_or(0, |actor| actor.pid);
    match record.op {
        Op::Begin { .. } => *living = LivingFiles::default(),
        Op::Create { path, .. } | Op::Mknod { path, .. } if pid != 0 => {
            living.note_creation(path, pid, false);
        }
        Op::Mkdir { path, .. } if pid != 0 => living.note_creation(path, pid, true),
        Op::Write { path, .. }
        | Op::Truncate { path, .. }
        | Op::Content { path, .. }
        | Op::Allocate { path, .. }
        | Op::Attr { path, .. } => living.note_change(&path, pid),
        // The file has another name now and may live on under it.
        Op::Link { from, .. } => {
            living.by_path.remove(&from);
        }
        Op::Rename { path, to, .. } => {
            living.by_path.remove(&to);
            if let Some((by, directory)) = living.by_path.remove(&path)
                && by == pid
            {
                living.note_creation(to, by, directory);
            }
        }
        Op::Exchange { path, to, .. } => {
            living.by_path.remove(&path);
            living.by_path.remove(&to);
        }
        Op::Unlink { path, trash, .. } if living.note_removal(&path, pid, false) => {
            found.insert(trash.0, 0);
        }
        Op::Rmdir { path, trash, .. } if living.note_removal(&path, pid, true) => {
            found.insert(trash.0, 0);
        }
        Op::Gather { trash, entries, .. } => {
            let parts: Vec<_> = entries.iter().map(|entry| found.remove(&entry.0)).collect();
            let names: Option<u64> = parts.into_iter().map(|names| names.map(|n| n + 1)).sum();
            match (found.get_mut(&trash.0), names) {
                (Some(total), Some(names)) => *total += names,
                _ => {
                    found.remove(&trash.0);
                }
            }
        }
        _ => {}
    }
}

/// Returns whether an entry is a lock file or a database journal.
fn is_helper(store: &Store, entry: &TrashEntry) -> bool {
    let Some(path) = &entry.path else {
        return false;
    };
    let Some(name) = path.name().filter(|_| !entry.directory) else {
        return false;
    };
    let name = name.bytes();
    if name.ends_with(b".lock") {
        let is_named_git = path.components().any(|part| part.bytes() == b".git");
        let gits = is_named_git || store.is_git_dir();
        return gits || (entry.size <= MAX_LOCK_BYTES && contains_number(&read_head(store, entry)));
    }
    let (journal, wal) = (name.ends_with(b"-journal"), name.ends_with(b"-wal"));
    if !journal && !wal && !name.ends_with(b"-shm") {
        return false;
    }
    let head = read_head(store, entry);
    let starts = |magic: &[u8]| head.starts_with(magic);
    // SQLite's file format: "The Rollback Journal", "WAL File Format", "WAL-Index Format".
    entry.size == 0
        || (journal && (starts(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7])))
        || (journal && head.len() == HEAD_BYTES && head.iter().all(|byte| *byte == 0))
        || (wal && (starts(&[0x37, 0x7f, 0x06, 0x82]) || starts(&[0x37, 0x7f, 0x06, 0x83])))
        || (!journal && !wal && starts(&3_007_000_u32.to_ne_bytes()))
}

fn contains_number(head: &[u8]) -> bool {
    let text = head.trim_ascii();
    text.is_empty() || text.iter().all(|byte| byte.is_ascii_digit())
}

/// The number of bytes that are examined.
const HEAD_BYTES: usize = MAX_LOCK_BYTES as usize;

fn read_head(store: &Store, entry: &TrashEntry) -> Vec<u8> {
    let read = |root: &Root| -> Result<Vec<u8>> {
        let node = root
            .dir(&WorldPath::parse(TRASH)?)?
            .node(Name::new(&entry.entry.0)?)?;
        if node.meta().kind != FileType::RegularFile {
            return Ok(b"?".to_vec());
        }
        let fd = root.reopen(&node, OFlags::RDONLY)?;
        let mut head = vec![0; HEAD_BYTES];
        let count = rustix::io::read(&fd, &mut head).map_err(crate::error::Error::os("read"))?;
        head.truncate(count);
        Ok(head)
    };
    read(&store.root).unwrap_or_else(|_| b"?".to_vec())
}
