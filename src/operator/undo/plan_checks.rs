//! Checks of the plan as a whole, after the last record: every node that comes back has a place, no name is given
//! twice, no later node is carried off, and the contents exist. Also names the conflicting records.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::planner::{
    OnConflict, ReplacedNode, UndoConflict, UndoPlanner, content_of, is_same_layer, is_unknown,
};
use crate::error::{Error, Result};
use crate::name::{NAME_MAX, Name, escape};
use crate::operator::past::tree::layer::ContentLayer;
use crate::operator::past::{NameId, NameSlot, NodeId, NumberHash, PastContent, ROOT, RecordId};
use crate::world::Dir;
use crate::world::store::layout::TRASH;
use crate::world::view::in_trash;

impl UndoPlanner<'_, '_> {
    pub(super) fn complete_plan(&mut self) -> Result<()> {
        self.check_cancelled();
        self.keep_later_modes();
        self.check_removed_names()?;
        self.keep_git_objects()?;
        self.check_changed_backups()?;
        self.keep_written_names()?;
        self.check_places()?;
        self.check_made_directories()?;
        self.check_lost_lines()?;
        self.remove_surplus_names()?;
        self.find_other_names()?;
        self.check_contents()
    }

    /// Checks that no file comes back at a name that somebody outside the home removed.
    fn check_removed_names(&mut self) -> Result<()> {
        for ((dir, name), of) in std::mem::take(&mut self.removed_outside) {
            let is_gone = self.target.disk().lookup_id(dir, name)?.is_none();
            if let Some(back) = self.target.lookup_id(dir, name)?.filter(|_| is_gone) {
                let what = format!("{} was removed or moved later", self.whole_name(dir, name));
                self.forcible_conflict(&of, what, None);
                self.name_unknown(self.past.tree().unknown_remover((dir, name)));
                if self.choice == OnConflict::KeepBoth {
                    self.target.set_by_id(dir, name, None);
                    self.give_name_beside((dir, name), back, of)?;
                }
            }
        }
        Ok(())
    }

    /// Gives a node that comes back a name beside the one that it had.
    fn give_name_beside(&mut self, at: NameSlot, back: NodeId, of: RecordId) -> Result<()> {
        let beside = (at.0, self.free_name_beside(at, of.1, Some(back))?);
        self.target.set_by_id(beside.0, beside.1, Some(back));
        self.changed.insert(beside, of);
        Ok(())
    }

    /// Returns the name beside another one for a node that comes back, which no other node is to have.
    pub(super) fn free_name_beside(
        &self,
        (dir, name): NameSlot,
        seq: u64,
        back: Option<NodeId>,
    ) -> Result<NameId> {
        let disk = self.target.disk();
        let beside = name_beside(&disk.text(name), seq, |beside| {
            let there = self.target.lookup(dir, beside)?;
            Ok(there.is_none() || there == back)
        })?;
        Ok(disk.name_id(&beside))
    }

    /// Gives the permission bits that somebody outside the home set later to the file that comes back in place of the one
    /// that has them.
    fn keep_later_modes(&mut self) {
        let mut given: HashMap<NodeId, u32, NumberHash> = HashMap::default();
        for replaced in self.replaced.clone() {
            let ReplacedNode { former, left, .. } = replaced;
            // The newest come first: what was set last goes on to a file that comes back in place of several.
            let newer = given.get(&left).copied();
            if let Some(mode) = newer.or_else(|| self.past.tree().mode_outside(left)) {
                given.entry(former).or_insert(mode);
                if self.past.tree().unknown_writer(left).is_some() {
                    let what = format!("{} has other permissions since", self.name_of(left));
                    self.forcible_conflict(&replaced.of, what, None);
                    self.name_unknown_writer(left);
                }
            }
            let carried = self.carried_lines(left);
            if let Some(carried) = carried.filter(|_| !self.made.contains(left)) {
                self.carried_conflict(left, carried, &replaced.of);
            } else if replaced.is_moved {
                self.check_moved_back(left, &replaced.of);
            }
        }
        for (node, mode) in given {
            let is_file = self.target.kind(node) == FileType::RegularFile;
            if is_file && self.target.shown_places(node).next().is_some() {
                self.target.difference_mut(node).mode = Some(mode);
            }
        }
        self.check_later_modes();
    }

    /// Checks that a file which stays has no permission bits that somebody outside the home set after selected records had
    /// set others. One that goes keeps them: it may have a further name that no record tells of.
    fn check_later_modes(&mut self) {
        for (node, of) in std::mem::take(&mut self.later_modes) {
            if self.made.contains(node) || self.target.slot(node).is_none() {
                self.target.difference_mut(node).mode = self.past.tree().mode_outside(node);
                continue;
            }
            let what = format!("{} has other permissions since", self.name_of(node));
            self.forcible_conflict(&of, what, None);
            self.name_unknown_writer(node);
        }
    }

