//! The inverse of each operation: its effects, computed from the state after it.

use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::Result;
use crate::journal::{
    DirTime, FileTime, InodeNumbers, KeepMethod, Op, Record, ReplacedFile, VersionRef,
};
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::past::disk::interner::NameId;
use crate::operator::past::disk::node_id::{NameSlot, NodeId};
use crate::operator::past::tree::effect::RecordEffect;
use crate::operator::past::tree::layer::LayerKind;
use crate::operator::past::tree::past_tree::PastTree;
use crate::world::trash::trash_entries::parse_entry;

impl PastTree<'_> {
    /// Returns the effects of a record. The tree must be in the state after it.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn effects(&mut self, record: &Record, session: &Arc<str>) -> Result<Vec<RecordEffect>> {
        self.begin(record, session);
        let mut effects = Vec::with_capacity(4);
        let (at, at_to) = (record.at.first(), record.at.get(1));
        match &record.op {
            Op::Create { path, .. }
            | Op::Mkdir { path, .. }
            | Op::Mknod { path, .. }
            | Op::Symlink { path, .. } => {
                self.add_creation(&mut effects, path, record, session)?;
            }
            Op::Link { path, from, ids } => {
                // This makes the file's other name known in case the new one is gone.
                let linked = self.resolve_near(from)?;
                if let Some(linked) = linked.filter(|linked| self.ids(*linked) == Some(*ids)) {
                    self.reconcile_missed(linked, *ids)?;
                }
                self.find_elsewhere(*ids)?;
                let (dir, name, node) =
                    self.expect_node(path, at, Some(*ids), FileType::RegularFile)?;
                self.give_back_name(from, node, (dir, name))?;
                effects.push(name_given(dir, name, node));
            }
            Op::Unlink { path, ids, trash } => {
                self.add_removal(&mut effects, (path, at), *ids, trash, FileType::RegularFile)?;
            }
            Op::Rmdir { path, ids, trash } => {
                self.add_removal(&mut effects, (path, at), *ids, trash, FileType::Directory)?;
            }
            Op::Gather {
                trash,
                entries,
                names,
                ..
            } => self.add_gathering(&mut effects, trash, entries, names)?,
            Op::Rename {
                path,
                to,
                ids,
                replaced,
            }
            | Op::Restore {
                path,
                to,
                ids,
                replaced,
            } => {
                self.add_move(&mut effects, record, (path, to, *ids), replaced.as_ref())?;
            }
            Op::Exchange {
                path,
                to,
                ids,
                other,
            } => {
                let (to_dir, to_name, one) =
                    self.expect_node(to, at_to, Some(*ids), FileType::Unknown)?;
                let (dir, name, two) =
                    self.expect_node(path, at, Some(*other), FileType::Unknown)?;
                effects.push(name_change(dir, name, Some(one), Some(two)));
                effects.push(name_change(to_dir, to_name, Some(two), Some(one)));
                times_of_moved(
                    &mut effects,
                    record,
                    [(*ids, one), (*other, two)].into_iter(),
                );
            }
            op => self.add_inner_effects(&mut effects, op, session)?,
        }
        self.add_dir_times(&mut effects, record)?;
        Ok(effects)
    }

    /// Adds the effects of making a node at a path.
    fn add_creation(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        path: &WorldPath,
        record: &Record,
        session: &Arc<str>,
    ) -> Result<()> {
        let kind = match &record.op {
            Op::Mkdir { .. } => FileType::Directory,
            Op::Symlink { .. } => FileType::Symlink,
            Op::Mknod { mode, .. } => FileType::from_raw_mode(*mode),
            _ => FileType::RegularFile,
        };
        let made = self.made_inode();
        let (dir, name, there) = self.expect_node(path, record.at.first(), made, kind)?;
        let is_later = made.is_none() && self.is_born_later(there, record, session)?;
        let node = if is_later {
            self.disk().make_lost_node(kind)
        } else {
            there
        };
        effects.push(name_given(dir, name, node));
        effects.push(RecordEffect::Born(node));
        Ok(())
    }

    /// Gives a file the name that it was linked by, if it has no other one but the further name: somebody outside the home
    /// has put another file there since.
    fn give_back_name(&mut self, from: &WorldPath, node: NodeId, further: NameSlot) -> Result<()> {
        let has_other = self.shown_places(node).any(|place| place != further);
        if !has_other && !self.is_lost(node) {
            let (dir, name) = self.resolve_place(from, None)?;
            self.set_by_id(dir, name, Some(node));
        }
        Ok(())
    }

    /// Adds the effects of a move of a name to another one, and of what stood there.
    fn add_move(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        record: &Record,
        (path, to, ids): (&WorldPath, &WorldPath, InodeNumbers),
        replaced: Option<&ReplacedFile>,
    ) -> Result<()> {
        let (at, at_to) = (record.at.first(), record.at.get(1));
        let (to_dir, to_name, node) = self.expect_node(to, at_to, Some(ids), FileType::Unknown)?;
        let (dir, name) = self.resolve_place(path, at)?;
        let stood = self.add_replacement(effects, replaced)?;
        effects.push(name_change(dir, name, Some(node), None));
        effects.push(name_change(to_dir, to_name, stood, Some(node)));
        let replaced = replaced.map(|replaced| replaced.ids).zip(stood);
        times_of_moved(effects, record, [(ids, node)].into_iter().chain(replaced));
        Ok(())
    }

    /// Adds effects on nodes rather than names.
    fn add_inner_effects(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        op: &Op,
        session: &Arc<str>,
    ) -> Result<()> {
        if let Op::Purge { entries, .. } = op {
            let trash = self.trash_node()?;
            for entry in entries {
                let gone = self.disk().make_lost_node(FileType::Unknown);
                let entry = self.disk().name_id(&entry.0);
                effects.push(name_change(trash, entry, Some(gone), None));
            }
        }
        // An evicted version is reported when its content is read.
        let Some((path, ids)) = op.changed_file() else {
            return Ok(());
        };
        let Some(node) = self.find_node(path, ids)? else {
            return Ok(());
        };
        if let Some((kept, size)) = op.content() {
            let cut = is_known_by_size(op).then_some(size);
            let before = op.ids().next().copied();
            let was = before.filter(|before| *before != ids);
            effects.push(content_effect(node, session, kept, size, cut, was));
        }
        match op {
            Op::Write { mtime, mode, .. } | Op::Truncate { mtime, mode, .. } => {
                add_times_before(effects, node, *mtime, *mode);
            }
            Op::Content { mtime, .. } | Op::Allocate { mtime, .. } => {
                add_times_before(effects, node, *mtime, None);
            }
            Op::Attr { was, .. } => {
                effects.push(RecordEffect::Mode(node, was.mode));
                effects.push(RecordEffect::Owner(node, was.uid));
                effects.push(RecordEffect::Group(node, was.gid));
                effects.push(RecordEffect::Time(node, was.mtime));
            }
            Op::Xattr { name, was, .. } => {
                let was = was.as_ref().map(|was| was.0.clone());
                effects.push(RecordEffect::Xattr(node, name.0.clone(), was));
            }
            _ => {}
        }
        Ok(())
    }

    fn add_removal(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        (path, at): (&WorldPath, Option<&DirTime>),
        ids: InodeNumbers,
        entry: &EscapedBytes,
        kind: FileType,
    ) -> Result<()> {
        let trash = self.trash_node()?;
        let entry = self.disk().name_id(&entry.0);
        let node = self.at_slot(trash, entry, Some(ids), kind)?;
        let (dir, name) = self.resolve_place(path, at)?;
        effects.push(name_given(trash, entry, node));
        effects.push(name_change(dir, name, Some(node), None));
        Ok(())
    }

    fn add_replacement(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        replaced: Option<&ReplacedFile>,
    ) -> Result<Option<NodeId>> {
        let Some(ReplacedFile { ids, trash: entry }) = replaced else {
            return Ok(None);
        };
        let trash = self.trash_node()?;
        let entry = self.disk().name_id(&entry.0);
        let node = self.at_slot(trash, entry, Some(*ids), FileType::Unknown)?;
        effects.push(name_given(trash, entry, node));
        Ok(Some(node))
    }

    /// Returns each gathered entry to its own place in the trash; gathering may have stopped half-way.
    fn add_gathering(
        &mut self,
        effects: &mut Vec<RecordEffect>,
        into: &EscapedBytes,
        entries: &[EscapedBytes],
        names: &[(EscapedBytes, EscapedBytes)],
    ) -> Result<()> {
        let trash = self.trash_node()?;
        let Some(dir) = self.lookup(trash, &into.0)? else {
            return Ok(());
        };
        let whole: std::collections::HashMap<_, _> = names
            .iter()
            .map(|(entry, name)| (&entry.0, &name.0))
            .collect();
        for entry in entries {
            let name = match whole.get(&entry.0) {
                Some(name) => name.as_slice(),
                None => parse_entry(&entry.0).map_or(&entry.0[..], |(_, name)| name),
            };
            let arrived = match self.lookup(trash, &entry.0)? {
                None => self.lookup(dir, name)?,
                Some(_) => None,
            };
            if let Some(node) = arrived {
                let (name, entry) = (self.disk().name_id(name), self.disk().name_id(&entry.0));
                effects.push(name_given(dir, name, node));
                effects.push(name_change(trash, entry, Some(node), None));
            }
        }
        Ok(())
    }
}

