//! The past: the store's tree as it was at any point, with its contents, computed backwards from what is on the disk
//! now.
//!
//! [`Past`] goes back from the newest record; [`PastTree`] is the state it reaches. No snapshot is stored: the journal
//! has the operations, the trash and the versions have what they removed, and everything else is still in place.
//!
//! ```text
//! let mut past = Past::now(&store)?;
//! past.back_to(&point)?;
//! let node = past.tree().resolve(&path)?;      // Option<NodeId>
//! past.tree().content(node)?.reader();         // its bytes at that point
//! ```
//!
//! Works without a lock, even while the store is mounted; a concurrent change may then show on either side of the
//! point.

mod disk;
mod home_comparison;
mod records;
pub(in crate::operator) mod tree;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

pub use disk::disk_tree::DiskTree;
pub use disk::interner::NameId;
pub(in crate::operator) use disk::interner::{NameInterner, NumberHash};
pub(in crate::operator) use disk::node_id::NameSlot;
pub use disk::node_id::{DirSlot, NodeId, ROOT};
pub use disk::node_set::NodeSet;
pub use home_comparison::ComparedFile;
pub use records::reverse_records::ReverseRecords;
pub use tree::content::PastContent;
pub use tree::effect::{self, RecordEffect};
pub use tree::layer;
pub use tree::layered_content::LayeredContent;
pub use tree::missing_part::MissingPart;
pub use tree::past_tree::{FullAttributes, NodeAttributes, PastTree};
pub use tree::unknown_writes::UnknownWriterOf;

use super::Store;
use super::point::Point;
use crate::error::Result;
use crate::journal::{LeftState, Op, Record};
use crate::name::WorldPath;
use crate::world::store::moved_paths::moved_paths;
use records::path_filter::PathFilter;

/// Raises this process's limit of open files as far as it may be raised (setrlimit(2)): a content is read from all the
/// versions between it and now, each of which stays open meanwhile. Programs that it starts inherit the limit, and
/// select(2) fails with descriptors from 1024 on.
pub fn raise_open_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The number of older records in which the moves of a path are looked for. Only those count that were written between
/// the opening of a file and the record of its change.
const READ_AHEAD: usize = 1024;

/// A record's session and number.
pub type RecordId = (Arc<str>, u64);

/// The names and nodes that records changed between two points.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// The names, each with its directory.
    pub names: BTreeSet<DirSlot>,
    /// The nodes whose content or attributes changed.
    pub nodes: HashSet<NodeId>,
}

/// A record that was read ahead, or the error that ended the reading, and the stamps met on the way to it.
#[derive(Debug)]
struct RecordAhead {
    record: Result<(Arc<str>, Record)>,
    stamps: Vec<(Arc<str>, LeftState)>,
}

/// The way back through the records.
#[derive(Debug)]
pub struct Past<'a> {
    tree: PastTree<'a>,
    records: ReverseRecords<'a>,
    /// Records that were read but not taken back yet, the newest first, and the error that ended the reading.
    ahead: VecDeque<RecordAhead>,
    /// The filter of the records to take back; `None` for all of them.
    path_filter: Option<PathFilter>,
    store: &'a Store,
    /// The latest session found to be recorded in this store, not in the original of a copy.
    trusted: Option<Arc<str>>,
}

