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
pub use records::reverse_records::ReverseRecords;
pub use tree::content::PastContent;
pub use tree::effect::{self, RecordEffect};
pub use tree::layer;
pub use tree::layered_content::LayeredContent;
pub use tree::missing_part::MissingPart;
pub use tree::past_tree::{FullAttributes, NodeAttributes, PastTree};

use rustix::fs::FileType;

use super::Store;
use super::point::{Operation, Point};
use crate::error::Result;
use crate::journal::{InodeNumbers, LeftState, Op, Record};
use crate::name::WorldPath;
use crate::world::store::moved_paths::moved_paths;
use records::file_records::{FileRecord, FileRecords};
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
                self.tree.note_stamps(next.stamps);
                Some(next.record?)
            }
            (None, None) => self.records.next_record()?,
            // The first record that is not wanted is read in any case: it ends the loop.
            (None, Some(path_filter)) => self.records.next_where_in(|session, header| {
                path_filter.has(session, header.seq) || !wanted(session, header.seq)
            })?,
        };
        self.tree.note_stamps(self.records.take_stamps());
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

    /// Compares a file with what the home left there before the point reached: a change outside the home between two
    /// records may be older or newer than the point, so the content at the point is what the home left, or unknown.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub fn compare_with_home(&mut self, path: &WorldPath, point: &Point) -> Result<()> {
        let node = self.tree.resolve(path)?;
        let Some((node, ids)) = node.and_then(|node| Some((node, self.tree.ids(node)?))) else {
            return Ok(());
        };
        // A directory has no content to compare.
        if self.tree.kind(node) == FileType::Directory {
            return Ok(());
        }
        if let Some((session, seq)) = self.came_by_name_since(node, (path, ids), point)? {
            self.tree.forget_content(node, (&session, seq));
            return Ok(());
        }
        // What a record found is the content before it, whoever wrote that.
        let layer = self.top_layer(node);
        let was_found = |point: &Operation| {
            layer.is_some_and(|layer| {
                *layer.record.0 == *point.session && layer.record.1 == point.seq + 1
            })
        };
        match point {
            Point::Now => return Ok(()),
            Point::After(operation) if was_found(operation) => return Ok(()),
            Point::After(_) => {}
        }
        let found = layer.map(Arc::as_ptr);
        if let Some((true, (session, seq))) = self.told_by_name(node, (path, ids), point)? {
            self.tree.forget_content(node, (&session, seq));
            return Ok(());
        }
        // The latest record of a move after which the home took no stamp of the file.
        let mut unstamped = None;
        self.tree.drop_stamps_after(point);
        let mut records = FileRecords::new(self.store, (path, ids), point)?;
        let mut is_named = false;
        while let Some(mut next) = records.next()? {
            // Of a link of another file, which was here then, the records on the way here tell nothing.
            if matches!(&next.record.op, Op::Link { ids: of, .. } if *of != ids) {
                let of = (&next.session, next.record.seq);
                self.tree.forget_content(node, of);
                return Ok(());
            }
            is_named |= next.names_it;
            // Those of records after the point were compared on the way to it.
            next.stamps
                .retain(|(session, stamp)| point.includes(session, stamp.seq));
            self.tree.note_stamps(std::mem::take(&mut next.stamps));
            if next.moved_above {
                // What is below has no stamp then; a copy that was stamped since tells that nobody had changed it.
                if !self.tree.has_pending_stamp(ids) {
                    unstamped.get_or_insert((next.session, next.record.seq));
                }
                continue;
            }
            // Another file was there before a move: nothing tells which of the two was there after it.
            let is_other = !next.names_it && next.record.op.ids().next().is_some();
            let is_unsure = is_other && unstamped.is_some();
            if !is_unsure && self.has_left(ids, &next) {
                return self.compare_with_time(node, point, false);
            }
            self.tree.effects(&next.record, &next.session)?;
            if let Some((session, seq)) = &unstamped
                && (is_unsure || self.top_layer(node).map(Arc::as_ptr) != found)
            {
                // It was changed before that record, or the home would have stamped it, or may have been.
                self.tree.forget_content(node, (session, *seq));
                return Ok(());
            }
            let is_moved = next.record.op.content().is_none();
            if is_moved && next.record.op.ids().any(|of| *of == ids) && !self.tree.is_settled(ids) {
                unstamped.get_or_insert((next.session.clone(), next.record.seq));
            }
            if begins_file(&next.record.op, &next.path, ids) || self.tree.is_settled(ids) {
                return Ok(());
            }
        }
        is_named |= self.tree.is_recorded(node);
        self.compare_with_time(node, point, is_named)
    }

    /// Returns the layer of the oldest change of a content since the point reached.
    fn top_layer(&self, node: NodeId) -> Option<&Arc<layer::ContentLayer>> {
        self.tree.difference(node)?.content.as_ref()
    }

    /// Returns whether the file that a record has at a path was somewhere else after it, or gone, so that the one there
    /// now is no successor of it: somebody outside the home put it there.
    fn has_left(&self, ids: InodeNumbers, next: &FileRecord) -> bool {
        let path = &next.path;
        match &next.record.op {
            Op::Unlink {
                path: at, ids: of, ..
            }
            | Op::Rename {
                path: at, ids: of, ..
            } if at == path && *of != ids => true,
            Op::Rename { to, ids: of, .. } | Op::Restore { to, ids: of, .. } => {
                to == path && *of != ids && self.is_told_later(next, Some(*of))
            }
            Op::Create { path: at, .. } => at == path && self.is_told_later(next, None),
            op => op.changed_file().is_some_and(|(at, of)| {
                at == path && of != ids && self.is_told_later(next, Some(of))
            }),
        }
    }

    fn is_told_later(&self, next: &FileRecord, of: Option<InodeNumbers>) -> bool {
        let record = (next.session.clone(), next.record.seq);
        self.tree.has_later_stamp(&record, of)
    }

    /// Returns whether a file got the name that it has at a path from somebody outside the home, after a record that has
    /// its names: another file may have been there. `None` where the names do not tell: the file has more links. A
    /// directory above may have another name without that.
    fn came_by_name(
        &self,
        node: NodeId,
        path: &WorldPath,
        names: &[&WorldPath],
    ) -> Result<Option<bool>> {
        if names.iter().any(|known| known.name() == path.name()) {
            return Ok(Some(false));
        }
        let count = self.tree.disk().stat(node).map_or(0, |there| there.nlink);
        if usize::try_from(count).is_ok_and(|count| count <= names.len()) {
            return Ok(Some(true));
        }
        // Of a link, the name that it had before. Where that is gone without a record, it may be here now.
        let Some(name) = names.last() else {
            return Ok(None);
        };
        let above = name.parent().unwrap_or_default();
        let is_gone =
            self.tree.resolve(&above)?.is_some() && self.tree.resolve(name)? != Some(node);
        Ok(is_gone.then_some(true))
    }

    /// Returns the record after a point by which a file was not at a path then, if so: the first one that tells its names
    /// has others, and none up to the point has that. Somebody outside the home has moved it there since.
    fn came_by_name_since(
        &self,
        node: NodeId,
        (path, ids): (&WorldPath, InodeNumbers),
        point: &Point,
    ) -> Result<Option<RecordId>> {
        let first =
            FileRecords::first_after(self.store, ids, point, |op| names_before(op, ids).is_some())?;
        let Some((session, record)) = first else {
            return Ok(None);
        };
        let names = names_before(&record.op, ids).unwrap_or_default();
        let came = self.came_by_name(node, path, &names)?;
        if came == Some(false) {
            return Ok(None);
        }
        let earlier = self.told_by_name(node, (path, ids), point)?;
        let came = earlier.map_or(came == Some(true), |(came, _)| came);
        Ok(came.then_some((session, record.seq)))
    }

    /// Returns what the latest record up to a point that tells a file's names says: true if they are others than the one
    /// at a path. `None` where no record tells.
    fn told_by_name(
        &self,
        node: NodeId,
        (path, ids): (&WorldPath, InodeNumbers),
        point: &Point,
    ) -> Result<Option<(bool, RecordId)>> {
        let mut records = FileRecords::new(self.store, (path, ids), point)?;
        while let Some(next) = records.next()? {
            let FileRecord {
                session, record, ..
            } = next;
            if let Some(names) = names_after(&record.op, ids)
                && let Some(came) = self.came_by_name(node, path, &names)?
            {
                return Ok(Some((came, (session, record.seq))));
            }
            // Before a record of names it had others.
            if !next.moved_above && record.op.changed_file().is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// Compares a file with the time of the point reached, where no record up to it tells the content: what was made or
    /// changed since was so outside the home. `is_named` says whether any record names the file that is there.
    fn compare_with_time(&mut self, node: NodeId, point: &Point, is_named: bool) -> Result<()> {
        let mut records = ReverseRecords::open_unchecked(self.store)?;
        let last = records.next_where_in(|session, header| point.includes(session, header.seq))?;
        if let Some((session, record)) = last
            && self
                .tree
                .is_changed_since(node, (&session, &record), is_named)?
        {
            self.tree.forget_content(node, (&session, record.seq));
        }
        Ok(())
    }

    /// Returns the tree for taking records back one by one.
    pub fn tree_mut(&mut self) -> &mut PastTree<'a> {
        &mut self.tree
    }
}

