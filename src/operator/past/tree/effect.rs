//! What a record changed: the way back from the state after it to the state before.
//!
//! Owns the inverse of each operation, as a list of [`Effect`]s that say what is to be taken back and what the record left.
//! A [`Tree`] takes them back one after the other; an undo compares what the record left with what is there first.

use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::Result;
use crate::journal::{At, Ids, Record, Stamp};
use crate::name::{Name, WorldPath};
use crate::operator::past::disk::disk_tree::{NodeId, ROOT};
use crate::operator::past::disk::interner::NameId;
use crate::operator::past::tree::layer::{Kind, Layer};
use crate::operator::past::tree::past_tree::Tree;
use crate::world::view::TRASH;

/// One thing that a record changed.
#[derive(Debug, Clone)]
pub enum Effect {
    /// What a name means.
    Name {
        /// The directory.
        dir: NodeId,
        /// The name.
        name: NameId,
        /// What it meant before.
        before: Option<NodeId>,
        /// What it meant after.
        after: Option<NodeId>,
    },
    /// Something came to be.
    Born(NodeId),
    /// A content.
    Content {
        /// Whose.
        node: NodeId,
        /// How the content before comes from the one after.
        kind: Kind,
        /// Its size before; that of the content after where absent.
        size: Option<u64>,
        /// Which inode it was before, where another took its place.
        was: Option<Ids>,
    },
    /// Permission bits; what they were.
    Mode(NodeId, u32),
    /// The owner; who it was.
    Owner(NodeId, u32),
    /// The group; which it was.
    Group(NodeId, u32),
    /// The time of the last change of content; what it was.
    Time(NodeId, Stamp),
    /// An extended attribute; its value before.
    Xattr(NodeId, Vec<u8>, Option<Vec<u8>>),
}

impl Effect {
    /// Returns the thing whose content or attributes it concerns.
    pub fn within(&self) -> Option<NodeId> {
        match self {
            Effect::Name { .. } | Effect::Born(_) => None,
            Effect::Content { node, .. }
            | Effect::Mode(node, _)
            | Effect::Owner(node, _)
            | Effect::Group(node, _)
            | Effect::Time(node, _)
            | Effect::Xattr(node, ..) => Some(*node),
        }
    }
}

impl Effect {
    /// Returns what came to be.
    pub(in crate::operator::past) fn born(&self) -> Option<NodeId> {
        match self {
            Effect::Born(node) => Some(*node),
            _ => None,
        }
    }
}

/// A record and the session it is of.
pub type SessionRecord<'r> = (&'r Arc<str>, &'r Record);

