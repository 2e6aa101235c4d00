//! The effects of a record: the steps from the state after it back to the state before.
//!
//! Owns the inverse of each operation, as a list of [`RecordEffect`]s with the value to bring back and the value that
//! the record left. A [`PastTree`] reverses them one after the other; an undo first compares what the record left with
//! what is there.

use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::Result;
use crate::journal::{DirTime, FileTime, InodeNumbers, Record};
use crate::name::{Name, WorldPath};
use crate::operator::past::disk::interner::NameId;
use crate::operator::past::disk::node_id::{NodeId, ROOT};
use crate::operator::past::tree::layer::{ContentLayer, LayerKind};
use crate::operator::past::tree::past_tree::PastTree;
use crate::world::store::layout::TRASH;

/// A single change that a record made.
#[derive(Debug, Clone)]
pub enum RecordEffect {
    /// The meaning of a name.
    Name {
        /// The directory.
        dir: NodeId,
        /// The name.
        name: NameId,
        /// The node it named before.
        before: Option<NodeId>,
        /// The node it named after.
        after: Option<NodeId>,
    },
    /// The creation of a node.
    Born(NodeId),
    /// The content of a file.
    Content {
        /// The file.
        node: NodeId,
        /// The derivation of the earlier content from the later one.
        kind: LayerKind,
        /// Its size before; the same as after where absent.
        size: Option<u64>,
        /// The inode it was before, where another took its place.
        was: Option<InodeNumbers>,
    },
    /// The permission bits before.
    Mode(NodeId, u32),
    /// The owner before.
    Owner(NodeId, u32),
    /// The group before.
    Group(NodeId, u32),
    /// The modification time before.
    Time(NodeId, FileTime),
    /// An extended attribute and its value before.
    Xattr(NodeId, Vec<u8>, Option<Vec<u8>>),
}

impl RecordEffect {
    /// Returns all nodes that it is about, and the directory of a name.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        let nodes = match self {
            RecordEffect::Name {
                dir, before, after, ..
            } => [Some(*dir), *before, *after],
            RecordEffect::Born(node) => [Some(*node), None, None],
            inner => [inner.changed_inside(), None, None],
        };
        nodes.into_iter().flatten()
    }

    /// Returns the node whose content or attributes change.
    pub fn changed_inside(&self) -> Option<NodeId> {
        match self {
            RecordEffect::Name { .. } | RecordEffect::Born(_) => None,
            RecordEffect::Content { node, .. }
            | RecordEffect::Mode(node, _)
            | RecordEffect::Owner(node, _)
            | RecordEffect::Group(node, _)
            | RecordEffect::Time(node, _)
            | RecordEffect::Xattr(node, ..) => Some(*node),
        }
    }
}

impl RecordEffect {
    /// Returns the node that was created.
    pub(in crate::operator::past) fn created_node(&self) -> Option<NodeId> {
        match self {
            RecordEffect::Born(node) => Some(*node),
            _ => None,
        }
    }
}

/// A record and its session.
pub type SessionRecord<'r> = (&'r Arc<str>, &'r Record);

