//! The plan of an undo: the target tree, or the conflicts.
//!
//! Two trees start from the store as it is now. `past` takes back every record, which shows what each record left and
//! what was before. `target` takes back only the selected ones; it is what the store should become. Where the target
//! differs from what a record left, a later change is in conflict.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::selection::Selection;
use crate::error::Result;
use crate::journal::Record;
use crate::name::escape;
use crate::operator::Store;
use crate::operator::past::tree::layer::{Kind, Layer};
use crate::operator::past::{
    ByNumber, Effect, NameId, NameSlot, NodeId, Past, ROOT, RecordId, Tree,
};
use crate::operator::point::{Operation, Point};
use crate::world::layout::TRASH;
use crate::world::view::in_trash;

/// How to resolve a conflict with a later change.
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

/// A conflict with a later change.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Conflict {
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
    /// That record in words: what, and by whom.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by_what: Option<String>,
    /// Whether it can be overridden.
    pub can_be_forced: bool,
}

/// The result of planning.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The store as it should become.
    pub target: Tree<'a>,
    /// Contents to put beside their file, each with the number of the record that destroyed it.
    pub beside: Vec<(NodeId, Option<Arc<Layer>>, u64)>,
    /// The conflicts.
    pub conflicts: Vec<Conflict>,
    /// Changes that cannot be undone because nothing was kept; the files stay as they are.
    pub notes: Vec<String>,
    /// The number of records taken back.
    pub records: u64,
}

/// What a record changed, as a key for finding the later record that changed it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Changed {
    Name(NodeId, NameId),
    Content(NodeId),
    Attribute(NodeId),
}

/// A conflict, and the record that causes it.
pub(super) type InTheWay = (Conflict, Option<RecordId>);

pub(super) struct Planner<'a, 'p> {
    pub(super) past: &'p mut Past<'a>,
    pub(super) target: Tree<'a>,
    pub(super) choice: OnConflict,
    pub(super) conflicts: Vec<InTheWay>,
    pub(super) notes: Vec<String>,
    /// For each change, the next later record that is not selected, on the way back from the newest.
    pub(super) touched: HashMap<Changed, RecordId, ByNumber>,
    /// Names used instead, because something later has the original name.
    instead: HashMap<NameSlot, NameId, ByNumber>,
    /// Contents to put beside their file.
    pub(super) beside: HashMap<NodeId, (Option<Arc<Layer>>, u64)>,
    /// Directories created by selected records, with their place and record.
    pub(super) born: Vec<(NodeId, NameSlot, RecordId)>,
    /// Files created by selected records but kept, because they were written to later.
    pub(super) kept: Vec<NodeId>,
    /// Records already reported as impossible to undo.
    pub(super) fixed: HashSet<RecordId>,
    /// The names that selected records changed.
    pub(super) changed: HashMap<NameSlot, RecordId, ByNumber>,
}

/// Plans an undo. Nothing is changed.
///
/// # Errors
/// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read; those of reading the disk.
pub fn plan<'a>(store: &'a Store, selection: &Selection, choice: OnConflict) -> Result<Plan<'a>> {
    let mut past = Past::now(store)?;
    let target = past.tree().clone();
    let mut planner = Planner {
        past: &mut past,
        target,
        choice,
        conflicts: Vec::new(),
        notes: Vec::new(),
        touched: HashMap::default(),
        instead: HashMap::default(),
        beside: HashMap::new(),
        born: Vec::new(),
        kept: Vec::new(),
        fixed: HashSet::new(),
        changed: HashMap::default(),
    };
    if let Some(oldest) = &selection.oldest {
        planner.walk(selection, oldest)?;
    }
    planner.settle()?;
    let mut conflicts = std::mem::take(&mut planner.conflicts);
    super::resolve::name_culprits(store, &mut conflicts)?;
    Ok(Plan {
        beside: planner
            .beside
            .into_iter()
            .map(|(node, (content, seq))| (node, content, seq))
            .collect(),
        notes: planner.notes,
        target: planner.target,
        conflicts: conflicts
            .into_iter()
            .map(|(conflict, _)| conflict)
            .collect(),
        records: selection.count,
    })
}

