//! The state of planning an undo, and the plan itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::later_lines::MergedLines;
use super::touch_times::TouchTimes;
use super::volatile_gone::VolatileGone;
use crate::journal::{InodeNumbers, Record};
use crate::name::WorldPath;
use crate::operator::past::tree::layer::{ContentLayer, LayerKind};
use crate::operator::past::{
    NameId, NameSlot, NodeId, NodeSet, NumberHash, Past, PastTree, RecordId, UnknownWriterOf,
};
use crate::operator::point::Operation;
use crate::world::view::in_trash;

/// The resolution of a conflict with a later change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnConflict {
    /// Change nothing at all.
    #[default]
    Stop,
    /// Put the former file beside the current one.
    KeepBoth,
    /// Move the current file to the trash, or keep its content as a version.
    Force,
}

impl OnConflict {
    /// Returns the choice of two flags, of which at most one is set.
    pub fn chosen(keep_both: bool, force: bool) -> OnConflict {
        match (keep_both, force) {
            (true, _) => OnConflict::KeepBoth,
            (_, true) => OnConflict::Force,
            _ => OnConflict::Stop,
        }
    }
}

/// A conflict with a later change.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct UndoConflict {
    /// The session of the record that cannot be undone.
    pub session: String,
    /// Its number.
    pub seq: u64,
    /// Its operation.
    #[serde(rename = "op")]
    pub word: String,
    /// The path and the reason.
    pub what: String,
    /// The later record that conflicts; `None` where no record did it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<Operation>,
    /// The later record in words: its operation and its author.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by_what: Option<String>,
    /// True if the conflict can be overridden.
    pub can_be_forced: bool,
}

impl UndoConflict {
    /// Says that somebody outside the home caused it, after a record.
    pub(in crate::operator) fn name_outsider(&mut self, (session, seq): &RecordId) {
        let who = format!("by somebody outside the home, after operation {session}:{seq}");
        self.by_what = Some(who);
    }

    /// Says that an unknown writer caused it, or was one of several who did.
    pub(in crate::operator) fn name_unknown_writer(&mut self, who: UnknownWriterOf, others: bool) {
        match others {
            true => self.what.push_str(&format!(" (also by {who})")),
            false => self.by_what = Some(format!("by {who}")),
        }
    }
}

/// The result of planning.
#[derive(Debug)]
pub struct UndoPlan<'a> {
    /// The store as it should become.
    pub target: PastTree<'a>,
    /// Contents to put beside their file, each with the number of the record that destroyed it.
    pub beside: Vec<(NodeId, Option<Arc<ContentLayer>>, u64)>,
    /// The conflicts.
    pub conflicts: Vec<UndoConflict>,
    /// Changes that cannot be undone because nothing was kept; the files stay as they are.
    pub notes: Vec<String>,
    /// The number of volatile things that are not brought back, by directory.
    pub volatile: Vec<(WorldPath, u64)>,
    /// The texts of which lines are taken back beside later changes.
    pub(super) merged: HashMap<NodeId, MergedLines, NumberHash>,
    /// The number of records taken back.
    pub records: u64,
}

/// The object of a record's change, as a key for finding the later record that changed the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ChangeKey {
    Name(NodeId, NameId),
    Content(NodeId),
    Attribute(NodeId),
}

/// A node that comes back at a name, and the one that selected records put in its place.
#[derive(Debug, Clone)]
pub(super) struct ReplacedNode {
    pub(super) former: NodeId,
    pub(super) left: NodeId,
    /// The name.
    pub(super) at: NameSlot,
    /// True if an undo put the other one there.
    pub(super) by_undo: bool,
    /// True if the other one may go back to where it was moved from.
    pub(super) is_moved: bool,
    /// The record that put it there, or that the former one left the name by.
    pub(super) of: RecordId,
}

/// A conflict, and the record that causes it.
pub(in crate::operator) type ConflictCause = (UndoConflict, Option<RecordId>);

