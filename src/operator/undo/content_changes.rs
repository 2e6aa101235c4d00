//! Planning changes within nodes: contents and attributes.

use rustix::fs::FileType;

use super::planner::{ChangeKey, OnConflict, TopLayer, UndoPlanner, content_of, is_same_layer};
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::Name;
use crate::operator::past::effect::SessionRecord;
use crate::operator::past::{NodeId, PastContent, RecordEffect};
use crate::world::view::in_trash;

impl UndoPlanner<'_, '_> {
    /// Reverses a record's change of a content; the past is already in the state before it. Returns whether a later
    /// content gives way to it.
    pub(super) fn reverse_content(
        &mut self,
        node: NodeId,
        after: TopLayer,
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let before = content_of(self.past.tree(), node);
        if let Some((content, _)) = self.beside.get_mut(&node) {
            *content = before;
            return Ok(false);
        }
        if let Some(successor) = self.successor_of(node)? {
            self.reverse_replaced((node, &after, &before), successor, record)?;
            if self.target.shown_places(node).next().is_none() {
                return Ok(false);
            }
        }
        let there = content_of(&self.target, node);
        let is_later =
            !is_same_layer(&after, &there) && !self.is_equal_content(node, &after, &there)?;
        if is_later {
            if self.is_equal_content(node, &before, &there)? {
                return Ok(false);
            }
            if self.yields_content(node) {
                return Ok(false);
            }
            if self.merge_lines(node, (&after, &there), record)? {
                return Ok(false);
            }
            self.content_conflict(record, node, &after);
            // What a later step of the same save was taken back from is a text that nobody wrote.
            if self.merged.remove(&node).is_some() {
                self.target.difference_mut(node).content = None;
            }
            if self.choice == OnConflict::KeepBoth {
                self.beside.insert(node, (before, record.1.seq));
                return Ok(false);
            }
        }
        self.target.difference_mut(node).content = before;
        Ok(is_later)
    }

    /// Returns the file that is now where a file was at this point of the past, if that has no name any more, is its
    /// backup, or keeps another hard link: a later record replaced it, or moved it away or removed it before something else
    /// came there.
    fn successor_of(&self, node: NodeId) -> Result<Option<NodeId>> {
        let has_name = self.target.shown_places(node).next().is_some();
        let there = if has_name && !self.is_backup(node)? {
            self.at_lost_link(node)?
        } else {
            match self.past.tree().path(node).filter(|path| !in_trash(path)) {
                Some(path) => self.target.resolve(&path)?,
                None => None,
            }
        };
        let is_file =
            |there: &NodeId| *there != node && self.target.kind(*there) == FileType::RegularFile;
        Ok(there
            .filter(is_file)
            .filter(|there| !self.target.is_lost(*there)))
    }

    /// Returns what is now at a name that a file had at this point of the past, beside one that it still has.
    fn at_lost_link(&self, node: NodeId) -> Result<Option<NodeId>> {
        let (mut keeps_one, mut other) = (false, None);
        for (dir, name) in self.past.tree().shown_places(node) {
            match self.target.lookup_id(dir, name)? {
                Some(there) if there == node => keeps_one = true,
                there => other = other.or(there),
            }
        }
        Ok(other.filter(|_| keeps_one))
    }

    /// Returns whether a file is `NAME~` now, beside the place that it had at this point of the past: an editor's backup.
    fn is_backup(&self, node: NodeId) -> Result<bool> {
        let Some(path) = self.past.tree().path(node) else {
            return Ok(false);
        };
        let (Some(dir), Some(name)) = (path.parent(), path.name()) else {
            return Ok(false);
        };
        let backup = [name.bytes(), b"~"].concat();
        // A name that is too long has no backup.
        let Ok(backup) = Name::new(&backup) else {
            return Ok(false);
        };
        Ok(self.target.resolve(&dir.join(backup))? == Some(node))
    }

    /// Takes a record's change of a file back in the one that has replaced it.
    fn reverse_replaced(
        &mut self,
        (node, after, before): (NodeId, &TopLayer, &TopLayer),
        successor: NodeId,
        record: SessionRecord<'_>,
    ) -> Result<()> {
        let there = content_of(&self.target, successor);
        let (found, now) = ((node, before), (successor, &there));
        if self.is_equal_across(found, now, PastContent::equals)?
            || self.merge_into_successor((node, after, before), (successor, &there), record)?
        {
            return Ok(());
        }
        let can_be_forced = match self.choice {
            OnConflict::Stop => true,
            OnConflict::Force => self.give_text((node, before), successor, record)?,
            OnConflict::KeepBoth => false,
        };
        let place = self.past.tree().place_of(node);
        let by = place.and_then(|place| self.conflicting_record(place));
        let name = self.name_of(successor);
        self.conflict(record, name, "was replaced later", by, can_be_forced);
        self.name_unknown_writer(successor);
        Ok(())
    }

