//! Undo in git repositories in which others work as well.
//!
//! Owns what gives way there without a conflict. An index is compared by its entries. Bookkeeping that changed since
//! stays as it is. Objects and packs that were added stay if anything else in their git directory was changed since by
//! others, since references to them may be anywhere in it; without such changes an undo is exact.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::fs::FileType;

use super::git_files::{GitDirs, GitFile};
use super::planner::{UndoPlanner, content_of, is_same_layer};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::operator::past::effect::SessionRecord;
use crate::operator::past::tree::layer::ContentLayer;
use crate::operator::past::{NameSlot, NodeId, PastContent, RecordEffect};
use crate::world::git_index::{entries_digest, same_entries};

/// The largest index that is compared by its entries: more than a million of them.
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// The time by which a file's time of change may lie before the clock's: the kernel's ticks.
const CLOCK_GRAIN_MICROS: i64 = 10_000;

/// The same, where a file system has whole seconds: up to two.
const SECONDS_GRAIN_MICROS: i64 = 2_000_000;

impl UndoPlanner<'_, '_> {
    pub(super) fn git_dirs(&self) -> GitDirs {
        GitDirs::of(self.target.disk().store())
    }

    /// Notes the nodes that a selected record changed, and its time: the oldest one comes last.
    pub(super) fn note_selected(&mut self, effects: &[RecordEffect], record: SessionRecord<'_>) {
        self.since = chrono::DateTime::parse_from_rfc3339(&record.1.time)
            .map_or(i64::MIN, |time| time.timestamp_micros());
        for effect in effects {
            match effect {
                RecordEffect::Name { before, after, .. } => {
                    self.selected_nodes
                        .extend([*before, *after].into_iter().flatten());
                }
                RecordEffect::Born(node) | RecordEffect::Content { node, .. } => {
                    self.selected_nodes.insert(*node);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a node is a git file whose later content is no conflict and stays: bookkeeping, and objects, whose
    /// names say what is in them.
    pub(super) fn yields_content(&self, node: NodeId) -> bool {
        let path = self.known_path(node);
        let role = path.and_then(|path| self.git_dirs().file(&path));
        matches!(role, Some(GitFile::Object | GitFile::Bookkeeping))
    }

    /// Returns whether a record is left alone: it put a file into its place that was written to since and yields.
    pub(super) fn leaves_later_content(&self, effects: &[RecordEffect]) -> Result<bool> {
        for effect in effects {
            let RecordEffect::Name {
                after: Some(node), ..
            } = effect
            else {
                continue;
            };
            let after = content_of(self.past.tree(), *node);
            let there = content_of(&self.target, *node);
            if !is_same_layer(&after, &there)
                && self.past.tree().kind(*node) == FileType::RegularFile
                && self.yields_content(*node)
                && !self.is_equal_content(*node, &after, &there)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a record whose names have something else now is left alone: they are of files that yield.
    pub(super) fn yields_names(&self, effects: &[RecordEffect], trash: Option<NodeId>) -> bool {
        let mut places = effects.iter().filter_map(|effect| match effect {
            RecordEffect::Name { dir, name, .. } if Some(*dir) != trash => Some((*dir, *name)),
            _ => None,
        });
        let yields = |place| {
            let role = self
                .path_at(place)
                .and_then(|path| self.git_dirs().file(&path));
            role.is_some_and(|role| !matches!(role, GitFile::Index | GitFile::Other))
        };
        places.next().is_some_and(yields) && places.all(yields)
    }

    fn path_at(&self, (dir, name): NameSlot) -> Option<WorldPath> {
        let tree = &self.target;
        let mut path = tree.path(dir).or_else(|| self.past.tree().path(dir))?;
        path.push(Name::new(&tree.disk().text(name)).ok()?);
        Some(path)
    }

    /// Returns whether two contents are indexes with the same entries.
    pub(super) fn is_same_index(
        &self,
        node: NodeId,
        one: &PastContent,
        two: &PastContent,
    ) -> Result<bool> {
        let path = self.known_path(node);
        if path.and_then(|path| self.git_dirs().file(&path)) != Some(GitFile::Index)
            || one.missing_part().is_some()
            || two.missing_part().is_some()
            || one.size().max(two.size()) > MAX_INDEX_BYTES
        {
            return Ok(false);
        }
        Ok(same_entries(&read_all(one)?, &read_all(two)?))
    }

    /// Returns whether one content is that of an index which the home left, and which somebody else wrote anew as two
    /// with the same entries.
    pub(super) fn is_left_index(
        &self,
        node: NodeId,
        one: &Option<Arc<ContentLayer>>,
        two: &Option<Arc<ContentLayer>>,
    ) -> Result<bool> {
        let past = self.past.tree();
        if !is_same_layer(one, &content_of(past, node)) {
            return Ok(false);
        }
        let Some(left) = past.left_index(node) else {
            return Ok(false);
        };
        let store = self.target.disk().store();
        match PastContent::open(store, two.as_ref(), || self.target.open_now(node)) {
            Ok(two) if two.missing_part().is_none() && two.size() <= MAX_INDEX_BYTES => {
                Ok(entries_digest(&read_all(&two)?).as_deref() == Some(left))
            }
            _ => Ok(false),
        }
    }

    /// Keeps the objects and packs that would go, where their git directory was changed by others since.
    pub(super) fn keep_git_objects(&mut self) -> Result<()> {
        let mut is_changed: HashMap<WorldPath, bool> = HashMap::new();
        let changed: Vec<NameSlot> = self.changed.keys().copied().collect();
        let mut kept = Vec::new();
        for place in changed {
            let Some(node) = self.target.disk().lookup_id(place.0, place.1)? else {
                continue;
            };
            if self.target.lookup_id(place.0, place.1)? == Some(node) {
                continue;
            }
            let Some(path) = self.disk_path(place) else {
                continue;
            };
            if self.git_dirs().file(&path) != Some(GitFile::Object) {
                continue;
            }
            let Some(at) = self.git_dirs().around(&path) else {
                continue;
            };
            let known = is_changed.get(&at).copied();
            let is_kept = match known {
                Some(is_kept) => is_kept,
                None => {
                    let is_kept = self.is_changed_by_others(&at)?;
                    is_changed.insert(at, is_kept);
                    is_kept
                }
            };
            if is_kept {
                kept.push(node);
            }
        }
        for node in kept {
            self.leave_as_it_is(node)?;
        }
        Ok(())
    }

    /// Gives a node its present names in the target, and no others.
    fn leave_as_it_is(&mut self, node: NodeId) -> Result<()> {
        let given: Vec<NameSlot> = self.target.every_place(node).collect();
        let there: Vec<NameSlot> = self.target.disk().every_place(node).collect();
        for place in given.into_iter().filter(|place| !there.contains(place)) {
            let now = self.target.disk().lookup_id(place.0, place.1)?;
            self.target.set_by_id(place.0, place.1, now);
            self.changed.remove(&place);
        }
        for place in there {
            self.target.set_by_id(place.0, place.1, Some(node));
            self.changed.remove(&place);
        }
        if self.target.kind(node) == FileType::RegularFile {
            self.target.forget_difference(node);
        }
        Ok(())
    }

    fn disk_path(&self, (dir, name): NameSlot) -> Option<WorldPath> {
        let disk = self.target.disk();
        let mut path = disk.path(dir)?;
        path.push(Name::new(&disk.text(name)).ok()?);
        Some(path)
    }

    /// Returns whether a file in a git directory, objects apart, was changed since the oldest selected record, and not
    /// by selected records.
    ///
    /// The times of change of files that no record names are compared with the clock's time of that record: a clock
    /// that was set back in between deceives this, and then objects that a reference needs may go to the trash.
    fn is_changed_by_others(&self, git_dir: &WorldPath) -> Result<bool> {
        let disk = self.target.disk();
        let Some(top) = self.resolve_on_disk(git_dir)? else {
            return Ok(true);
        };
        let mut waiting = vec![(top, git_dir.clone())];
        while let Some((dir, path)) = waiting.pop() {
            for name in disk.names(dir)? {
                let mut below = path.clone();
                below.push(Name::new(&name)?);
                if self.git_dirs().file(&below) == Some(GitFile::Object) {
                    continue;
                }
                let Some(node) = disk.lookup(dir, &name)? else {
                    continue;
                };
                if disk.kind(node).is_dir() {
                    waiting.push((node, below));
                } else if self.is_node_of_others(node)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn is_node_of_others(&self, node: NodeId) -> Result<bool> {
        if self.selected_nodes.contains(node) {
            return Ok(self.past.tree().is_changed_outside(node));
        }
        let meta = match self.target.disk().stat(node) {
            Ok(meta) => meta,
            Err(Error::NotFound) => return Ok(true),
            Err(error) => return Err(error),
        };
        let grain = if meta.ctime.nsec == 0 {
            SECONDS_GRAIN_MICROS
        } else {
            CLOCK_GRAIN_MICROS
        };
        let micros = meta.ctime.sec.saturating_mul(1_000_000);
        let micros = micros.saturating_add(i64::from(meta.ctime.nsec) / 1000);
        Ok(micros.saturating_add(grain) >= self.since)
    }

    fn resolve_on_disk(&self, path: &WorldPath) -> Result<Option<NodeId>> {
        let disk = self.target.disk();
        let mut at = crate::operator::past::ROOT;
        for name in path.components() {
            match disk.lookup(at, name.bytes())? {
                Some(node) => at = node,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}

fn read_all(content: &PastContent) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = content.reader().read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &error))?;
    Ok(bytes)
}
