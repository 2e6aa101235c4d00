//! The records about some files, read once for all of them: a question about each file of a directory need not read the
//! journals for each.
//!
//! Records are read from the newest back, as far as somebody asks, and held if they name an inode of the files, or a name
//! on the paths of them. A record that moves a directory adds the names on its former path: older records have those.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Result;
use crate::journal::{InodeNumbers, LeftState, Op, Record, RecordRef};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::records::reverse_records::ReverseRecords;
use crate::operator::point::Point;

/// A session and a record in it.
pub(in crate::operator::past) type HeldRecord = (Arc<str>, Arc<Record>);

/// A stamp that was met on the way back.
struct HeldStamp {
    /// The number of records that were held when it was met.
    passed: usize,
    /// Its place among all stamps, the newest first.
    place: usize,
    session: Arc<str>,
    state: LeftState,
}

/// The records about some files, and the stamps up to a point.
pub(in crate::operator::past) struct FileHistory<'a> {
    records: ReverseRecords<'a>,
    point: Point,
    /// The names on the paths of the files.
    names: HashSet<Box<[u8]>>,
    inodes: HashSet<u64>,
    held: Vec<HeldRecord>,
    /// The held records that name an inode, a path, or the place that something was moved to.
    by_inode: HashMap<u64, Vec<usize>>,
    by_path: HashMap<WorldPath, Vec<usize>>,
    moves: HashMap<WorldPath, Vec<usize>>,
    stamps: HashMap<InodeNumbers, Vec<HeldStamp>>,
    /// The inodes that records made, as stamps after them have them.
    made: HashMap<(Arc<str>, u64), InodeNumbers>,
    stamp_count: usize,
    /// The latest record up to the point.
    last: Option<HeldRecord>,
    /// The first record of the session that begins at the point.
    begun: Option<HeldRecord>,
    is_read: bool,
}