    /// Checks that a file that was moved into the place of another one, and was not made by a selected record, has no later
    /// lines of somebody else: they are where that one comes back.
    fn check_moved_back(&mut self, node: NodeId, of: &RecordId) {
        let is_seen = self
            .target
            .disk()
            .path(node)
            .is_some_and(|path| !in_trash(&path));
        if !is_seen || self.made.contains(node) || !self.past.tree().is_changed_outside(node) {
            return;
        }
        let what = format!("{} was written to later", self.name_of(node));
        self.forcible_conflict(of, what, None);
        self.name_unknown_writer(node);
        if self.choice == OnConflict::KeepBoth {
            self.kept.push(node);
        }
    }

    /// Checks that no file that somebody outside the home has changed since, at the name that an editor gave to its backup,
    /// takes the place of the one that a selected record made.
    fn check_changed_backups(&mut self) -> Result<()> {
        if !self.past.tree().is_any_changed_outside() {
            return Ok(());
        }
        let mut found = Vec::new();
        for ((dir, name), of) in &self.changed {
            let back = self.target.lookup_id(*dir, *name)?;
            let Some(node) = back.filter(|node| self.past.tree().is_changed_outside(*node)) else {
                continue;
            };
            let disk = self.target.disk();
            let now = disk.lookup_id(*dir, *name)?;
            let is_seen = disk.path(node).is_some_and(|path| !in_trash(&path));
            if is_seen && now.is_some_and(|now| now != node && self.made.contains(now)) {
                found.push((of.clone(), node));
            }
        }
        found.sort_unstable();
        for (of, node) in found {
            self.check_moved_back(node, &of);
        }
        Ok(())
    }