/// Returns whether what is older than a record is not about the file that is at a path: the record created that, moved
/// another one there, or tells its content.
fn begins_file(op: &Op, path: &WorldPath, ids: InodeNumbers) -> bool {
    match op {
        Op::Create { path: at, .. } | Op::Mknod { path: at, .. } | Op::Symlink { path: at, .. } => {
            at == path
        }
        Op::Rename { to, ids: moved, .. } | Op::Restore { to, ids: moved, .. } => {
            to == path && *moved != ids
        }
        op => op.content().is_some(),
    }
}

/// Returns the paths that a record has of a file after it, if it is about that file.
fn names_after(op: &Op, ids: InodeNumbers) -> Option<Vec<&WorldPath>> {
    match op {
        Op::Rename { to, ids: of, .. } | Op::Restore { to, ids: of, .. } if *of == ids => {
            Some(vec![to])
        }
        Op::Link {
            path,
            from,
            ids: of,
        } if *of == ids => Some(vec![path, from]),
        op => {
            let (path, of) = op.changed_file()?;
            (of == ids).then(|| vec![path])
        }
    }
}

/// Returns the paths that a record has of a file before it, if it is about that file: of a link, the new one as well. Of
/// one that it moves to the trash it tells one name, and the file may have had more.
fn names_before(op: &Op, ids: InodeNumbers) -> Option<Vec<&WorldPath>> {
    if let Some(removed) = op.trashed().filter(|removed| removed.ids == ids) {
        return Some(vec![removed.path]);
    }
    match op {
        Op::Rename { path, ids: of, .. } if *of == ids => Some(vec![path]),
        Op::Restore { .. } => None,
        Op::Truncate { path, ids: of, .. } | Op::Content { path, ids: of, .. } if *of == ids => {
            Some(vec![path])
        }
        op => names_after(op, ids),
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