impl<'a> FileHistory<'a> {
    /// Starts at the newest record, for files by their paths and inodes at a point.
    ///
    /// # Errors
    /// Those of listing the sessions.
    pub(in crate::operator::past) fn new<'f>(
        store: &'a Store,
        files: impl Iterator<Item = (&'f WorldPath, InodeNumbers)>,
        point: &Point,
    ) -> Result<FileHistory<'a>> {
        let mut history = FileHistory {
            records: ReverseRecords::open_unchecked(store)?.with_stamps(),
            point: point.clone(),
            names: HashSet::new(),
            inodes: HashSet::new(),
            held: Vec::new(),
            by_inode: HashMap::new(),
            by_path: HashMap::new(),
            moves: HashMap::new(),
            stamps: HashMap::new(),
            made: HashMap::new(),
            stamp_count: 0,
            last: None,
            begun: None,
            is_read: false,
        };
        for (path, ids) in files {
            history.add_names(path);
            history.inodes.insert(ids[1]);
        }
        Ok(history)
    }

    /// Returns the point.
    pub(in crate::operator::past) fn point(&self) -> &Point {
        &self.point
    }

    /// Returns a held record by its place in the order.
    pub(in crate::operator::past) fn record(&self, at: usize) -> Option<HeldRecord> {
        self.held.get(at).cloned()
    }

    /// Returns the latest record up to the point.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn last(&mut self) -> Result<Option<HeldRecord>> {
        while self.last.is_none() && self.read_on()? {}
        Ok(self.last.clone())
    }

    /// Returns the record of the beginning of the session whose start the point is.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn begun(&mut self) -> Result<Option<HeldRecord>> {
        self.last()?;
        Ok(self.begun.clone())
    }

    /// Returns the place of the next held record, after so many, that names an inode or a path, or that moved something to
    /// it or to a directory above.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn next_about(
        &mut self,
        passed: usize,
        path: Option<&WorldPath>,
        ids: InodeNumbers,
    ) -> Result<Option<usize>> {
        loop {
            let mut found = next_of(self.by_inode.get(&ids[1]), passed);
            let mut add = |other: Option<usize>| {
                found = match (found, other) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            };
            if let Some(path) = path {
                add(next_of(self.by_path.get(path), passed));
            }
            let mut above = path.filter(|_| !self.moves.is_empty()).cloned();
            while let Some(at) = above.filter(|at| !at.is_root()) {
                add(next_of(self.moves.get(&at), passed));
                above = at.parent();
            }
            if found.is_some() || !self.read_on()? {
                return Ok(found);
            }
        }
    }

    /// Returns the oldest record after the point that names an inode and is wanted.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn first_after(
        &mut self,
        ids: InodeNumbers,
        wanted: impl Fn(&Op) -> bool,
    ) -> Result<Option<HeldRecord>> {
        self.last()?;
        let places = self.by_inode.get(&ids[1]).into_iter().flatten();
        let records = places.filter_map(|at| self.held.get(*at));
        let later =
            records.take_while(|(session, record)| !self.point.includes(session, record.seq));
        Ok(later
            .filter(|(_, record)| wanted(&record.op))
            .last()
            .cloned())
    }

    /// Returns the stamps up to the point of an inode, and of those that a held record names, which were met before that
    /// record and not returned yet, in the order in which they were written.
    pub(in crate::operator::past) fn stamps(
        &self,
        at: usize,
        ids: InodeNumbers,
        returned: &mut HashMap<InodeNumbers, usize>,
    ) -> Vec<(Arc<str>, LeftState)> {
        let mut inodes = vec![ids];
        if let Some((session, record)) = self.held.get(at) {
            inodes.extend(record.op.ids().copied());
            inodes.extend(record.op.changed_file().map(|(_, of)| of));
            inodes.extend(self.made.get(&(session.clone(), record.seq)));
        }
        inodes.sort_unstable();
        inodes.dedup();
        let mut found: Vec<&HeldStamp> = Vec::new();
        for of in inodes {
            let Some(stamps) = self.stamps.get(&of) else {
                continue;
            };
            let from = returned.entry(of).or_default();
            let to = stamps.partition_point(|stamp| stamp.passed <= at);
            found.extend(stamps.get(*from..to).unwrap_or_default());
            *from = to.max(*from);
        }
        found.sort_unstable_by_key(|stamp| std::cmp::Reverse(stamp.place));
        let state = |stamp: &HeldStamp| (stamp.session.clone(), stamp.state.clone());
        found.into_iter().map(state).collect()
    }

    /// Reads on to the next record to hold. Returns false at the end.
    fn read_on(&mut self) -> Result<bool> {
        if self.is_read {
            return Ok(false);
        }
        let starts = match &self.point {
            Point::After(point) if point.seq == 0 => Some(point.session.as_str()),
            _ => None,
        };
        let (point, names, inodes) = (&self.point, &self.names, &self.inodes);
        let mut needs_last = self.last.is_none();
        let next = self.records.next_where_in(|session, header| {
            let is_last = needs_last && point.includes(session, header.seq);
            needs_last &= !is_last;
            let mut wanted = is_last || header.seq == 1 && starts == Some(session);
            let read = header.refs(|word| match word {
                RecordRef::Changed(name) => wanted |= names.contains(name),
                RecordRef::Inode(number) => wanted |= inodes.contains(&number),
                RecordRef::Through(_) => {}
            });
            wanted || read.is_err()
        })?;
        let is_begun = next
            .as_ref()
            .is_some_and(|(session, record)| record.seq == 1 && starts == Some(session));
        self.hold_stamps();
        let Some((session, mut record)) = next else {
            self.is_read = true;
            return Ok(false);
        };
        (record.actor, record.prev) = (None, String::new());
        let held = (session, Arc::new(record));
        if is_begun {
            self.begun = Some(held.clone());
        }
        if self.last.is_none() && self.point.includes(&held.0, held.1.seq) {
            self.last = Some(held.clone());
        }
        self.hold(held);
        Ok(true)
    }

    fn hold_stamps(&mut self) {
        for (session, state) in self.records.take_stamps().into_iter().rev() {
            if state.by.is_some() || !self.point.includes(&session, state.seq) {
                continue;
            }
            let record = (session.clone(), state.seq);
            self.made.entry(record).or_insert(state.ids);
            self.stamp_count += 1;
            self.stamps.entry(state.ids).or_default().push(HeldStamp {
                passed: self.held.len(),
                place: self.stamp_count,
                session,
                state,
            });
        }
    }

    fn hold(&mut self, held: HeldRecord) {
        let (at, op) = (self.held.len(), &held.1.op);
        let mut inodes: Vec<u64> = op.ids().map(|ids| ids[1]).collect();
        inodes.extend(op.changed_file().map(|(_, ids)| ids[1]));
        for inode in inodes {
            add_place(self.by_inode.entry(inode).or_default(), at);
        }
        let from = match op {
            Op::Link { from, .. } => Some(from),
            _ => None,
        };
        for path in [op.path(), op.to(), from].into_iter().flatten() {
            add_place(self.by_path.entry(path.clone()).or_default(), at);
        }
        if let (Some(path), Some(to)) = (op.path(), op.to()) {
            add_place(self.moves.entry(to.clone()).or_default(), at);
            if matches!(op, Op::Exchange { .. }) {
                add_place(self.moves.entry(path.clone()).or_default(), at);
            }
            let both = [path.clone(), to.clone()];
            both.iter().for_each(|path| self.add_names(path));
        }
        self.held.push(held);
    }

    fn add_names(&mut self, path: &WorldPath) {
        for name in path.components() {
            if !self.names.contains(name.bytes()) {
                self.names.insert(name.bytes().into());
            }
        }
    }
}

fn add_place(places: &mut Vec<usize>, at: usize) {
    if places.last() != Some(&at) {
        places.push(at);
    }
}

/// Returns the first place that is not among those passed.
fn next_of(places: Option<&Vec<usize>>, passed: usize) -> Option<usize> {
    let places = places?;
    let next = places.partition_point(|at| *at < passed);
    places.get(next).copied()
}