impl Tree<'_> {
    /// Takes the tree from the state after a record to the state before it.
    ///
    /// # Errors
    /// What the disk says, where it has to be asked.
    pub fn take_back(&mut self, told: SessionRecord<'_>) -> Result<()> {
        for effect in self.effects(told.1, told.0)? {
            self.reverse(effect, told);
        }
        Ok(())
    }

    /// Takes one effect back.
    pub fn reverse(&mut self, effect: Effect, (session, record): SessionRecord<'_>) {
        match effect {
            Effect::Name {
                dir, name, before, ..
            } => self.set_by_id(dir, name, before),
            Effect::Born(node) => self.unborn(node),
            Effect::Content {
                node,
                kind,
                size,
                was,
            } => {
                let doubtful = self.disk.is_doubtful(session, &record.time, &kind);
                let then = self.difference_mut(node);
                let below = then.content.take();
                let of = ((session.clone(), record.seq), doubtful);
                then.content = Some(Layer::over(kind, size, of, below));
                if let Some(ids) = was {
                    self.set_ids(node, ids);
                }
            }
            Effect::Mode(node, mode) => self.difference_mut(node).mode = Some(mode),
            Effect::Owner(node, uid) => self.difference_mut(node).uid = Some(uid),
            Effect::Group(node, gid) => self.difference_mut(node).gid = Some(gid),
            Effect::Time(node, mtime) => self.difference_mut(node).mtime = Some(mtime),
            Effect::Xattr(node, name, value) => {
                self.difference_mut(node).xattrs.insert(name, value);
            }
        }
    }

    /// When the directories that the record changed had last changed.
    pub(in crate::operator::past) fn times(
        &mut self,
        effects: &mut Vec<Effect>,
        record: &Record,
    ) -> Result<()> {
        for (path, at) in record.op.changed_dirs().zip(&record.at) {
            let dir = self.dir_at(path, Some(at))?;
            effects.push(Effect::Time(dir, (at.0, at.1)));
        }
        Ok(())
    }

    pub(in crate::operator::past) fn trash(&mut self) -> Result<NodeId> {
        match self.lookup(ROOT, TRASH)? {
            Some(node) => Ok(node),
            None => {
                let lost = self.disk().lost(FileType::Directory);
                self.set_name(ROOT, TRASH, Some(lost));
                Ok(lost)
            }
        }
    }

    pub(in crate::operator::past) fn place(
        &mut self,
        path: &WorldPath,
        at: Option<&At>,
    ) -> Result<(NodeId, NameId)> {
        let dir = self.dir_at(path, at)?;
        let name = path.name().map_or(&b""[..], Name::bytes);
        Ok((dir, self.disk().name_id(name)))
    }

    /// Returns what the record left at a path; something lost, where it is not there any more.
    pub(in crate::operator::past) fn expect(
        &mut self,
        path: &WorldPath,
        at: Option<&At>,
        ids: Option<Ids>,
        kind: FileType,
    ) -> Result<(NodeId, NameId, NodeId)> {
        let (dir, name) = self.place(path, at)?;
        let node = self.at_slot(dir, name, ids, kind)?;
        Ok((dir, name, node))
    }

    pub(in crate::operator::past) fn at_slot(
        &mut self,
        dir: NodeId,
        name: NameId,
        ids: Option<Ids>,
        kind: FileType,
    ) -> Result<NodeId> {
        let there = self.lookup_id(dir, name)?;
        match (there, ids) {
            (Some(node), None) => return Ok(node),
            // What was purged has no number any more: the record says which it was.
            (Some(node), Some(ids)) if self.ids(node).is_none_or(|known| known == ids) => {
                if self.ids(node).is_none() {
                    self.set_ids(node, ids);
                }
                return Ok(node);
            }
            _ => {}
        }
        if let Some(node) = ids.and_then(|ids| self.by_ids(ids)) {
            return Ok(node);
        }
        let lost = self.disk().lost(kind);
        if let Some(ids) = ids {
            self.set_ids(lost, ids);
        }
        Ok(lost)
    }

    /// Returns the thing that a record speaks of: what is at the path if it is that inode, else that inode.
    pub(in crate::operator::past) fn find(
        &mut self,
        path: &WorldPath,
        ids: Ids,
    ) -> Result<Option<NodeId>> {
        match self.resolve_near(path)? {
            Some(node) if self.ids(node) == Some(ids) => Ok(Some(node)),
            there => {
                // Removed while the change was under way: its record has the path that it was opened by.
                if self.by_ids(ids).is_none()
                    && let Some(trash) = self.disk().lookup(ROOT, TRASH)?
                {
                    self.disk().list(trash)?;
                }
                match (self.by_ids(ids), self.in_doubt) {
                    (known, true) => self.displaced(path, ids, (known, there)).map(Some),
                    (known, false) => Ok(known),
                }
            }
        }
    }

    /// A file that a record speaks of and that is not at its path, nobody recorded why: the power went, and what was done last has
    /// no record. It was there at the time; where its inode is nowhere, contents of it may still be kept.
    fn displaced(
        &mut self,
        path: &WorldPath,
        ids: Ids,
        (known, there): (Option<NodeId>, Option<NodeId>),
    ) -> Result<NodeId> {
        let node = match (known, there) {
            (Some(known), _) => known,
            // What was purged has no number any more.
            (None, Some(there)) if self.ids(there).is_none() => there,
            _ => {
                let lost = self.disk().lost(FileType::RegularFile);
                self.displaced.push(lost);
                lost
            }
        };
        let (dir, name) = self.place(path, None)?;
        self.set_by_id(dir, name, Some(node));
        if known.is_none() {
            self.set_ids(node, ids);
        }
        Ok(node)
    }
}