impl Planner<'_, '_> {
    fn walk(&mut self, selection: &Selection, oldest: &RecordId) -> Result<()> {
        let end = Point::After(Operation {
            session: oldest.0.to_string(),
            seq: oldest.1 - 1,
        });
        while let Some((session, record)) = self
            .past
            .back_by_one(|session, seq| !end.includes(session, seq))?
        {
            let effects = self.past.tree_mut().effects(&record, &session)?;
            if selection.has(&session, record.seq) {
                self.take_back(effects, (&session, &record))?;
            } else {
                for effect in effects {
                    self.touch(&effect, (&session, record.seq));
                    self.past.tree_mut().reverse(effect, (&session, &record));
                }
            }
        }
        Ok(())
    }

    fn touch(&mut self, effect: &Effect, (session, seq): (&Arc<str>, u64)) {
        let what = match effect {
            Effect::Name { dir, name, .. } => Changed::Name(*dir, *name),
            Effect::Content { node, .. } => Changed::Content(*node),
            Effect::Mode(node, _)
            | Effect::Owner(node, _)
            | Effect::Group(node, _)
            | Effect::Xattr(node, ..) => Changed::Attribute(*node),
            Effect::Time(..) | Effect::Born(_) => return,
        };
        self.touched.insert(what, (session.clone(), seq));
    }

    fn take_back(&mut self, effects: Vec<Effect>, told: (&Arc<str>, &Record)) -> Result<()> {
        if self.names(&effects, told)? {
            for effect in effects {
                self.past.tree_mut().reverse(effect, told);
            }
            return Ok(());
        }
        for effect in effects {
            match &effect {
                Effect::Name { .. } | Effect::Born(_) => {
                    self.past.tree_mut().reverse(effect, told);
                }
                Effect::Content { node, .. } => {
                    let node = *node;
                    let after = content_of(self.past.tree(), node);
                    self.past.tree_mut().reverse(effect, told);
                    self.content(node, after, told)?;
                }
                _ => {
                    self.attribute(&effect, told)?;
                    self.past.tree_mut().reverse(effect, told);
                }
            }
        }
        Ok(())
    }

    /// Reverses a record's changes of names. Returns whether the rest of the record is left alone.
    fn names(&mut self, effects: &[Effect], told: (&Arc<str>, &Record)) -> Result<bool> {
        let born = effects.iter().find_map(|effect| match effect {
            Effect::Born(node) => Some(*node),
            _ => None,
        });
        if let Some(node) = born
            && self.past.tree().kind(node) == FileType::RegularFile
        {
            let after = content_of(self.past.tree(), node);
            let there = content_of(&self.target, node);
            if !same(&after, &there) && !self.equal(node, &after, &there)? {
                let by = self.touched.get(&Changed::Content(node)).cloned();
                self.conflict(told, self.name_of(node), "was written to later", by, true);
                if self.choice == OnConflict::KeepBoth {
                    self.kept.push(node);
                    return Ok(true);
                }
            }
        }
        let trash = self.past.tree().lookup(ROOT, TRASH)?;
        let (mut as_left, mut as_before) = (true, true);
        let mut in_the_way = None;
        let mut placeless = None;
        for effect in effects {
            let Effect::Name {
                dir,
                name,
                before,
                after,
            } = effect
            else {
                continue;
            };
            let there = self.target.lookup_id(*dir, self.alias((*dir, *name)))?;
            if there != *after {
                as_left = false;
                in_the_way.get_or_insert((*dir, *name, *after, there));
            }
            as_before &= there == *before || Some(*dir) == trash;
            if before.is_some() && Some(*dir) != trash && placeless.is_none() {
                let by = self.removal_of(*dir, trash);
                placeless = by.map(|by| (*name, by));
            }
        }
        let forced = if as_left {
            false
        } else if as_before {
            // Gathered under its directory: it is there, but not where anyone would look for it.
            if let Some((name, by)) = placeless {
                let what = "has no place: its directory was removed later; undo that as well";
                let name = escape(&self.target.disk().text(name));
                self.conflict(told, name, what, Some(by), false);
            }
            return Ok(false);
        } else if let Some(way) = in_the_way {
            self.name_conflict(way, trash, told);
            true
        } else {
            false
        };
        for effect in effects {
            let Effect::Name {
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
                let disk = self.target.disk();
                let beside = super::resolve::beside(&disk.text(alias), told.1.seq);
                alias = disk.name_id(&beside);
                self.instead.insert((*dir, *name), alias);
            }
            self.target.set_by_id(*dir, alias, *before);
            let of = (told.0.clone(), told.1.seq);
            self.changed.insert((*dir, alias), of.clone());
            if let Some(node) = born
                && self.past.tree().kind(node) == FileType::Directory
            {
                self.born.push((node, (*dir, alias), of));
            }
        }
        Ok(false)
    }

