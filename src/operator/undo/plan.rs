//! The plan of an undo: the target tree, or the conflicts.
//!
//! Two trees start from the store as it is now. `past` takes back every record, which shows the state before and after
//! each record. `target` takes back only the selected ones; it is what the store should become. Where the target
//! differs from what a record left, a later change is in conflict.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::git_files::GitFile;
use super::planner::{
    ChangeKey, OnConflict, ReplacedNode, UndoPlan, UndoPlanner, content_of, is_same_layer,
};
use super::selection::{CancelledUndo, RecordSelection};
use super::touch_times::{TouchTimes, touched_nodes};
use super::volatile_gone::VolatileGone;
use crate::error::Result;
use crate::journal::{Op, Record};
use crate::name::escape;
use crate::operator::Store;
use crate::operator::past::effect::SessionRecord;
use crate::operator::past::{
    NameId, NameSlot, NodeId, NodeSet, Past, ROOT, RecordEffect, RecordId,
};
use crate::operator::point::{Operation, Point};
use crate::world::store::layout::TRASH;
use crate::world::view::in_trash;

/// Plans an undo. Nothing is changed.
///
/// # Errors
/// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read; those of reading the disk.
pub fn plan<'a>(
    store: &'a Store,
    selection: &RecordSelection,
    choice: OnConflict,
) -> Result<UndoPlan<'a>> {
    let mut past = Past::now(store)?;
    let target = past.tree().clone();
    let mut planner = UndoPlanner {
        past: &mut past,
        target,
        choice,
        conflicts: Vec::new(),
        notes: Vec::new(),
        later_changes: HashMap::default(),
        instead: HashMap::default(),
        beside: HashMap::new(),
        merged: HashMap::default(),
        born: Vec::new(),
        touched: TouchTimes::default(),
        removed_outside: Vec::new(),
        made: NodeSet::default(),
        replaced: Vec::new(),
        left_at: HashMap::default(),
        later_modes: Vec::new(),
        kept: Vec::new(),
        unforcible: HashSet::new(),
        changed: HashMap::default(),
        changed_in_trash: HashSet::new(),
        moved_by_pair: BTreeMap::new(),
        put_into_trash: HashMap::new(),
        searched: HashSet::new(),
        followed: Vec::new(),
        purged: HashMap::default(),
        volatile: VolatileGone::default(),
        missing: HashSet::new(),
        selected_nodes: NodeSet::default(),
        since: i64::MAX,
    };
    if let Some(oldest) = &selection.oldest {
        planner.go_back(selection, oldest)?;
    }
    planner.complete_plan()?;
    let mut conflicts = std::mem::take(&mut planner.conflicts);
    super::conflicting_records::describe_conflicting_records(store, &mut conflicts)?;
    Ok(UndoPlan {
        beside: planner
            .beside
            .into_iter()
            .map(|(node, (content, seq))| (node, content, seq))
            .collect(),
        notes: planner.notes,
        volatile: planner.volatile.missed(),
        merged: planner.merged,
        target: planner.target,
        conflicts: conflicts
            .into_iter()
            .map(|(conflict, _)| conflict)
            .collect(),
        records: selection.count,
    })
}