    /// Compares what two nodes hold. An unreadable content equals no other.
    fn is_equal_across(
        &self,
        one: (NodeId, &TopLayer),
        two: (NodeId, &TopLayer),
        compare: impl FnOnce(&PastContent, &PastContent) -> Result<bool>,
    ) -> Result<bool> {
        let store = self.target.disk().store();
        let open = |(node, layer): (NodeId, &TopLayer)| {
            PastContent::open(store, layer.as_ref(), || self.target.open_now(node))
        };
        match (open(one), open(two)) {
            (Ok(one), Ok(two)) => compare(&one, &two),
            (Err(Error::Missing { .. } | Error::Damaged(_)), _)
            | (_, Err(Error::Missing { .. } | Error::Damaged(_))) => Ok(false),
            (Err(error), _) | (_, Err(error)) if error.is_denial() => Ok(false),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Reverses a record's change of an attribute. `forced`: true if a later content gave way to the one before the
    /// record; so does its time.
    pub(super) fn reverse_attribute(
        &mut self,
        effect: &RecordEffect,
        forced: bool,
        record: SessionRecord<'_>,
    ) -> Result<()> {
        let (RecordEffect::Mode(node, _)
        | RecordEffect::Owner(node, _)
        | RecordEffect::Group(node, _)
        | RecordEffect::Time(node, _)
        | RecordEffect::Xattr(node, ..)) = effect
        else {
            return Ok(());
        };
        let node = *node;
        if self.past.tree().is_lost(node) {
            return Ok(());
        }
        if let RecordEffect::Xattr(_, name, before) = effect {
            return self.reverse_xattr(node, (name, before), record);
        }
        let (after, there) = (self.past.tree().meta(node)?, self.target.meta(node)?);
        // Only attributes that were set explicitly can be in conflict; times change by themselves.
        let asked = match (&record.1.op, effect) {
            (Op::Attr { mode, .. }, RecordEffect::Mode(..)) => mode.is_some(),
            (Op::Attr { uid, .. }, RecordEffect::Owner(..)) => uid.is_some(),
            (Op::Attr { gid, .. }, RecordEffect::Group(..)) => gid.is_some(),
            _ => false,
        };
        let (as_left, as_before, changes) = match effect {
            RecordEffect::Mode(_, mode) => (
                there.mode == after.mode,
                there.mode == *mode,
                after.mode != *mode,
            ),
            RecordEffect::Owner(_, uid) => {
                (there.uid == after.uid, there.uid == *uid, after.uid != *uid)
            }
            RecordEffect::Group(_, gid) => {
                (there.gid == after.gid, there.gid == *gid, after.gid != *gid)
            }
            RecordEffect::Time(_, time) => (
                there.mtime == after.mtime,
                there.mtime == *time,
                after.mtime != *time,
            ),
            _ => return Ok(()),
        };
        // Changes in a directory will set its time, so the time is restored even if it is right at the moment.
        let is_time = matches!(effect, RecordEffect::Time(..));
        if (as_before && !is_time) || !(changes || asked || is_time) {
            return Ok(());
        }
        if !(as_left || as_before || is_time && forced) {
            if !asked {
                return Ok(());
            }
            let by = self.later_changes.get(&ChangeKey::Attribute(node)).cloned();
            if by.is_none() && self.past.tree().mode_outside(node).is_some() {
                let of = (record.0.clone(), record.1.seq);
                self.later_modes.push((node, of));
            } else {
                let what = "has other permissions or another owner since";
                self.conflict(record, self.name_of(node), what, by, true);
            }
            if self.choice == OnConflict::KeepBoth {
                return Ok(());
            }
        }
        let then = self.target.difference_mut(node);
        match effect {
            RecordEffect::Mode(_, mode) => then.mode = Some(*mode),
            RecordEffect::Owner(_, uid) => then.uid = Some(*uid),
            RecordEffect::Group(_, gid) => then.gid = Some(*gid),
            RecordEffect::Time(_, time) => then.mtime = Some(*time),
            _ => {}
        }
        Ok(())
    }

    fn reverse_xattr(
        &mut self,
        node: NodeId,
        (name, before): (&Vec<u8>, &Option<Vec<u8>>),
        record: SessionRecord<'_>,
    ) -> Result<()> {
        let after = self.past.tree().xattrs(node);
        // For another user's unreadable file, the step reports that the attribute is not set.
        let is_closed = after.as_ref().is_err_and(Error::is_denial);
        if !is_closed
            && let after = after?.remove(name)
            && let there = self.target.xattrs(node)?.remove(name)
            && there != after
            && there != *before
        {
            let by = self.later_changes.get(&ChangeKey::Attribute(node)).cloned();
            let what = "has another extended attribute since";
            self.conflict(record, self.name_of(node), what, by, true);
            if self.choice == OnConflict::KeepBoth {
                return Ok(());
            }
        }
        let xattrs = &mut self.target.difference_mut(node).xattrs;
        xattrs.insert(name.clone(), before.clone());
        Ok(())
    }

    /// Compares two contents of a node byte by byte, those of an index by entries. An unreadable content equals no other.
    pub(super) fn is_equal_content(
        &self,
        node: NodeId,
        one: &TopLayer,
        two: &TopLayer,
    ) -> Result<bool> {
        if self.is_left_index(node, one, two)? {
            return Ok(true);
        }
        self.is_equal_across((node, one), (node, two), |one, two| {
            Ok(one.equals(two)? || self.is_same_index(node, one, two)?)
        })
    }
}