fn name_change(
    dir: NodeId,
    name: NameId,
    before: Option<NodeId>,
    after: Option<NodeId>,
) -> RecordEffect {
    RecordEffect::Name {
        dir,
        name,
        before,
        after,
    }
}

/// Returns the effect of giving a name to a node.
fn name_given(dir: NodeId, name: NameId, node: NodeId) -> RecordEffect {
    name_change(dir, name, None, Some(node))
}

/// Returns whether the record can have changed nothing but the content's length.
fn is_known_by_size(op: &Op) -> bool {
    match op {
        Op::Write { size, .. } => *size == 0,
        Op::Truncate { size, to, .. } | Op::Content { size, to, .. } => *size == 0 || to >= size,
        // No flags, or FALLOC_FL_KEEP_SIZE alone, destroy nothing; records of an earlier release have no size.
        Op::Allocate { mode, mtime, .. } => *mode <= 1 && *mtime != (0, 0),
        _ => false,
    }
}

/// Adds the effect on a content. `cut` is the size before, where only the length can have changed.
fn content_effect(
    node: NodeId,
    session: &Arc<str>,
    kept: Option<VersionRef>,
    size: u64,
    cut: Option<u64>,
    was: Option<InodeNumbers>,
) -> RecordEffect {
    let (kind, size) = match kept {
        None => (LayerKind::Same, cut),
        Some(VersionRef { how, n }) => match how {
            KeepMethod::Moved | KeepMethod::Cloned | KeepMethod::Copied => {
                (LayerKind::Whole(session.clone(), n), Some(size))
            }
            KeepMethod::Blocks => (LayerKind::Ranges(session.clone(), n), Some(size)),
            KeepMethod::Length => (LayerKind::Same, Some(size)),
        },
    };
    RecordEffect::Content {
        node,
        kind,
        size,
        was,
    }
}

/// Adds the earlier modification times of directories that an exchange gave other parents; the record has them after
/// those of the directories that their names are in.
fn times_of_moved(
    effects: &mut Vec<RecordEffect>,
    record: &Record,
    moved: impl Iterator<Item = (InodeNumbers, NodeId)>,
) {
    let times = record.at.get(2..).unwrap_or_default();
    for (ids, node) in moved {
        let time = times.iter().find(|at| at.2 == ids[1]);
        effects.extend(time.map(|at| RecordEffect::Time(node, (at.0, at.1))));
    }
}

fn add_times_before(
    effects: &mut Vec<RecordEffect>,
    node: NodeId,
    mtime: FileTime,
    mode: Option<u32>,
) {
    if mtime != (0, 0) {
        effects.push(RecordEffect::Time(node, mtime));
    }
    effects.extend(mode.map(|mode| RecordEffect::Mode(node, mode)));
}