impl UndoPlanner<'_, '_> {
    fn go_back(&mut self, selection: &RecordSelection, oldest: &RecordId) -> Result<()> {
        let end = Point::After(Operation {
            session: oldest.0.to_string(),
            seq: oldest.1 - 1,
        });
        // The older of a pair of undos that cancel each other, while it is gone through.
        let mut begun: Option<CancelledUndo> = None;
        while let Some((session, record)) = self
            .past
            .back_by_one(|session, seq| !end.includes(session, seq))?
        {
            let undo = record.undo_id().map(|undo| (session.clone(), undo));
            let cancelled = undo.and_then(|undo| selection.cancelling_pair(&undo));
            if let Some(ended) = begun.filter(|begun| Some(*begun) != cancelled) {
                self.put_back_cancelled(ended.pair)?;
            }
            begun = cancelled.filter(|undo| undo.is_older);
            self.volatile.note(&session, &record);
            let effects = self.past.tree_mut().effects(&record, &session)?;
            let touched: Vec<(NodeId, bool)> = effects.iter().flat_map(touched_nodes).collect();
            if selection.has(&session, record.seq) {
                self.note_selected(&effects, (&session, &record));
                self.report_missing_file(&effects, (&session, &record))?;
                self.reverse_selected(effects, (&session, &record))?;
            } else {
                for effect in effects {
                    self.note_later_change(&effect, (&session, record.seq));
                    if let Some(undo) = cancelled {
                        let pair = (selection, undo.pair);
                        self.follow_cancelled(pair, &effect, (&session, &record))?;
                    }
                    self.past.tree_mut().reverse(effect, (&session, &record));
                }
            }
            self.touched.note(touched, &record);
        }
        begun.map_or(Ok(()), |ended| self.put_back_cancelled(ended.pair))
    }

    /// Notes that a record cannot be taken back because its file is nowhere: once for each file.
    fn report_missing_file(
        &mut self,
        effects: &[RecordEffect],
        (session, record): (&Arc<str>, &Record),
    ) -> Result<()> {
        if !effects.is_empty() || !self.past.tree_mut().is_of_missing_file(record)? {
            return Ok(());
        }
        if let Some((path, ids)) = record.op.changed_file()
            && self.missing.insert(ids)
            && self
                .git_dirs()
                .file(path)
                .is_none_or(|role| role == GitFile::Other)
        {
            if let Some(who) = self.past.tree().unknown_remover_of(path)? {
                let what = "was removed or moved later";
                self.conflict((session, record), path.to_string(), what, None, true);
                self.name_unknown(Some(who));
                if self.choice == OnConflict::Stop {
                    return Ok(());
                }
            }
            self.notes.push(format!(
                "operation {session}:{}: {path} is not in the store: no record names its removal",
                record.seq
            ));
        }
        Ok(())
    }

    fn note_later_change(&mut self, effect: &RecordEffect, (session, seq): (&Arc<str>, u64)) {
        let what = match effect {
            RecordEffect::Name { dir, name, .. } => ChangeKey::Name(*dir, *name),
            RecordEffect::Content { node, .. } => ChangeKey::Content(*node),
            RecordEffect::Mode(node, _)
            | RecordEffect::Owner(node, _)
            | RecordEffect::Group(node, _)
            | RecordEffect::Xattr(node, ..) => ChangeKey::Attribute(*node),
            RecordEffect::Time(..) | RecordEffect::Born(_) => return,
        };
        self.later_changes.insert(what, (session.clone(), seq));
    }

    fn reverse_selected(
        &mut self,
        effects: Vec<RecordEffect>,
        record: SessionRecord<'_>,
    ) -> Result<()> {
        if self.reverse_names_of(&effects, record)? {
            for effect in effects {
                self.past.tree_mut().reverse(effect, record);
            }
            return Ok(());
        }
        let mut forced = false;
        for effect in effects {
            match &effect {
                RecordEffect::Name { .. } | RecordEffect::Born(_) => {
                    self.past.tree_mut().reverse(effect, record);
                }
                RecordEffect::Content { node, .. } => {
                    let node = *node;
                    let after = content_of(self.past.tree(), node);
                    self.past.tree_mut().reverse(effect, record);
                    forced = self.reverse_content(node, after, record)?;
                }
                _ => {
                    self.reverse_attribute(&effect, forced, record)?;
                    self.past.tree_mut().reverse(effect, record);
                }
            }
        }
        Ok(())
    }

