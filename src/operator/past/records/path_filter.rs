//! Which records concern a path: a question about one file need not take back what happened to all others.
//!
//! A record concerns a path if it changes a name or an inode that is followed. Followed are the names on the path, what is
//! there now, and whatever the records that concern it name: where a thing was before and went afterwards, with the
//! directories on the way, and its entry in the trash. A record that changes nothing of that is never asked for, so what
//! the others say is the same without it.
//!
//! Names are compared by a hash: two that meet make a record concern the path that does not, which changes no answer.
//! Memory grows with the number of records, by some 20 bytes each, while they are looked through.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::error::Result;
use crate::journal::{Ids, RecordHeader, Ref};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::disk::interner::ByNumber;
use crate::operator::past::records::reverse_records::ReverseRecords;
use crate::operator::point::Point;

/// How often the records are looked through at most for one that concerns what was found to be followed later.
const ROUNDS: usize = 32;

/// So many records are not too many, however few there are.
const MANY: usize = 1024;

/// The records that concern a path.
#[derive(Debug)]
pub(in crate::operator::past) struct PathFilter {
    /// The sessions that were read, each with its newest record.
    newest: Vec<(Box<str>, u64)>,
    /// The place of a session among them, and the end of a record's number.
    records: HashSet<(u32, u32), ByNumber>,
}

/// What each record names, from the newest back.
#[derive(Default)]
struct Names {
    newest: Vec<(Box<str>, u64)>,
    /// For each session where in `words` it begins.
    starts: Vec<usize>,
    /// For each record the end of its number; how many paths it goes through and how many words follow, in four and in 28
    /// bits; these paths and words.
    words: Vec<u32>,
    records: usize,
    /// The names in paths that are gone through.
    through: HashMap<u32, Box<[u32]>, ByNumber>,
    hasher: RandomState,
}

impl PathFilter {
    /// Reads the records back to a point, checking the chain. `None` where so many concern the path that it is not worth
    /// telling them from the others.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn of(
        store: &Store,
        path: &WorldPath,
        inode: Option<Ids>,
        until: Option<&Point>,
    ) -> Result<Option<PathFilter>> {
        let mut names = Names::default();
        let mut records = ReverseRecords::open(store)?;
        let mut over = false;
        // The newest of a session is parsed: no other vouches for it.
        while !over
            && records
                .next_of(|session, header| {
                    over = until.is_some_and(|point| point.includes(session, header.seq));
                    over || names.note(session, header)
                })?
                .is_some()
        {}
        let mut followed: HashSet<u32, ByNumber> = HashSet::default();
        let hasher = &names.hasher;
        let on_path = path.components().map(|name| hasher.hash_one(name.bytes()));
        followed.extend(on_path.map(small));
        followed.extend(inode.map(|ids| small(hasher.hash_one(ids[1]))));
        Ok(names.path_filter(followed))
    }

    /// Returns whether a record concerns the path; one that was written since may.
    pub(in crate::operator::past) fn has(&self, session: &str, seq: u64) -> bool {
        let mut sessions = self.newest.iter();
        match sessions.position(|(id, newest)| **id == *session && seq <= *newest) {
            Some(at) => self.records.contains(&(small(at as u64), small(seq))),
            None => true,
        }
    }
}

/// The end of a number: where two are the same, a record too many is looked at.
fn small(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}

impl Names {
    /// Keeps what a record names. Returns whether it has to be parsed: the newest of its session, and one that is none.
    fn note(&mut self, session: &str, header: &RecordHeader<'_>) -> bool {
        let first = self.newest.last().is_none_or(|(id, _)| **id != *session);
        if first {
            self.newest.push((session.into(), header.seq));
            self.starts.push(self.words.len());
        }
        let Names {
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
        let told = header.words(|word| match word {
            Ref::Changed(name) => words.push(hash(name)),
            Ref::Inode(number) => words.push(small(hasher.hash_one(number))),
            Ref::Through(path) => {
                let key = hash(path);
                let names = || path.split(|b| *b == b'/').map(hash).collect();
                through.entry(key).or_insert_with(names);
                // There are two of them, and as many again where the line is read twice.
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
        first || told.is_err()
    }

    /// Finds the records that change what is followed, and follows what they name.
    fn path_filter(self, mut followed: HashSet<u32, ByNumber>) -> Option<PathFilter> {
        let mut records = HashSet::default();
        for _ in 0..ROUNDS {
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
                // Then telling them apart costs more than it saves.
                if records.len() > MANY.max(self.records / 4) {
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