/// The state of planning an undo.
pub(super) struct UndoPlanner<'a, 'p> {
    pub(super) past: &'p mut Past<'a>,
    pub(super) target: PastTree<'a>,
    pub(super) choice: OnConflict,
    pub(super) conflicts: Vec<ConflictCause>,
    pub(super) notes: Vec<String>,
    /// For each change, the next later record that is not selected, on the way back from the newest.
    pub(super) later_changes: HashMap<ChangeKey, RecordId, NumberHash>,
    /// Names used instead, because something later has the original name.
    pub(super) instead: HashMap<NameSlot, NameId, NumberHash>,
    /// Contents to put beside their file.
    pub(super) beside: HashMap<NodeId, (Option<Arc<ContentLayer>>, u64)>,
    /// Texts of which lines are taken back beside later changes.
    pub(super) merged: HashMap<NodeId, MergedLines, NumberHash>,
    /// Directories created by selected records, with their place and record.
    pub(super) born: Vec<(NodeId, NameSlot, RecordId)>,
    /// Names whose files, made by selected records, somebody outside the home removed.
    pub(super) removed_outside: Vec<(NameSlot, RecordId)>,
    /// The nodes that records have changed since the point reached, and the directories of names.
    pub(super) touched: TouchTimes,
    /// The nodes that selected records made.
    pub(super) made: NodeSet,
    /// Files that come back in place of others.
    pub(super) replaced: Vec<ReplacedNode>,
    /// The nodes that selected records left at names that were free, until an older one tells what had left them; true for
    /// a node that was moved there.
    pub(super) left_at: HashMap<NameSlot, (NodeId, bool), NumberHash>,
    /// Files with permissions from outside the home, each with the selected record that had set others.
    pub(super) later_modes: Vec<(NodeId, RecordId)>,
    /// Files created by selected records but kept, because they were written to later.
    pub(super) kept: Vec<NodeId>,
    /// Records already reported as impossible to undo.
    pub(super) unforcible: HashSet<RecordId>,
    /// The names that selected records changed.
    pub(super) changed: HashMap<NameSlot, RecordId, NumberHash>,
    /// The names among them that were in a directory in the trash: a node that comes back there needs no other place.
    pub(super) changed_in_trash: HashSet<NameSlot>,
    /// The nodes that a pair of undos that cancel each other moved, until the past has come to the point before the
    /// pair (`cancelled.rs`).
    pub(super) moved_by_pair: BTreeMap<usize, BTreeSet<NodeId>>,
    /// The nodes in the trash that such a pair put there, with their places: a file may have several links there.
    pub(super) put_into_trash: HashMap<(usize, NodeId), BTreeSet<NameSlot>>,
    /// The pairs for whose nodes the store was searched for further names.
    pub(super) searched: HashSet<usize>,
    /// The places of the trash in which such nodes count as lying, each with the place where they really lie.
    pub(super) followed: Vec<(NameSlot, NameSlot)>,
    /// The nodes purged from the trash, with the record of the purge.
    pub(super) purged: HashMap<NodeId, RecordId, NumberHash>,
    /// The volatile things that are gone.
    pub(super) volatile: VolatileGone,
    /// Files of selected records that are nowhere and were reported.
    pub(super) missing: HashSet<InodeNumbers>,
    /// The nodes that selected records changed.
    pub(super) selected_nodes: NodeSet,
    /// The time of the oldest selected record that was met, in microseconds since 1970.
    pub(super) since: i64,
}

impl UndoPlanner<'_, '_> {
    /// Returns the name by which a user knows a node now, not a name that it had briefly in between.
    pub(super) fn name_of(&self, node: NodeId) -> String {
        let path = self.known_path(node);
        path.map_or_else(|| "a file".to_owned(), |path| path.to_string())
    }

    pub(super) fn known_path(&self, node: NodeId) -> Option<WorldPath> {
        let seen = self.target.disk().path(node);
        seen.clone()
            .filter(|path| !in_trash(path))
            .or_else(|| self.path_back(node))
            .or_else(|| self.target.path(node))
            .or_else(|| self.past.tree().path(node))
            .or(seen)
    }

    /// Returns whether a node has a name outside the trash now.
    pub(super) fn is_seen(&self, node: NodeId) -> bool {
        let disk = self.target.disk();
        let is_shown = |(dir, _): NameSlot| disk.path(dir).is_some_and(|dir| !in_trash(&dir));
        disk.every_place(node).any(is_shown)
    }