    /// Reverses a record's changes of names. Returns whether the rest of the record is left alone.
    fn reverse_names_of(
        &mut self,
        effects: &[RecordEffect],
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let born = effects.iter().find_map(|effect| match effect {
            RecordEffect::Born(node) => Some(*node),
            _ => None,
        });
        if let Some(node) = born {
            self.made.insert(node);
        }
        if self.leaves_later_content(effects)? {
            return Ok(true);
        }
        let goes = match record.1.op {
            Op::Restore { .. } => named_node(effects),
            // With its last name goes what was written to it.
            Op::Link { .. } => named_node(effects).filter(|node| {
                let mut places = self.target.shown_places(*node);
                let first = places.next();
                places.all(|place| Some(place) == first)
            }),
            _ => born,
        };
        if let Some(node) = goes
            && self.past.tree().kind(node) == FileType::RegularFile
            && (born.is_none() && self.goes_with_later_lines(node, record)
                || self.is_written_later(node, born, record)?)
            && self.choice == OnConflict::KeepBoth
        {
            self.kept.push(node);
            return Ok(true);
        }
        if let Some(moved) = goes
            && born.is_none()
            && let Some(node) = self.changed_below(moved, record.1)?
        {
            let after = (record.0.clone(), record.1.seq);
            self.conflict_outside(record, self.name_of(node), "was changed later", &after);
            self.name_unknown_writer(node);
            if self.choice == OnConflict::KeepBoth {
                return Ok(true);
            }
        }
        let trash = self.past.tree().lookup(ROOT, TRASH)?;
        match self.compare_names(effects, trash, record)? {
            Some(forced) => self.reverse_names(effects, (born, trash, forced), record)?,
            None => self.note_removed_outside(effects, born, record)?,
        }
        Ok(false)
    }

    /// Notes that somebody outside the home removed or moved the file that a record had made at a name, or had brought back
    /// there.
    fn note_removed_outside(
        &mut self,
        effects: &[RecordEffect],
        born: Option<NodeId>,
        record: SessionRecord<'_>,
    ) -> Result<()> {
        if born.is_none() && !matches!(record.1.op, Op::Restore { .. }) {
            return Ok(());
        }
        for effect in effects {
            if let RecordEffect::Name { dir, name, .. } = effect
                && self.target.lookup_id(*dir, *name)?.is_none()
                && self.conflicting_record((*dir, *name)).is_none()
            {
                let of = (record.0.clone(), record.1.seq);
                self.removed_outside.push(((*dir, *name), of));
            }
        }
        Ok(())
    }

    /// Returns whether a file that goes into the trash again is one of which only some lines were to be taken back: the
    /// others are somebody else's, which is a conflict.
    fn goes_with_later_lines(&mut self, node: NodeId, record: SessionRecord<'_>) -> bool {
        if self.merged.remove(&node).is_none() {
            return false;
        }
        let after = (record.0.clone(), record.1.seq);
        self.conflict_outside(record, self.name_of(node), "was written to later", &after);
        self.name_unknown_writer(node);
        true
    }

    /// Returns whether a file that a record made, or took out of the trash, was written to later, which is a conflict;
    /// not if its later lines can be given to the file that it took the place of.
    fn is_written_later(
        &mut self,
        node: NodeId,
        born: Option<NodeId>,
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let after = content_of(self.past.tree(), node);
        let there = content_of(&self.target, node);
        // What only the home wrote to a file that an undo brought back goes with it, and is in the trash.
        let is_changed_outside = self.past.tree().is_changed_outside(node);
        if is_same_layer(&after, &there)
            || born.is_none() && !is_changed_outside
            || self.went_before(node)
            || self.is_equal_content(node, &after, &there)?
            || self.merge_into_former(node, (&after, &there), record)?
        {
            return Ok(false);
        }
        if let Some(carried) = self.carried_lines(node) {
            self.carried_conflict(node, carried, &(record.0.clone(), record.1.seq));
            return Ok(false);
        }
        self.content_conflict(record, node, &after);
        Ok(true)
    }

    /// Returns whether a selected undo put a file into the trash, later lines and all, for another one that it left as it
    /// was.
    fn went_before(&self, node: NodeId) -> bool {
        let pair = self.back_in_place(node).filter(|pair| pair.by_undo);
        pair.is_some_and(|pair| content_of(&self.target, pair.left).is_none())
    }

