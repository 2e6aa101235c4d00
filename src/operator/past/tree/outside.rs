//! Changes outside the home: files that are not as the home left them.
//!
//! Owns the comparison of a file with the stamp that the home left ([`LeftState`]). On the way back, a stamp is met
//! before the records that it follows. A file that differs from it was changed by somebody else in between: that
//! becomes a layer of its own over the file's content ([`LayerKind::Outside`]), before which nothing is known but what
//! versions hold. A file that stands at the path of one that is gone, as after an editor's save, is its successor. An
//! inode with another time of birth is another file that got the number.
//!
//! A difference in the time of change alone is none, because the home's own renames and links cause it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::{FileTime, InodeNumbers, LeftState, Op, tail};
use crate::name::WorldPath;
use crate::operator::past::disk::compact_inode::CompactInode;
use crate::operator::past::disk::interner::NumberHash;
use crate::operator::past::disk::node_id::{NameSlot, NodeId, ROOT};
use crate::operator::past::tree::copy::{digest_of, io_error};
use crate::operator::past::tree::layer::{ContentLayer, LayerKind};
use crate::operator::past::tree::past_tree::{NodeOverlay, PastTree};
use crate::world::store::layout::TRASH;
use crate::world::store::settle::open_journal;
use crate::world::trash::trash_entries::parse_entry;

/// A record's session and number.
type RecordKey = (Arc<str>, u64);

/// The stamps met on the way back whose records are still to come.
#[derive(Debug, Clone, Default)]
pub(in crate::operator::past) struct PendingStamps {
    /// The stamps of each inode: one, unless a seal has several.
    by_inode: HashMap<CompactInode, Vec<PendingStamp>, NumberHash>,
    /// The inode that each record made or left: the record of a creation does not name it.
    made: HashMap<RecordKey, InodeNumbers>,
    /// The files that may have been written to since they were stamped after a record.
    mapped: HashSet<(RecordKey, CompactInode)>,
    /// The births of inodes that are no longer on the disk, as later stamps have them.
    births: HashMap<CompactInode, u64, NumberHash>,
    /// The inodes of which a stamp was met, and after it no record of their content, with the session of the stamp: with
    /// an earlier one of that session the home still had the file open, and what it wrote then has no record.
    settled: HashMap<CompactInode, Arc<str>, NumberHash>,
    /// The digests of the entries of git indexes, each with the size and time of the index.
    indexes: HashMap<CompactInode, LeftIndex, NumberHash>,
    /// The digests of indexes that were changed outside the home, each with the record after which the home left it.
    changed_indexes: HashMap<NodeId, (RecordKey, Box<str>), NumberHash>,
    /// The files that were changed outside the home, each with the record that the oldest such change came after.
    changed: HashMap<NodeId, RecordKey, NumberHash>,
    /// The files that were made successors of inodes which were not found, each with the inode's stamp.
    successors: HashMap<CompactInode, (NodeId, Option<PendingStamp>), NumberHash>,
    /// The inodes of which records were passed over, since no file with them was found.
    missed: HashSet<CompactInode>,
    /// The permission bits that somebody outside the home gave to files.
    modes: HashMap<NodeId, u32, NumberHash>,
    /// The sessions that were looked up: true for one whose stamps are evidence.
    witnesses: RefCell<HashMap<Arc<str>, bool>>,
    /// The record that is being reversed.
    pub(super) record: Option<RecordKey>,
}

/// The facts about a file that were found on the way to a point.
#[derive(Debug, Clone)]
pub(in crate::operator::past) struct FileState {
    difference: Option<Box<NodeOverlay>>,
    /// The node that had its inode, if that is not the one on the disk.
    node: Option<Option<NodeId>>,
    settled: Option<Arc<str>>,
}

/// A git index that the home left.
#[derive(Debug, Clone)]
struct LeftIndex {
    size: u64,
    mtime: FileTime,
    entries: Box<str>,
}