impl<'a> Past<'a> {
    /// Starts with the tree on the disk now.
    ///
    /// # Errors
    /// Those of listing the sessions.
    pub fn now(store: &'a Store) -> Result<Past<'a>> {
        let records = ReverseRecords::open(store)?.with_stamps();
        Ok(Past {
            tree: PastTree::now(Rc::new(DiskTree::new(store))),
            records,
            ahead: VecDeque::new(),
            path_filter: None,
            store,
            trusted: None,
        })
    }

    /// As [`Past::now`], for a question about one path: records that do not concern it are skipped, and only this
    /// path may be looked up. Where a directory is there now, no record is skipped. Where a directory was there at
    /// the point, it is found, but without its entries and its time; for these use [`Past::now`].
    ///
    /// This reads the records back to the point and checks the chain.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read; those of reading the disk.
    pub fn about_path(
        store: &'a Store,
        path: &WorldPath,
        until: Option<&Point>,
    ) -> Result<Past<'a>> {
        let mut past = Past::now(store)?;
        let there = past.tree.resolve(path)?;
        // In a copy of a store, the inodes in records mean nothing.
        if path.is_root()
            || there.is_some_and(|node| past.tree.kind(node).is_dir())
            || store.copy_origin()?.is_some()
        {
            return Ok(past);
        }
        let inode = there.and_then(|node| past.tree.ids(node));
        past.path_filter = PathFilter::of(store, path, inode, until)?;
        past.records = ReverseRecords::open_unchecked(store)?.with_stamps();
        Ok(past)
    }

    /// Continues with records without actor, time and hashes: [`ReverseRecords::without_actors`].
    pub fn without_actors(self) -> Past<'a> {
        Past {
            records: self.records.without_actors(),
            ..self
        }
    }

    /// Returns whether no record is skipped.
    pub fn looks_at_all(&self) -> bool {
        self.path_filter.is_none()
    }

    /// Returns the tree at the point reached.
    pub fn tree(&self) -> &PastTree<'a> {
        &self.tree
    }

    /// Returns the tree at the point reached, for good. It can no longer find nodes by inode number.
    pub fn into_tree(mut self) -> PastTree<'a> {
        self.tree.end_reversal();
        self.tree
    }

    /// Goes back to a point and returns what the records in between changed. A point later than the one reached has
    /// no effect.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read; those of reading the disk.
    pub fn back_to(&mut self, point: &Point) -> Result<ChangeSet> {
        let mut touched = ChangeSet::default();
        let disk = self.tree.disk().clone();
        self.back_noting(point, |_, _, effect| touched.add(effect, &disk))?;
        Ok(touched)
    }

    /// Goes back to a point, passing each reversed effect to `note`.
    ///
    /// # Errors
    /// As [`Past::back_to`].
    pub fn back_noting(
        &mut self,
        point: &Point,
        mut note: impl FnMut(&str, &Record, &RecordEffect),
    ) -> Result<()> {
        while let Some((session, record)) =
            self.back_by_one(|session, seq| !point.includes(session, seq))?
        {
            for effect in self.tree.effects(&record, &session)? {
                note(&session, &record, &effect);
                let born = effect.created_node();
                self.tree.reverse(effect, (&session, &record));
                if let Some(node) = born {
                    self.tree.forget_unborn(node);
                }
            }
        }
        Ok(())
    }

    /// Reads the next older record if it is wanted, without changing the tree.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`]; [`Error::Refused`](crate::error::Error::Refused) for a record of the store
    /// that this one is a copy of.
    pub fn back_by_one(
        &mut self,
        wanted: impl Fn(&str, u64) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        let next = match (self.ahead.pop_front(), &self.path_filter) {
            (Some(next), _) => {
                self.note_stamps(next.stamps)?;
                Some(next.record?)
            }
            (None, None) => self.records.next_record()?,
            // The first record that is not wanted is read in any case: it ends the loop.
            (None, Some(path_filter)) => self.records.next_where_in(|session, header| {
                path_filter.has(session, header.seq) || !wanted(session, header.seq)
            })?,
        };
        let stamps = self.records.take_stamps();
        self.note_stamps(stamps)?;
        match next {
            Some((session, record)) if wanted(&session, record.seq) => {
                if self.trusted.as_ref() != Some(&session) {
                    if let Err(error) = self.store.expect_trusted(&session) {
                        self.ahead.push_front(RecordAhead::read((session, record)));
                        return Err(error);
                    }
                    self.trusted = Some(session.clone());
                }
                let record = self.with_path_after(&session, record)?;
                Ok(Some((session, record)))
            }
            next => {
                if let Some(next) = next {
                    self.ahead.push_front(RecordAhead::read(next));
                }
                Ok(None)
            }
        }
    }

    /// Notes the stamps met on the way, and the states that an unknown writer left. The latter are of no use where records
    /// are skipped: only one path may be looked up then.
    fn note_stamps(&mut self, stamps: Vec<(Arc<str>, LeftState)>) -> Result<()> {
        let (unknown, stamps): (Vec<_>, Vec<_>) = stamps
            .into_iter()
            .partition(|(_, state)| state.by.is_some());
        self.tree.note_stamps(stamps);
        if unknown.is_empty() || self.path_filter.is_some() {
            return Ok(());
        }
        let unknown = unknown.into_iter().rev().map(|(_, state)| state);
        self.tree.note_unknown_writes(unknown)
    }

    /// Gives a record of a change in a file the path that the file had after it. The record has the path that it was
    /// opened by: a directory above may have moved before the record was written. The moves just before it tell.
    fn with_path_after(&mut self, session: &Arc<str>, mut record: Record) -> Result<Record> {
        let Some((path, ids)) = record.op.changed_file_mut() else {
            return Ok(record);
        };
        if self.tree.knows_node(path, ids)? {
            return Ok(record);
        }
        read_ahead(
            &mut self.records,
            &mut self.ahead,
            self.path_filter.as_ref(),
        );
        let before: Vec<&Record> = self
            .ahead
            .iter()
            .map_while(|next| next.record.as_ref().ok().filter(|(of, _)| of == session))
            .map(|(_, record)| record)
            .collect();
        for to in moved_paths(path, &before) {
            let node = self.tree.resolve(&to)?;
            if node.is_some_and(|node| self.tree.ids(node) == Some(ids)) {
                *path = to;
                break;
            }
        }
        Ok(record)
    }

    /// Compares the file at a path with what the home left there: [`PastTree::compare_with_home`].
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub fn compare_with_home(&mut self, path: &WorldPath, point: &Point) -> Result<()> {
        let node = self.tree.resolve(path)?;
        let file = node.map(|node| (node, Some(path.clone())));
        self.tree
            .compare_with_home(file.into_iter().collect(), point)
    }

    /// Returns the tree for taking records back one by one.
    pub fn tree_mut(&mut self) -> &mut PastTree<'a> {
        &mut self.tree
    }
}