    /// Compares names with the state that the record left. Returns whether they are taken back, and then whether by
    /// force.
    fn compare_names(
        &mut self,
        effects: &[RecordEffect],
        trash: Option<NodeId>,
        record: SessionRecord<'_>,
    ) -> Result<Option<bool>> {
        let (mut as_left, mut as_before) = (true, true);
        let mut in_the_way = None;
        let mut placeless = None;
        for effect in effects {
            let RecordEffect::Name {
                dir,
                name,
                before,
                after,
            } = effect
            else {
                continue;
            };
            let there = self.target.lookup_id(*dir, self.alias((*dir, *name)))?;
            let lost = after.filter(|_| there.is_none());
            // `places` checks later, when all is taken back, whether the purged node is needed.
            let purged = lost.is_some_and(|node| self.is_purged((*dir, *name), node, trash));
            if there != *after && !purged {
                as_left = false;
                in_the_way.get_or_insert((*dir, *name, *after, there));
            }
            as_before &= there == *before || Some(*dir) == trash;
            let needs_place = before.is_some() && Some(*dir) != trash && !self.was_in_trash(*dir);
            if needs_place && placeless.is_none() {
                let by = self.removal_of(*dir, trash);
                placeless = by.map(|by| (*name, by));
            }
        }
        Ok(if as_left {
            Some(false)
        } else if as_before {
            // Gathered under its directory: the node exists, but at a place where no user would look for it.
            if let Some((name, by)) = placeless {
                let what = "has no place: its directory was removed later; undo that as well";
                let name = escape(&self.target.disk().text(name));
                self.conflict(record, name, what, Some(by), false);
            } else if let Some((at, by)) = self.moved_since(effects) {
                let what = "was moved later; undo that as well";
                self.conflict(record, at, what, Some(by), false);
            }
            None
        } else if self.yields_names(effects, trash) {
            None
        } else if let Some(way) = in_the_way {
            self.name_conflict(way, trash, record);
            // What the owner wrote goes to no name that it had in between.
            self.kept.extend(way.3.filter(|there| {
                let at = self.target.disk().lookup_id(way.0, way.1);
                self.choice == OnConflict::KeepBoth
                    && self.past.tree().is_changed_outside(*there)
                    && at.is_ok_and(|at| at != Some(*there))
            }));
            Some(true)
        } else {
            Some(false)
        })
    }

    /// Returns the name at which a record made a thing that is seen elsewhere now, and the later record that took it from
    /// there: a free name alone does not say that it is gone.
    fn moved_since(&self, effects: &[RecordEffect]) -> Option<(String, RecordId)> {
        let born = effects.iter().find_map(|effect| match effect {
            RecordEffect::Born(node) => Some(*node),
            _ => None,
        })?;
        self.target.shown_places(born).next()?;
        effects.iter().find_map(|effect| match effect {
            RecordEffect::Name {
                dir, name, after, ..
            } if *after == Some(born) => {
                let by = self.conflicting_record((*dir, *name))?;
                Some((self.whole_name(*dir, *name), by))
            }
            _ => None,
        })
    }

    /// Returns whether a node was purged from the trash, and notes the record of the purge.
    fn is_purged(&mut self, place: NameSlot, node: NodeId, trash: Option<NodeId>) -> bool {
        let past = self.past.tree();
        // The entries of a lost directory are lost with it.
        if !past.is_lost(node) || Some(place.0) != trash && !past.is_lost(place.0) {
            return false;
        }
        if let Some(by) = self.conflicting_record(place) {
            self.purged.entry(node).or_insert(by);
        }
        true
    }

    /// Returns whether a directory was in the trash at this point of the past.
    pub(super) fn was_in_trash(&self, dir: NodeId) -> bool {
        self.past.tree().path(dir).is_some_and(|dir| in_trash(&dir))
    }