/// A stamp whose records are still to come.
#[derive(Debug, Clone)]
struct PendingStamp {
    /// The last record about the file before it was left.
    after: RecordKey,
    born: u64,
    size: u64,
    mtime: FileTime,
    mode: Option<u32>,
    /// The number of the version that holds what was left.
    version: Option<u64>,
    /// The SHA-256 (hex) of what was left.
    digest: Option<Box<str>>,
}

impl PendingStamps {
    /// Begins with another record, the next older one.
    pub(super) fn begin(&mut self, session: &Arc<str>, seq: u64) {
        if let Some(before) = self.record.replace((session.clone(), seq)) {
            self.made.remove(&before);
        }
    }

    /// Drops all but which files were changed.
    pub(super) fn end_reversal(&mut self) {
        *self = PendingStamps {
            changed: std::mem::take(&mut self.changed),
            modes: std::mem::take(&mut self.modes),
            ..PendingStamps::default()
        };
    }

    /// Forgets the birth of an inode: the number is given to a node by a record, and may have been another's later.
    pub(super) fn forget_birth(&mut self, inode: CompactInode) {
        self.births.remove(&inode);
    }

    /// Notes that a record's change of a content, or a creation, is reversed.
    pub(super) fn reopen(&mut self, inode: CompactInode) {
        self.settled.remove(&inode);
    }

    fn note(&mut self, inode: CompactInode, after: RecordKey, state: &LeftState) {
        if let Some(entries) = &state.entries {
            let left = LeftIndex {
                size: state.size,
                mtime: state.mtime,
                entries: Box::from(entries.as_str()),
            };
            self.indexes.entry(inode).or_insert(left);
            return;
        }
        self.made.entry(after.clone()).or_insert(state.ids);
        if state.made {
            return;
        }
        if state.mapped {
            self.mapped.insert((after, inode));
            return;
        }
        if !self.mapped.is_empty() && self.mapped.contains(&(after.clone(), inode)) {
            return;
        }
        let stamps = self.by_inode.entry(inode).or_default();
        // Of several closes after one record the last counts, and it is met first.
        if stamps.iter().any(|later| later.after == after) {
            return;
        }
        stamps.push(PendingStamp {
            after,
            born: state.born,
            size: state.size,
            mtime: state.mtime,
            mode: state.mode,
            version: state.n,
            digest: state.sha256.as_deref().map(Box::from),
        });
    }

    /// Returns the latest stamp of an inode that follows the current record.
    fn latest(&self, inode: CompactInode) -> Option<&PendingStamp> {
        self.latest_after(self.record.as_ref()?, inode)
    }

    /// Returns the latest stamp of an inode that follows a record. Once another file has the number, stamps are of that
    /// one.
    fn latest_after(&self, record: &RecordKey, inode: CompactInode) -> Option<&PendingStamp> {
        let stamps = self.by_inode.get(&inode)?.iter();
        let mut follow: Vec<&PendingStamp> =
            stamps.filter(|stamp| stamp.after >= *record).collect();
        follow.sort_unstable_by_key(|stamp| &stamp.after);
        let born = follow.first()?.born;
        let of_it = follow
            .into_iter()
            .take_while(|stamp| !is_other_birth(stamp.born, born));
        of_it.last()
    }

    /// Takes the latest stamp of an inode that follows the current record, and drops the others that do.
    fn take(&mut self, inode: CompactInode) -> Option<PendingStamp> {
        let latest = self.latest(inode)?.clone();
        let record = self.record.as_ref()?;
        let stamps = self.by_inode.get_mut(&inode)?;
        stamps.retain(|stamp| stamp.after < *record);
        if stamps.is_empty() {
            self.by_inode.remove(&inode);
        }
        let session = latest.after.0.clone();
        let settled = self.settled.insert(inode, session);
        (settled.as_ref() != Some(&latest.after.0)).then_some(latest)
    }
}