    /// Leaves files that selected records created and that were written to later under their current names: a program
    /// that writes a new file and moves it into place created it under another name. The file that was there before
    /// comes back beside it. One that a later selected record replaced takes the place of its successor; where an undo
    /// has put another file there since, that stays as it is.
    fn keep_written_names(&mut self) -> Result<()> {
        let disk = self.target.disk().clone();
        let shown = |place: &NameSlot| disk.path(place.0).is_some_and(|dir| !in_trash(&dir));
        for node in std::mem::take(&mut self.kept) {
            self.beside.remove(&node);
            self.target.forget_difference(node);
            let mut seen: Vec<NameSlot> = disk.every_place(node).filter(shown).collect();
            if let Some(ReplacedNode { at, by_undo, .. }) = self.back_in_place(node).cloned() {
                match disk.lookup_id(at.0, at.1)? {
                    Some(now) if by_undo => self.target.forget_difference(now),
                    Some(now) if !self.target.is_lost(node) => {
                        let goes = self.target.lookup_id(at.0, at.1)? != Some(now);
                        seen.extend(goes.then_some(at));
                    }
                    _ => {}
                }
            } else if seen.is_empty() {
                continue;
            }
            let given: Vec<NameSlot> = self.target.every_place(node).collect();
            for (dir, name) in given.into_iter().filter(|place| !seen.contains(place)) {
                let now = disk.lookup_id(dir, name)?;
                self.target.set_by_id(dir, name, now);
            }
            for (dir, name) in seen {
                let back = self.target.lookup_id(dir, name)?;
                if back == Some(node) {
                    continue;
                }
                self.target.set_by_id(dir, name, Some(node));
                if let (Some(back), Some(of)) = (back, self.changed.get(&(dir, name)).cloned()) {
                    self.give_name_beside((dir, name), back, of)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that a file gets no content from before an undo that had put it in the place of a new one which is in the
    /// store no more: the undo may have given it later lines of that one.
    fn check_lost_lines(&mut self) -> Result<()> {
        for pair in self.replaced.clone() {
            let (file, then) = (pair.left, content_of(&self.target, pair.left));
            let is_lost = self.made.contains(pair.former) && self.target.is_lost(pair.former);
            if !(is_lost && pair.by_undo)
                || self.target.slot(file).is_none()
                || self.is_equal_content(file, &then, &None)?
            {
                continue;
            }
            let name = self.name_of(file);
            let what =
                format!("{name} may have later lines of a file that is not in the store any more");
            self.forcible_conflict(&pair.of, what, self.purged.get(&pair.former).cloned());
            if self.choice == OnConflict::KeepBoth {
                self.forget_content(file, &then);
            }
        }
        Ok(())
    }

    /// Checks that each node that comes back exists, and so does its directory.
    fn check_places(&mut self) -> Result<()> {
        let trash = self.target.lookup(ROOT, TRASH)?;
        let changed = std::mem::take(&mut self.changed);
        let mut in_order: Vec<(&RecordId, NameSlot)> =
            changed.iter().map(|(place, of)| (of, *place)).collect();
        in_order.sort_unstable();
        for (of, (dir, name)) in in_order {
            let Some(node) = self.target.lookup_id(dir, name)? else {
                continue;
            };
            let now = self.target.disk().lookup_id(dir, name)?;
            if now == Some(node) || Some(dir) == trash {
                continue;
            }
            let is_lost = self.target.is_lost(node);
            if is_lost {
                let parent = self.target.path(dir).or_else(|| self.past.tree().path(dir));
                let path = parent.and_then(|mut path| {
                    self.target.disk().push(&mut path, name)?;
                    Some(path)
                });
                if self.volatile.count_purged(self.purged.get(&node), path) {
                    // What a selected record left there goes all the same, or back to where it was.
                    let stays = now.filter(|now| {
                        let goes_back = self.target.every_place(*now).next().is_some();
                        !goes_back && !self.made.contains(*now)
                    });
                    self.target.set_by_id(dir, name, stays);
                    continue;
                }
            }
            let (problem, by) = if is_lost {
                let problem =
                    "is not in the store any more: it was purged, or removed behind the mount";
                (problem, self.purged.get(&node).cloned())
            } else if self.changed_in_trash.contains(&(dir, name)) {
                continue;
            } else if let Some(by) = self.removal_of(dir, trash) {
                let problem = "has no place: its directory was removed later; undo that as well";
                (problem, Some(by))
            } else {
                continue;
            };
            let at = self.whole_name(dir, name);
            self.unforcible_conflict(of, format!("{at} {problem}"), by);
            self.target.set_by_id(dir, name, now);
        }
        self.changed = changed;
        Ok(())
    }

    /// Returns the record that moved a directory to the trash, if the directory stays there.
    pub(super) fn removal_of(&self, dir: NodeId, trash: Option<NodeId>) -> Option<RecordId> {
        let path = self.target.path(dir).filter(in_trash)?;
        let entry = path.components().nth(1)?;
        let entry = self.target.disk().name_id(entry.bytes());
        self.conflicting_record((trash?, entry))
    }

    /// Checks that a directory created by a selected record does not take later files of others into the trash.
    fn check_made_directories(&mut self) -> Result<()> {
        for (node, (dir, name), of) in std::mem::take(&mut self.born) {
            let there = self.target.lookup_id(dir, name)?;
            if there == Some(node) || self.target.slot(node).is_some() {
                continue;
            }
            let Some(child) = self.target.children(node)?.into_keys().next() else {
                continue;
            };
            let inner = self.target.disk().name_id(&child);
            let by = self.conflicting_record((node, inner));
            let what = format!("{} has {} in it since", self.name_of(node), escape(&child));
            self.forcible_conflict(&of, what, by);
            if let Some(child) = self.target.lookup_id(node, inner)? {
                self.name_unknown_writer(child);
            }
            if self.choice == OnConflict::KeepBoth {
                self.target.set_by_id(dir, name, Some(node));
            }
        }
        Ok(())
    }

    /// Removes surplus names: a forced undo may have given a node its old name while it keeps a later one.
    fn remove_surplus_names(&mut self) -> Result<()> {
        let mut count: HashMap<NodeId, i32, NumberHash> = HashMap::default();
        for (dir, name) in self.changed.keys() {
            if let Some(node) = self.target.lookup_id(*dir, *name)? {
                *count.entry(node).or_default() += 1;
            }
            if let Some(node) = self.target.disk().lookup_id(*dir, *name)? {
                *count.entry(node).or_default() -= 1;
            }
        }
        for (node, surplus) in count {
            if surplus <= 0 || self.target.is_lost(node) {
                continue;
            }
            let mut places = self.target.disk().every_place(node);
            let later = places.find(|at| !self.changed.contains_key(at));
            match (self.choice, later) {
                (OnConflict::Force, Some(at)) => {
                    self.target.set_by_id(at.0, at.1, None);
                    self.changed.insert(at, (Arc::from(""), 0));
                }
                (OnConflict::Force | OnConflict::KeepBoth, _) => {
                    let given: Vec<NameSlot> = self.changed.keys().copied().collect();
                    for (dir, name) in given {
                        let now = self.target.disk().lookup_id(dir, name)?;
                        let then = self.target.lookup_id(dir, name)?;
                        if then == Some(node) && now != Some(node) {
                            self.target.set_by_id(dir, name, now);
                            break;
                        }
                    }
                }
                // Already reported as a conflict.
                (OnConflict::Stop, _) => {}
            }
        }
        Ok(())
    }

    /// Searches for other names of changed files whose known names all go: no recent record may name them.
    fn find_other_names(&mut self) -> Result<()> {
        let mut wanted = HashSet::new();
        for (node, _) in self.target.changed_nodes() {
            let path = self.target.path(node);
            if path.is_some_and(|path| !in_trash(&path)) || self.target.is_lost(node) {
                continue;
            }
            let disk = self.target.disk();
            let known = disk.places(node).len();
            let links = disk
                .stat(node)
                .map_or(0, |meta| if meta.is_dir() { 0 } else { meta.nlink });
            if usize::try_from(links).unwrap_or(0) > known {
                wanted.extend(disk.ids(node));
            }
        }
        if wanted.is_empty() {
            Ok(())
        } else {
            self.target.disk().search(&wanted)
        }
    }

    /// Checks that every content to be restored is available.
    fn check_contents(&mut self) -> Result<()> {
        let changed: Vec<(NodeId, Option<Arc<ContentLayer>>)> = self
            .target
            .changed_nodes()
            .map(|(node, then)| (node, then.content.clone()))
            .chain(
                self.beside
                    .iter()
                    .map(|(node, (content, _))| (*node, content.clone())),
            )
            .filter(|(_, content)| content.is_some())
            .collect();
        for (node, content) in changed {
            if let Some(layer) = &content
                && self.past.tree().displaced.contains(&node)
            {
                let path = self.name_of(node);
                let what = format!(
                    "{path} is another file now, and no record says how that came; `trumanfs restore` has what it held"
                );
                self.unforcible_conflict(&layer.record.clone(), what, None);
                continue;
            }
            if self.target.slot(node).is_none()
                || self.target.path(node).is_none_or(|p| in_trash(&p))
            {
                continue;
            }
            let Some(layer) = &content else { continue };
            if is_unknown(&content) {
                self.notes.push(format!(
                    "{} stays as it is: what it held before operation {}:{} was not kept",
                    self.name_of(node),
                    layer.record.0,
                    layer.record.1
                ));
                self.forget_content(node, &content);
                continue;
            }
            let store = self.target.disk().store();
            match PastContent::open(store, Some(layer), || self.target.open_now(node)) {
                Ok(then) => {
                    if self.refuses_content(node, layer, &then) {
                        continue;
                    }
                    self.note_missing_part(node, layer, &then);
                    // A content that is already there need not be restored.
                    if self.beside.contains_key(&node) {
                        self.keep_file_beside(node, layer, &then)?;
                        continue;
                    }
                    let now = match PastContent::open(store, None, || self.target.open_now(node)) {
                        // A user who may not read another user's file may still truncate it.
                        Err(error) if error.is_denial() => continue,
                        now => now?,
                    };
                    if then.has_bytes_of(&now)? && then.has_holes_of(&now)? {
                        self.target.difference_mut(node).content = None;
                        self.merged.remove(&node);
                    }
                }
                Err(Error::Missing { .. })
                    if self.volatile.count_content(layer, self.known_path(node)) =>
                {
                    self.forget_content(node, &content);
                }
                Err(Error::Missing { what, .. } | Error::Damaged(what)) => {
                    let of = layer.record.clone();
                    self.unforcible_conflict(&of, format!("{}: {what}", self.name_of(node)), None);
                    self.forget_content(node, &content);
                }
                // The step that needs the content reports that.
                Err(error) if error.is_denial() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Leaves the file that an earlier undo put beside another one, where it holds what would come back there.
    fn keep_file_beside(
        &mut self,
        node: NodeId,
        layer: &Arc<ContentLayer>,
        then: &PastContent,
    ) -> Result<()> {
        let (Some((content, seq)), Some((dir, name))) =
            (self.beside.get(&node), self.target.place_of(node))
        else {
            return Ok(());
        };
        if !is_same_layer(content, &Some(layer.clone())) {
            return Ok(());
        }
        let disk = self.target.disk().clone();
        let mut kept = None;
        name_beside(&disk.text(name), *seq, |beside| {
            let there = disk.lookup(dir, beside)?;
            let at = (dir, disk.name_id(beside));
            kept = match there {
                Some(file) if self.holds_at(file, at, then)? => Some((file, at)),
                _ => None,
            };
            Ok(there.is_none() || kept.is_some())
        })?;
        if let Some((file, (dir, name))) = kept {
            self.target.set_by_id(dir, name, Some(file));
            self.target.forget_difference(file);
            self.beside.remove(&node);
        }
        Ok(())
    }

    /// Returns whether a file has a content now, and may stay at the name that it has.
    fn holds_at(&self, file: NodeId, (dir, name): NameSlot, content: &PastContent) -> Result<bool> {
        let stays = self.target.lookup_id(dir, name)? == Some(file);
        let has_place = stays || self.target.shown_places(file).next().is_none();
        if self.target.kind(file) != FileType::RegularFile || !has_place {
            return Ok(false);
        }
        let store = self.target.disk().store();
        match PastContent::open(store, None, || self.target.open_now(file)) {
            Ok(now) => content.has_bytes_of(&now),
            Err(error) if error.is_denial() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds a conflict for a content of which too little is left. Returns whether it is not restored.
    fn refuses_content(
        &mut self,
        node: NodeId,
        layer: &Arc<ContentLayer>,
        then: &PastContent,
    ) -> bool {
        let (Some(missing), of) = (then.missing_part(), layer.record.clone()) else {
            return false;
        };
        if missing.is_outside() {
            let what = format!("{}: {missing}", self.name_of(node));
            self.unforcible_conflict(&of, what, None);
            self.forget_content(node, &Some(layer.clone()));
            return true;
        }
        let is_refused = missing.is_altered() && self.choice == OnConflict::Stop;
        if is_refused {
            let what = format!("{}: what it would get back: {missing}", self.name_of(node));
            self.forcible_conflict(&of, what, None);
        }
        is_refused
    }

    /// Reports the part of a content that cannot be restored; the rest is restored.
    fn note_missing_part(&mut self, node: NodeId, layer: &ContentLayer, then: &PastContent) {
        if let Some(missing) = then.missing_part() {
            let (session, seq) = &layer.record;
            let what = format!("what it held before operation {session}:{seq}");
            let path = self.name_of(node);
            self.notes.push(format!("{path}: {what}: {missing}"));
        }
    }

    fn forget_content(&mut self, node: NodeId, content: &Option<Arc<ContentLayer>>) {
        let same =
            |one: &Arc<ContentLayer>| content.as_ref().is_some_and(|two| Arc::ptr_eq(one, two));
        if content_of(&self.target, node).as_ref().is_some_and(same) {
            let then = self.target.difference_mut(node);
            then.content = None;
            then.mtime = None;
        } else {
            self.beside.remove(&node);
        }
    }

    /// Adds a conflict that cannot be overridden; unless the choice is to stop, the change is skipped and reported.
    fn unforcible_conflict(&mut self, of: &RecordId, what: String, by: Option<RecordId>) {
        if self.choice == OnConflict::Stop {
            if self.unforcible.insert(of.clone()) {
                self.conflicts.push((conflict(of, what, false), by));
            }
        } else {
            self.notes
                .push(format!("operation {}:{}: {what}", of.0, of.1));
        }
    }

    pub(super) fn forcible_conflict(&mut self, of: &RecordId, what: String, by: Option<RecordId>) {
        self.conflicts.push((conflict(of, what, true), by));
    }
}

fn conflict(of: &RecordId, what: String, can_be_forced: bool) -> UndoConflict {
    UndoConflict {
        session: of.0.to_string(),
        seq: of.1,
        word: String::new(),
        what,
        by: None,
        by_what: None,
        can_be_forced,
    }
}

/// Returns a free name for a file beside another: `name.before-SEQ`, or `name.before-SEQ-2` and so on, truncated if it
/// would be too long.
pub(super) fn name_beside(
    name: &[u8],
    seq: u64,
    mut is_free: impl FnMut(&[u8]) -> Result<bool>,
) -> Result<Box<[u8]>> {
    let mut number = 1_u32;
    loop {
        let suffix = match number {
            1 => format!(".before-{seq}"),
            number => format!(".before-{seq}-{number}"),
        };
        let mut end = name.len().min(NAME_MAX - suffix.len());
        // Cut between characters if it is UTF-8.
        while end > 0 && end < name.len() && name.get(end).is_some_and(|b| b & 0xc0 == 0x80) {
            end -= 1;
        }
        let mut beside = name.get(..end).unwrap_or(name).to_vec();
        beside.extend_from_slice(suffix.as_bytes());
        if is_free(&beside)? {
            return Ok(beside.into());
        }
        number += 1;
    }
}

/// Returns whether a directory has no entry of a name.
pub(super) fn is_free(dir: &Dir, name: &[u8]) -> Result<bool> {
    match dir.stat(Name::new(name)?) {
        Err(Error::NotFound) => Ok(true),
        there => there.map(|_| false),
    }
}
