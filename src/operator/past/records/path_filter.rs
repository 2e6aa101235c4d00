//! The filter of records that concern a path: a question about one file need not take back the history of all others.
//!
//! A record concerns the path if it changes a name or an inode in the followed set. The set starts with the names on
//! the path and the inode there now, and grows by whatever concerned records name: earlier and later places of a
//! file, the directories on the way, and its entry in the trash. A record outside the set is never parsed; it cannot
//! change what the others mean.
//!
//! Names are compared by hash: a collision only adds a record, which changes no answer. Memory grows by about 20
//! bytes for each record while they are scanned.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::error::Result;
use crate::journal::{InodeNumbers, RecordHeader, RecordRef};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::disk::interner::NumberHash;
use crate::operator::past::records::reverse_records::ReverseRecords;
use crate::operator::point::Point;

/// The greatest number of scans of the records, since a later scan may find records for what an earlier one added.
const MAX_ROUNDS: usize = 32;

/// Filtering is worthwhile up to this number of concerned records, however few records there are.
const MAX_CONCERNED_RECORDS: usize = 1024;

/// The records that concern a path.
#[derive(Debug)]
pub(in crate::operator::past) struct PathFilter {
    /// The sessions read, each with the number of its newest record.
    newest: Vec<(Box<str>, u64)>,
    /// Concerned records: the session's index and the low bits of the record's number.
    records: HashSet<(u32, u32), NumberHash>,
}

/// The names and inodes in each record, from the newest back.
#[derive(Default)]
struct RecordNames {
    newest: Vec<(Box<str>, u64)>,
    /// The index in `words` at which each session begins.
    starts: Vec<usize>,
    /// For each record: the low bits of its number; the count of its paths in four bits and of its words in 28; the
    /// paths and words.
    words: Vec<u32>,
    records: usize,
    /// The names of the directories in each path.
    through: HashMap<u32, Box<[u32]>, NumberHash>,
    hasher: RandomState,
}

impl PathFilter {
    /// Reads the records back to a point, checking the chain. `None` where so many concern the path that filtering is
    /// not worthwhile.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn of(
        store: &Store,
        path: &WorldPath,
        inode: Option<InodeNumbers>,
        until: Option<&Point>,
    ) -> Result<Option<PathFilter>> {
        let mut names = RecordNames::default();
        let mut records = ReverseRecords::open(store)?;
        let mut over = false;
        // A session's newest record is parsed: no later line confirms it.
        while !over
            && records
                .next_where_in(|session, header| {
                    over = until.is_some_and(|point| point.includes(session, header.seq));
                    over || names.note(session, header)
                })?
                .is_some()
        {}
        let mut followed: HashSet<u32, NumberHash> = HashSet::default();
        let hasher = &names.hasher;
        let on_path = path.components().map(|name| hasher.hash_one(name.bytes()));
        followed.extend(on_path.map(small));
        followed.extend(inode.map(|ids| small(hasher.hash_one(ids[1]))));
        Ok(names.path_filter(followed))
    }

    /// Returns whether a record concerns the path; true for one written since.
    pub(in crate::operator::past) fn has(&self, session: &str, seq: u64) -> bool {
        let mut sessions = self.newest.iter();
        match sessions.position(|(id, newest)| **id == *session && seq <= *newest) {
            Some(at) => self.records.contains(&(small(at as u64), small(seq))),
            None => true,
        }
    }
}

/// Returns the low bits of a number; a collision only adds a record.
fn small(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}

impl RecordNames {
    /// Adds a record's names. Returns whether the record must be parsed: a session's newest, and an invalid one.
    fn note(&mut self, session: &str, header: &RecordHeader<'_>) -> bool {
        let first = self.newest.last().is_none_or(|(id, _)| **id != *session);
        if first {
            self.newest.push((session.into(), header.seq));
            self.starts.push(self.words.len());
        }
        let RecordNames {
            words,
            through,
            hasher,
            ..
        } = self;
        let hash = |name: &[u8]| small(hasher.hash_one(name));
        let start = words.len();
        words.extend([small(header.seq), 0]);
        let mut paths = [0; 15];
        let mut count = 0;
        let read = header.refs(|word| match word {
            RecordRef::Changed(name) => words.push(hash(name)),
            RecordRef::Inode(number) => words.push(small(hasher.hash_one(number))),
            RecordRef::Through(path) => {
                let key = hash(path);
                let names = || path.split(|b| *b == b'/').map(hash).collect();
                through.entry(key).or_insert_with(names);
                // A record has two paths, and as many again where the line is read twice.
                if let Some(free) = paths.get_mut(count) {
                    *free = key;
                    count += 1;
                }
            }
        });
        let changed = words.len() - start - 2;
        words.extend(paths.iter().take(count));
        if let Some(header) = words.get_mut(start + 1) {
            *header = small((count << 28 | changed) as u64);
        }
        self.records += 1;
        first || read.is_err()
    }

    /// Finds the records that change anything in the followed set, and adds the names in them.
    fn path_filter(self, mut followed: HashSet<u32, NumberHash>) -> Option<PathFilter> {
        let mut records = HashSet::default();
        for _ in 0..MAX_ROUNDS {
            let known = followed.len();
            let ends = self.starts.iter().skip(1).copied();
            let ends = ends.chain([self.words.len()]);
            for (session, (start, end)) in self.starts.iter().zip(ends).enumerate() {
                let mut rest = self.words.get(*start..end)?;
                while let Some(([seq, header], words)) = rest.split_first_chunk() {
                    let (count, changed) = (header >> 28, header & 0x0fff_ffff);
                    let (changed, words) = words.split_at_checked(changed as usize)?;
                    let (paths, words) = words.split_at_checked(count as usize)?;
                    rest = words;
                    if changed.iter().any(|word| followed.contains(word)) {
                        records.insert((small(session as u64), *seq));
                        followed.extend(changed);
                        let names = paths.iter().filter_map(|path| self.through.get(path));
                        followed.extend(names.flatten());
                    }
                }
                // Beyond this, filtering costs more than it saves.
                if records.len() > MAX_CONCERNED_RECORDS.max(self.records / 4) {
                    return None;
                }
            }
            if followed.len() == known {
                return Some(PathFilter {
                    newest: self.newest,
                    records,
                });
            }
        }
        None
    }
}