impl PastTree<'_> {
    /// Notes the stamps met on the way to the next older record, in the order in which they were written.
    pub(in crate::operator::past) fn note_stamps(&mut self, stamps: Vec<(Arc<str>, LeftState)>) {
        for (session, state) in stamps.into_iter().rev() {
            let inode = self.disk.inode(state.ids);
            self.stamps.note(inode, (session, state.seq), &state);
        }
    }

    /// Takes out the stamps whose records are still to come: a comparison with the home meets those up to its point anew.
    pub(in crate::operator::past) fn take_pending_stamps(&mut self) -> PendingStamps {
        PendingStamps {
            by_inode: std::mem::take(&mut self.stamps.by_inode),
            made: std::mem::take(&mut self.stamps.made),
            mapped: std::mem::take(&mut self.stamps.mapped),
            ..PendingStamps::default()
        }
    }

    /// Gives back the stamps that were taken out: for records that are still to be reversed.
    pub(in crate::operator::past) fn put_pending_stamps(&mut self, pending: PendingStamps) {
        self.stamps.by_inode = pending.by_inode;
        self.stamps.made = pending.made;
        self.stamps.mapped = pending.mapped;
    }

    /// Returns what the way to the point reached has told of a file.
    pub(in crate::operator::past) fn file_state(
        &self,
        node: NodeId,
        ids: InodeNumbers,
    ) -> FileState {
        let inode = self.disk.inode(ids);
        FileState {
            difference: self.nodes.get(&node).cloned(),
            node: self.by_ids.get(&inode).copied(),
            settled: self.stamps.settled.get(&inode).cloned(),
        }
    }

    /// Gives a file back what the way to the point reached has told of it.
    pub(in crate::operator::past) fn set_file_state(
        &mut self,
        node: NodeId,
        ids: InodeNumbers,
        state: FileState,
    ) {
        let inode = self.disk.inode(ids);
        put(&mut self.nodes, node, state.difference);
        put(&mut self.by_ids, inode, state.node);
        put(&mut self.stamps.settled, inode, state.settled);
    }

    /// Returns whether stamps tell that a record was not the last one about its file. `ids` is the file's inode, if the
    /// record names it.
    pub(in crate::operator::past) fn has_later_stamp(
        &self,
        record: &RecordKey,
        ids: Option<InodeNumbers>,
    ) -> bool {
        let ids = ids.or_else(|| self.stamps.made.get(record).copied());
        ids.is_some_and(|ids| {
            let latest = self.stamps.latest_after(record, self.disk.inode(ids));
            latest.is_some_and(|latest| latest.after != *record)
        })
    }

    /// Returns whether a file was changed outside the home since the point reached, also if it did not exist there.
    pub fn is_changed_outside(&self, node: NodeId) -> bool {
        self.outside_after(node).is_some()
    }

    /// Returns the record that the oldest change of a file outside the home came after, of those since the point reached.
    pub fn outside_after(&self, node: NodeId) -> Option<&(Arc<str>, u64)> {
        self.stamps.changed.get(&node)
    }

    /// Returns whether any file was changed outside the home since the point reached.
    pub fn is_any_changed_outside(&self) -> bool {
        !self.stamps.changed.is_empty()
    }

    /// Returns the permission bits that somebody outside the home gave to a file since the point reached, if so.
    pub fn mode_outside(&self, node: NodeId) -> Option<u32> {
        self.stamps.modes.get(&node).copied()
    }

    /// Returns whether a file was compared with the stamp that follows the next older record of its content.
    pub fn is_settled(&self, ids: InodeNumbers) -> bool {
        self.stamps.settled.contains_key(&self.disk.inode(ids))
    }

    /// Returns whether a stamp of a file was met whose records are still to come.
    pub(in crate::operator::past) fn has_pending_stamp(&self, ids: InodeNumbers) -> bool {
        self.stamps.by_inode.contains_key(&self.disk.inode(ids))
    }

    /// Returns the digest of the entries of the git index that the home left at a node, which was changed outside the
    /// home since.
    pub fn left_index(&self, node: NodeId) -> Option<&str> {
        let layer = self.difference(node)?.content.as_ref()?;
        let (after, entries) = self.stamps.changed_indexes.get(&node)?;
        (layer.kind.is_outside() && layer.record == *after).then_some(&**entries)
    }

    /// Returns whether the current record's session tells how files were left: it goes on, or its daemon ended it. Where
    /// the daemon died, the power may have gone before or after what a stamp or a record says was on the disk.
    fn is_evidence(&self) -> bool {
        let Some((session, _)) = &self.stamps.record else {
            return false;
        };
        let store = self.disk.store();
        let has_ended = || {
            let file = open_journal(store.state(), session).ok()?;
            Some(tail(&file).ok()??.record.op == Op::End { settled: false })
        };
        let is_live = || Some(store.served_by().ok()??.session == **session);
        let look = || has_ended().unwrap_or(false) || is_live().unwrap_or(false);
        *self
            .stamps
            .witnesses
            .borrow_mut()
            .entry(session.clone())
            .or_insert_with(look)
    }

    /// Returns the inode that the current record made, where a stamp tells.
    pub(super) fn made_inode(&self) -> Option<InodeNumbers> {
        if !self.is_evidence() {
            return None;
        }
        self.stamps.made.get(self.stamps.record.as_ref()?).copied()
    }

    /// Dissociates an inode number from a node that has it and is not the file that the home left, unless that stands
    /// at the record's path: there it is the successor.
    pub(super) fn tell_apart(&mut self, ids: InodeNumbers, there: Option<NodeId>) -> Result<()> {
        let inode = self.disk.inode(ids);
        let (Some(stamp), Some(node)) = (self.stamps.latest(inode), self.by_ids(ids)) else {
            return Ok(());
        };
        if !self.is_evidence() {
            return Ok(());
        }
        let born = stamp.born;
        if Some(node) != there && is_other_birth(self.birth(node, ids)?, born) {
            self.by_ids.insert(inode, None);
        }
        Ok(())
    }

    /// Returns whether a node's inode is that on the disk. One that a record gave it may have the same number: the number
    /// of a content that was evicted is free again.
    pub(super) fn is_on_disk(&self, node: NodeId, ids: InodeNumbers) -> bool {
        let given = self.nodes.get(&node).and_then(|then| then.ids);
        given.is_none() && self.disk.ids(node) == Some(ids)
    }

    /// Returns the birth of the inode that a node is, or was; 0 if it is unknown.
    fn birth(&self, node: NodeId, ids: InodeNumbers) -> Result<u64> {
        if !self.is_on_disk(node, ids) {
            let inode = self.disk.inode(ids);
            return Ok(self.stamps.births.get(&inode).copied().unwrap_or(0));
        }
        match self.disk.stat(node) {
            Ok(meta) => Ok(meta.born),
            Err(Error::NotFound) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a file may be the successor of one that is gone: it is a plain file outside the trash.
    pub(super) fn may_succeed(&mut self, dir: NodeId, node: NodeId) -> Result<bool> {
        let in_trash = self.lookup(ROOT, TRASH)? == Some(dir);
        Ok(self.is_evidence()
            && !in_trash
            && self.kind(node) == FileType::RegularFile
            && self.ids(node).is_some())
    }

    /// As [`PastTree::may_succeed`], for the file at a path. `known` is the one that the home left there, if it is
    /// somewhere else.
    pub(super) fn may_take_place(
        &mut self,
        path: &WorldPath,
        known: Option<NodeId>,
        node: NodeId,
    ) -> Result<bool> {
        let (Some(dir), Some(name)) = (self.dir_near(path)?, path.name()) else {
            return Ok(false);
        };
        let place = (dir, self.disk.name_id(name.bytes()));
        Ok(
            known.is_none_or(|known| self.is_backup(known, place))
                && self.may_succeed(dir, node)?,
        )
    }

    /// Returns whether a file is the backup that an editor made of the one at a place, by moving that to `NAME~`, before
    /// it saved it anew. A record may have given `NAME~` to another file since, or moved the backup into the trash.
    pub(super) fn is_backup(&self, node: NodeId, (dir, name): NameSlot) -> bool {
        let name = self.disk.text(name);
        let trash = self.lookup(ROOT, TRASH).ok().flatten();
        let is_backup = |(at, backup): NameSlot| {
            let backup = self.disk.text(backup);
            let removed = parse_entry(&backup).filter(|_| Some(at) == trash);
            let known = match removed {
                Some((_, name)) => name,
                None if at == dir => &*backup,
                None => return false,
            };
            known.strip_suffix(b"~") == Some(&*name)
        };
        match self.place_of(node) {
            Some(place) => is_backup(place),
            None => self.known_places(node).any(is_backup),
        }
    }

    /// Makes a file the successor of one that the home left at its path and that is gone: somebody saved it anew.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(super) fn succeed(&mut self, node: NodeId, ids: InodeNumbers) -> Result<()> {
        let inode = self.disk.inode(ids);
        let stamp = self.stamps.take(inode);
        if self.by_ids(ids).is_none() {
            self.stamps.successors.insert(inode, (node, stamp.clone()));
        }
        self.set_ids(node, ids);
        if let Some(stamp) = &stamp {
            self.compare_mode(node, stamp)?;
        }
        let holds = stamp.as_ref().map(|stamp| self.holds(node, stamp));
        if !holds.transpose()?.unwrap_or(false) {
            self.lay_outside(node, stamp.as_ref());
        }
        Ok(())
    }

    /// Notes that a record is passed over, since no file with its inode is found.
    pub(super) fn note_missed(&mut self, ids: InodeNumbers) {
        let inode = self.disk.inode(ids);
        self.stamps.missed.insert(inode);
    }

    /// Reconciles a file that a record names with what was taken for gone before: it has a further name, which no record
    /// on the way here told of. What was found of its successor is the file's. If records were passed over, its content
    /// is unknown.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub(super) fn reconcile_missed(&mut self, node: NodeId, ids: InodeNumbers) -> Result<()> {
        let inode = self.disk.inode(ids);
        if !self.is_lost(node) && self.stamps.missed.remove(&inode) {
            self.lay_outside(node, None);
        }
        let Some((successor, stamp)) = self.stamps.successors.get(&inode).cloned() else {
            return Ok(());
        };
        let born = stamp.as_ref().map_or(0, |stamp| stamp.born);
        if node == successor
            || self.by_ids(ids) != Some(successor)
            || !self.is_on_disk(node, ids)
            || is_other_birth(self.birth(node, ids)?, born)
            || self.has_number_anew(node)?
        {
            return Ok(());
        }
        let is_as_left = match &stamp {
            Some(stamp) => self.is_as_left(node, ids, stamp)?,
            None => false,
        };
        let places: Vec<NameSlot> = self.every_place(successor).collect();
        for (dir, name) in places {
            self.set_by_id(dir, name, Some(node));
        }
        let mut then = self.nodes.remove(&successor).unwrap_or_default();
        then.ids = None;
        // What the successor was changed by is not the file's.
        let is_only_outside =
            |top: &Arc<ContentLayer>| top.kind.is_outside() && top.below.is_none();
        then.content = then.content.filter(|top| !is_only_outside(top));
        let mut lowest = then.content.as_ref();
        while let Some(below) = lowest.and_then(|layer| layer.below.as_ref()) {
            lowest = Some(below);
        }
        let rests_on_stamp = lowest.is_some_and(|lowest| lowest.kind.is_outside());
        self.nodes.insert(node, then);
        self.stamps.successors.remove(&inode);
        self.by_ids.insert(inode, Some(node));
        let after = self.stamps.changed.get(&successor).cloned();
        if let Some(after) = after.filter(|_| rests_on_stamp) {
            self.stamps.changed.insert(node, after);
        } else if !is_as_left {
            self.lay_outside(node, None);
        }
        Ok(())
    }

    /// Compares a file with the latest stamp that follows the current record.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub(super) fn compare_with_stamp(&mut self, node: NodeId) -> Result<()> {
        let Some(ids) = self.ids(node) else {
            return Ok(());
        };
        let inode = self.disk.inode(ids);
        let Some(stamp) = self.stamps.take(inode) else {
            return Ok(());
        };
        if !self.is_evidence() {
            return Ok(());
        }
        if stamp.born != 0 && !self.is_on_disk(node, ids) {
            self.stamps.births.insert(inode, stamp.born);
        }
        self.compare_mode(node, &stamp)?;
        if !self.is_as_left(node, ids, &stamp)? {
            self.lay_outside(node, Some(&stamp));
        }
        Ok(())
    }

    /// Gives a file the permission bits that the home left it with.
    fn compare_mode(&mut self, node: NodeId, stamp: &PendingStamp) -> Result<()> {
        let Some(mode) = stamp.mode else {
            return Ok(());
        };
        match self.meta(node) {
            Ok(there) if there.mode != mode => {
                self.stamps.modes.entry(node).or_insert(there.mode);
                self.difference_mut(node).mode = Some(mode);
            }
            Ok(_) | Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_as_left(&self, node: NodeId, ids: InodeNumbers, stamp: &PendingStamp) -> Result<bool> {
        if self.kind(node) != FileType::RegularFile {
            return Ok(true);
        }
        let there = match self.meta(node) {
            Ok(there) => there,
            // Its absence is told where it is needed.
            Err(Error::Missing { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        let is_same = there.size == stamp.size
            && there.mtime == stamp.mtime
            && !is_other_birth(self.birth(node, ids)?, stamp.born);
        Ok(is_same || self.holds(node, stamp)?)
    }

    /// Returns whether a file on the disk has the bytes that the home left, by their digest: somebody may have saved
    /// the same again.
    fn holds(&self, node: NodeId, stamp: &PendingStamp) -> Result<bool> {
        let has_layers = self
            .difference(node)
            .is_some_and(|then| then.content.is_some());
        let Some(digest) = stamp.digest.as_deref().filter(|_| !has_layers) else {
            return Ok(false);
        };
        let file = match self.open_now(node) {
            Ok(file) => file,
            Err(Error::Missing { .. }) => return Ok(false),
            Err(error) if error.is_denial() => return Ok(false),
            Err(error) => return Err(error),
        };
        if self.disk.stat(node)?.size != stamp.size {
            return Ok(false);
        }
        let read =
            |buffer: &mut [u8], at| file.read_at(buffer, at).map_err(|e| io_error("read", &e));
        Ok(digest_of(stamp.size, read)? == digest)
    }

    /// Makes the content of a file unknown: somebody else put it where another file was at the time of a record.
    pub(in crate::operator::past) fn forget_content(
        &mut self,
        node: NodeId,
        (session, seq): (&Arc<str>, u64),
    ) {
        self.stamps.begin(session, seq);
        self.lay_outside(node, None);
    }

    /// Lays a change outside over a content. Before it the file was as the stamp says, if there is one.
    fn lay_outside(&mut self, node: NodeId, stamp: Option<&PendingStamp>) {
        let (session, seq) = match (stamp, &self.stamps.record) {
            (Some(stamp), _) => stamp.after.clone(),
            (None, Some(record)) => record.clone(),
            (None, None) => (Arc::from(""), 0),
        };
        let kind = match stamp.and_then(|stamp| stamp.version) {
            Some(n) => LayerKind::Left(session.clone(), n),
            None => LayerKind::Outside,
        };
        let size = stamp.map(|stamp| stamp.size);
        let of = (session, seq);
        self.stamps.changed.insert(node, of.clone());
        // Now: records that are reversed next may have other times, as those that a kernel hands on late.
        let inode = self.ids(node).map(|ids| self.disk.inode(ids));
        let index = inode.and_then(|inode| self.stamps.indexes.get(&inode));
        if let (Some(index), Some(stamp)) = (index, stamp)
            && (index.size, index.mtime) == (stamp.size, stamp.mtime)
        {
            let known = (stamp.after.clone(), index.entries.clone());
            self.stamps.changed_indexes.insert(node, known);
        }
        let then = self.difference_mut(node);
        let below = then.content.take();
        then.content = Some(ContentLayer::lay_over(kind, size, (of, false), below));
        then.mtime = stamp.map(|stamp| stamp.mtime).or(then.mtime);
    }
}

/// Puts a value into a map, or takes it out.
fn put<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V, NumberHash>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// Returns whether two times of birth are known and differ.
fn is_other_birth(one: u64, two: u64) -> bool {
    one != 0 && two != 0 && one != two
}