    /// Returns where a file that is not seen now comes back in place of another one.
    pub(super) fn back_in_place(&self, node: NodeId) -> Option<&ReplacedNode> {
        let mut pairs = self.replaced.iter().filter(|pair| pair.former == node);
        pairs.next().filter(|_| !self.is_seen(node))
    }

    /// Returns the path at which a file comes back in place of another one.
    fn path_back(&self, node: NodeId) -> Option<WorldPath> {
        let (dir, name) = self.back_in_place(node)?.at;
        let mut path = self.target.path(dir)?;
        self.target.disk().push(&mut path, name)?;
        Some(path)
    }

    pub(super) fn conflicting_record(&self, (dir, name): NameSlot) -> Option<RecordId> {
        self.later_changes.get(&ChangeKey::Name(dir, name)).cloned()
    }

    /// Adds a conflict with a later content.
    pub(super) fn content_conflict(
        &mut self,
        record: (&Arc<str>, &Record),
        node: NodeId,
        after: &Option<Arc<ContentLayer>>,
    ) {
        let (place, what) = (self.name_of(node), "was written to later");
        match after.as_ref().filter(|layer| layer.kind.is_outside()) {
            Some(layer) => self.conflict_outside(record, place, what, &layer.record),
            None => {
                let by = self.later_changes.get(&ChangeKey::Content(node)).cloned();
                self.conflict(record, place, what, by, true);
            }
        }
        self.name_unknown_writer(node);
    }

    /// Notes a conflict with what somebody did outside the home after an operation.
    pub(super) fn conflict_outside(
        &mut self,
        record: (&Arc<str>, &Record),
        place: String,
        what: &str,
        after: &RecordId,
    ) {
        self.conflict(record, place, what, None, true);
        self.name_outsider(after);
    }

    /// Says of the last conflict that an unknown writer caused it, if that has changed or made a file.
    pub(super) fn name_unknown_writer(&mut self, node: NodeId) {
        self.name_unknown(self.past.tree().unknown_writer(node));
    }

    pub(super) fn name_unknown(&mut self, who: Option<UnknownWriterOf>) {
        if let (Some(who), Some((conflict, by))) = (who, self.conflicts.last_mut()) {
            conflict.name_unknown_writer(who, by.is_some());
        }
    }

    /// Says of the last conflict that somebody outside the home caused it.
    pub(super) fn name_outsider(&mut self, after: &RecordId) {
        if let Some((conflict, _)) = self.conflicts.last_mut() {
            conflict.name_outsider(after);
        }
    }

    pub(super) fn conflict(
        &mut self,
        (session, record): (&Arc<str>, &Record),
        place: String,
        what: &str,
        by: Option<RecordId>,
        can_be_forced: bool,
    ) {
        // Where the user chose not to stop, a change that cannot be overridden is skipped and reported.
        if !can_be_forced && self.choice != OnConflict::Stop {
            let seq = record.seq;
            self.notes
                .push(format!("operation {session}:{seq}: {place} {what}"));
            return;
        }
        if !can_be_forced {
            self.unforcible.insert((session.clone(), record.seq));
        }
        let conflict = UndoConflict {
            session: session.to_string(),
            seq: record.seq,
            word: record.op.word().to_owned(),
            what: format!("{place} {what}{}", self.git_dirs().remedy(&place)),
            by: None,
            by_what: None,
            can_be_forced,
        };
        self.conflicts.push((conflict, by));
    }
}

/// Returns whether a content is only known to have been different.
pub(super) fn is_unknown(layer: &Option<Arc<ContentLayer>>) -> bool {
    layer.as_ref().is_some_and(|layer| {
        layer.kind == LayerKind::Same && !layer.cuts || layer.kind == LayerKind::Outside
    })
}

/// The topmost layer of a file's content at a point; `None` for the content on the disk now.
pub(super) type TopLayer = Option<Arc<ContentLayer>>;

pub(super) fn content_of(tree: &PastTree<'_>, node: NodeId) -> Option<Arc<ContentLayer>> {
    tree.difference(node).and_then(|then| then.content.clone())
}

pub(super) fn is_same_layer(
    one: &Option<Arc<ContentLayer>>,
    two: &Option<Arc<ContentLayer>>,
) -> bool {
    match (one, two) {
        (None, None) => true,
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        _ => false,
    }
}