/// Reads records ahead, to the beginning of their session at most.
fn read_ahead(
    records: &mut ReverseRecords<'_>,
    ahead: &mut VecDeque<RecordAhead>,
    path_filter: Option<&PathFilter>,
) {
    let is_last = |last: &RecordAhead| match &last.record {
        Ok((_, record)) => matches!(record.op, Op::Begin { .. }),
        Err(_) => true,
    };
    while ahead.len() < READ_AHEAD && !ahead.back().is_some_and(is_last) {
        let next = match path_filter {
            None => records.next_record(),
            Some(filter) => {
                records.next_where_in(|session, header| filter.has(session, header.seq))
            }
        };
        let Some(record) = next.transpose() else {
            break;
        };
        ahead.push_back(RecordAhead {
            record,
            stamps: records.take_stamps(),
        });
    }
}

impl RecordAhead {
    /// Returns a record whose stamps were noted already.
    fn read(record: (Arc<str>, Record)) -> RecordAhead {
        RecordAhead {
            record: Ok(record),
            stamps: Vec::new(),
        }
    }
}

impl ChangeSet {
    /// Adds the changes of an effect.
    fn add(&mut self, effect: &RecordEffect, disk: &DiskTree<'_>) {
        match effect {
            RecordEffect::Name { dir, name, .. } => {
                self.names.insert((*dir, disk.text(*name)));
            }
            effect => self.nodes.extend(effect.changed_inside()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