impl PastTree<'_> {
    /// Takes the tree from the state after a record to the state before it.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn take_back(&mut self, record: SessionRecord<'_>) -> Result<()> {
        for effect in self.effects(record.1, record.0)? {
            self.reverse(effect, record);
        }
        Ok(())
    }

    /// Reverses one effect.
    pub fn reverse(&mut self, effect: RecordEffect, (session, record): SessionRecord<'_>) {
        match effect {
            RecordEffect::Name {
                dir, name, before, ..
            } => self.set_by_id(dir, name, before),
            RecordEffect::Born(node) => self.unborn(node),
            RecordEffect::Content {
                node,
                kind,
                size,
                was,
            } => {
                let doubtful = self.disk.is_doubtful(session, &record.time, &kind);
                if let Some(ids) = self.ids(node) {
                    self.stamps.reopen(self.disk.inode(ids));
                }
                let then = self.difference_mut(node);
                let below = then.content.take();
                let of = ((session.clone(), record.seq), doubtful);
                then.content = Some(ContentLayer::lay_over(kind, size, of, below));
                if let Some(ids) = was {
                    self.set_ids(node, ids);
                }
            }
            RecordEffect::Mode(node, mode) => self.difference_mut(node).mode = Some(mode),
            RecordEffect::Owner(node, uid) => self.difference_mut(node).uid = Some(uid),
            RecordEffect::Group(node, gid) => self.difference_mut(node).gid = Some(gid),
            RecordEffect::Time(node, mtime) => self.difference_mut(node).mtime = Some(mtime),
            RecordEffect::Xattr(node, name, value) => {
                self.difference_mut(node).xattrs.insert(name, value);
            }
        }
    }

    /// Adds the earlier modification times of the directories that the record changed.
    pub(in crate::operator::past) fn add_dir_times(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        record: &Record,
    ) -> Result<()> {
        for (path, at) in record.op.changed_dirs().zip(&record.at) {
            let dir = self.dir_at(path, Some(at))?;
            effects.push(RecordEffect::Time(dir, (at.0, at.1)));
        }
        Ok(())
    }

    pub(in crate::operator::past) fn trash_node(&mut self) -> Result<NodeId> {
        match self.lookup(ROOT, TRASH)? {
            Some(node) => Ok(node),
            None => {
                let lost = self.disk().make_lost_node(FileType::Directory);
                self.set_name(ROOT, TRASH, Some(lost));
                Ok(lost)
            }
        }
    }

    pub(in crate::operator::past) fn resolve_place(
        &mut self,
        path: &WorldPath,
        at: Option<&DirTime>,
    ) -> Result<(NodeId, NameId)> {
        let dir = self.dir_at(path, at)?;
        let name = path.name().map_or(&b""[..], Name::bytes);
        Ok((dir, self.disk().name_id(name)))
    }

    /// Returns the node that the record left at a path; a lost one, where it is no longer there.
    pub(in crate::operator::past) fn expect_node(
        &mut self,
        path: &WorldPath,
        at: Option<&DirTime>,
        ids: Option<InodeNumbers>,
        kind: FileType,
    ) -> Result<(NodeId, NameId, NodeId)> {
        let (dir, name) = self.resolve_place(path, at)?;
        let node = self.at_slot(dir, name, ids, kind)?;
        Ok((dir, name, node))
    }

    pub(in crate::operator::past) fn at_slot(
        &mut self,
        dir: NodeId,
        name: NameId,
        ids: Option<InodeNumbers>,
        kind: FileType,
    ) -> Result<NodeId> {
        let there = self.lookup_id(dir, name)?;
        if let Some(ids) = ids {
            self.tell_apart(ids, there)?;
        }
        match (there, ids) {
            (Some(node), None) => return Ok(node),
            // A purged node has no inode any more: the record names the one it had.
            (Some(node), Some(ids)) if self.ids(node).is_none_or(|known| known == ids) => {
                if self.ids(node).is_none() {
                    self.set_ids(node, ids);
                }
                self.reconcile_missed(node, ids)?;
                self.compare_with_stamp(node)?;
                return Ok(node);
            }
            _ => {}
        }
        let elsewhere = match ids {
            Some(ids) => self.known_elsewhere(ids)?,
            None => None,
        };
        if let Some(node) = elsewhere
            && !(there.is_some() && self.is_backup(node, (dir, name)))
        {
            self.reconcile_missed(node, ids.unwrap_or_default())?;
            self.compare_with_stamp(node)?;
            return Ok(node);
        }
        let is_file = matches!(kind, FileType::RegularFile | FileType::Unknown);
        if let (Some(node), Some(ids)) = (there, ids)
            && is_file
            && self.may_succeed(dir, node)?
        {
            self.succeed(node, ids)?;
            return Ok(node);
        }
        let lost = self.disk().make_lost_node(kind);
        if let Some(ids) = ids {
            self.set_ids(lost, ids);
        }
        Ok(lost)
    }

    /// Returns the node that a record names: the one at the path if it has that inode, otherwise the one with that
    /// inode.
    pub(in crate::operator::past) fn find_node(
        &mut self,
        path: &WorldPath,
        ids: InodeNumbers,
    ) -> Result<Option<NodeId>> {
        let there = self.resolve_near(path)?;
        self.tell_apart(ids, there)?;
        let found = if there.is_some_and(|node| self.ids(node) == Some(ids)) {
            there
        } else {
            match (self.find_elsewhere(ids)?, there) {
                (known, there) if self.in_doubt => {
                    return self.displaced_node(path, ids, (known, there)).map(Some);
                }
                (known, Some(node)) if self.may_take_place(path, known, node)? => {
                    self.succeed(node, ids)?;
                    Some(node)
                }
                (known, _) => known,
            }
        };
        match found {
            Some(node) => {
                self.reconcile_missed(node, ids)?;
                self.compare_with_stamp(node)?;
            }
            None => self.note_missed(ids),
        }
        Ok(found)
    }

    /// Returns whether a record's file is at its path, or known by its inode.
    pub(in crate::operator::past) fn knows_node(
        &mut self,
        path: &WorldPath,
        ids: InodeNumbers,
    ) -> Result<bool> {
        let there = self.resolve_near(path)?;
        let is_it = there.is_some_and(|node| self.ids(node) == Some(ids));
        Ok(is_it || self.find_elsewhere(ids)?.is_some())
    }

    /// Returns the node of an inode, also where it was removed during the change: its record has the path that it was
    /// opened by.
    pub(super) fn find_elsewhere(&mut self, ids: InodeNumbers) -> Result<Option<NodeId>> {
        if self.by_ids(ids).is_none()
            && let Some(trash) = self.disk().lookup(ROOT, TRASH)?
        {
            self.disk().list(trash)?;
        }
        self.known_elsewhere(ids)
    }

    /// Returns the known node of an inode, unless another one has that number by now.
    pub(super) fn known_elsewhere(&self, ids: InodeNumbers) -> Result<Option<NodeId>> {
        match self.by_ids(ids) {
            Some(node) if self.has_number_anew(node)? => Ok(None),
            known => Ok(known),
        }
    }

    /// Returns whether a record is about a file that is not in the store, and no record names the purge of it.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn is_of_missing_file(&mut self, record: &Record) -> Result<bool> {
        let Some((path, ids)) = record.op.changed_file() else {
            return Ok(false);
        };
        if self.find_node(path, ids)?.is_some() {
            return Ok(false);
        }
        let mut at = ROOT;
        for name in path.components() {
            match self.lookup(at, name.bytes())? {
                Some(node) if self.is_lost(node) => return Ok(false),
                Some(node) => at = node,
                None => break,
            }
        }
        Ok(true)
    }

    /// Returns a file that its record names but that is not at its path, without a record of why: the last records were
    /// lost in a power cut. The file existed at the time; even where its inode is gone, contents of it may still be
    /// kept.
    fn displaced_node(
        &mut self,
        path: &WorldPath,
        ids: InodeNumbers,
        (known, there): (Option<NodeId>, Option<NodeId>),
    ) -> Result<NodeId> {
        let node = match (known, there) {
            (Some(known), _) => known,
            // A purged node has no inode any more.
            (None, Some(there)) if self.ids(there).is_none() => there,
            _ => {
                let lost = self.disk().make_lost_node(FileType::RegularFile);
                self.displaced.push(lost);
                lost
            }
        };
        let (dir, name) = self.resolve_place(path, None)?;
        self.set_by_id(dir, name, Some(node));
        if known.is_none() {
            self.set_ids(node, ids);
        }
        Ok(node)
    }
}