    fn name_conflict(
        &mut self,
        (dir, name_id, after, there): (NodeId, NameId, Option<NodeId>, Option<NodeId>),
        trash: Option<NodeId>,
        told: (&Arc<str>, &Record),
    ) {
        let name = self.target.disk().text(name_id);
        let at = match self.target.path(dir).or_else(|| self.past.tree().path(dir)) {
            Some(path) if path.is_root() => format!("/{}", escape(&name)),
            Some(path) => format!("{path}/{}", escape(&name)),
            None => escape(&name),
        };
        let lost = after.is_some_and(|node| self.past.tree().is_lost(node));
        let what = match (after, there) {
            _ if lost => "is not in the store any more",
            (Some(_), None) if Some(dir) == trash => "was taken out of the trash later",
            (Some(_), None) => "was removed or moved later",
            (Some(_), Some(_)) => "is something else now",
            (None, _) => "has come to be there later",
        };
        let by = self.culprit((dir, name_id));
        self.conflict(told, at, what, by, !lost);
    }

    fn alias(&self, place: NameSlot) -> NameId {
        self.instead.get(&place).copied().unwrap_or(place.1)
    }

    /// Returns the name by which a user knows a node now, not one that it had briefly in between.
    pub(super) fn name_of(&self, node: NodeId) -> String {
        let seen = self.target.disk().path(node);
        let path = seen
            .filter(|path| !in_trash(path))
            .or_else(|| self.target.path(node))
            .or_else(|| self.past.tree().path(node));
        path.map_or_else(|| "a file".to_owned(), |path| path.to_string())
    }

    pub(super) fn culprit(&self, (dir, name): NameSlot) -> Option<RecordId> {
        self.touched.get(&Changed::Name(dir, name)).cloned()
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
            self.fixed.insert((session.clone(), record.seq));
        }
        let conflict = Conflict {
            session: session.to_string(),
            seq: record.seq,
            word: record.op.word().to_owned(),
            what: format!("{place} {what}"),
            by: None,
            by_what: None,
            can_be_forced,
        };
        self.conflicts.push((conflict, by));
    }
}

/// Returns whether a content is only known to have been different.
pub(super) fn is_unknown(layer: &Option<Arc<Layer>>) -> bool {
    layer
        .as_ref()
        .is_some_and(|layer| layer.kind == Kind::Same && !layer.cuts)
}

pub(super) fn content_of(tree: &Tree<'_>, node: NodeId) -> Option<Arc<Layer>> {
    tree.difference(node).and_then(|then| then.content.clone())
}

pub(super) fn same(one: &Option<Arc<Layer>>, two: &Option<Arc<Layer>>) -> bool {
    match (one, two) {
        (None, None) => true,
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        _ => false,
    }
}