    fn reverse_names(
        &mut self,
        effects: &[RecordEffect],
        (born, trash, forced): (Option<NodeId>, Option<NodeId>, bool),
        record: SessionRecord<'_>,
    ) -> Result<()> {
        for effect in effects {
            let RecordEffect::Name {
                dir,
                name,
                before,
                after,
            } = effect
            else {
                continue;
            };
            let mut alias = self.alias((*dir, *name));
            let there = self.target.lookup_id(*dir, alias)?;
            // Put it beside the other, and use that name from here on.
            if forced
                && self.choice == OnConflict::KeepBoth
                && there != *after
                && Some(*dir) != trash
            {
                alias = self.free_name_beside((*dir, alias), record.1.seq, *before)?;
                self.instead.insert((*dir, *name), alias);
            }
            self.target.set_by_id(*dir, alias, *before);
            let of = (record.0.clone(), record.1.seq);
            self.note_replaced((*dir, alias), (*before, *after), record);
            self.changed.insert((*dir, alias), of.clone());
            if self.was_in_trash(*dir) {
                self.changed_in_trash.insert((*dir, alias));
            } else {
                self.changed_in_trash.remove(&(*dir, alias));
            }
            if let Some(node) = born
                && self.past.tree().kind(node) == FileType::Directory
            {
                self.born.push((node, (*dir, alias), of));
            }
        }
        Ok(())
    }

    /// Notes what comes back at a name in place of what selected records left there, also where it had been moved away or
    /// removed before.
    fn note_replaced(
        &mut self,
        at: NameSlot,
        (before, after): (Option<NodeId>, Option<NodeId>),
        (session, record): SessionRecord<'_>,
    ) {
        if matches!(record.op, Op::Exchange { .. }) {
            return;
        }
        let left = match after {
            Some(left) if before.is_none() => {
                let is_moved = matches!(record.op, Op::Rename { .. });
                self.left_at.insert(at, (left, is_moved));
                return;
            }
            Some(left) => Some((left, true)),
            None => self.left_at.remove(&at),
        };
        if let (Some(former), Some((left, is_moved))) = (before, left)
            && former != left
        {
            self.replaced.push(ReplacedNode {
                former,
                left,
                at,
                by_undo: record.undo_id().is_some(),
                is_moved,
                of: (session.clone(), record.seq),
            });
        }
    }

    fn name_conflict(
        &mut self,
        (dir, name_id, after, there): (NodeId, NameId, Option<NodeId>, Option<NodeId>),
        trash: Option<NodeId>,
        record: SessionRecord<'_>,
    ) {
        let at = self.whole_name(dir, name_id);
        let lost = after.is_some_and(|node| self.past.tree().is_lost(node));
        let is_replaced = lost && there.is_some();
        let what = match (after, there) {
            _ if is_replaced => "was replaced",
            _ if lost => "is not in the store any more",
            (Some(_), None) if Some(dir) == trash => "was taken out of the trash later",
            (Some(_), None) => "was removed or moved later",
            (Some(_), Some(_)) => "is something else now",
            (None, _) => "has come to be there later",
        };
        let by = self.conflicting_record((dir, name_id));
        self.conflict(record, at, what, by, !lost || is_replaced);
        match there {
            Some(there) => self.name_unknown_writer(there),
            None => self.name_unknown(self.past.tree().unknown_remover((dir, name_id))),
        }
    }

    /// Where a name is: a bare one would not say which of several is meant.
    pub(super) fn whole_name(&self, dir: NodeId, name: NameId) -> String {
        let name = self.target.disk().text(name);
        match self.target.path(dir).or_else(|| self.past.tree().path(dir)) {
            Some(path) if path.is_root() => format!("/{}", escape(&name)),
            Some(path) => format!("{path}/{}", escape(&name)),
            None => escape(&name),
        }
    }

    fn alias(&self, place: NameSlot) -> NameId {
        self.instead.get(&place).copied().unwrap_or(place.1)
    }
}

/// Returns the node that a record gave a name that it did not have: one out of the trash, or a further one.
fn named_node(effects: &[RecordEffect]) -> Option<NodeId> {
    effects.iter().find_map(|effect| match effect {
        RecordEffect::Name { before, after, .. } if before != after => *after,
        _ => None,
    })
}
