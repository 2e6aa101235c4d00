//! The comparison of files of a past tree with what the home left: a change outside the home between two records may be
//! older or newer than the point, so the content at the point is what the home left, or unknown.
//!
//! Each file is compared as if it were the only one: what the comparison of another one finds on the way back leaves it as
//! it was at the point reached.

use std::collections::HashSet;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::Result;
use crate::journal::{InodeNumbers, Op};
use crate::name::WorldPath;
use crate::operator::past::RecordId;
use crate::operator::past::disk::node_id::NodeId;
use crate::operator::past::records::file_history::FileHistory;
use crate::operator::past::records::file_records::{FileRecord, FileRecords};
use crate::operator::past::tree::layer::ContentLayer;
use crate::operator::past::tree::past_tree::PastTree;
use crate::operator::point::Point;

/// The number of files whose records are held in memory at the same time.
const MAX_FILES_AT_ONCE: usize = 1 << 15;

/// A file at the point reached, and its path there; without one, the path that the tree has for it.
pub type ComparedFile = (NodeId, Option<WorldPath>);

impl<'a> PastTree<'a> {
    /// Compares files with what the home left there before the point reached.
    ///
    /// # Errors
    /// Those of reading the records and the disk.
    pub fn compare_with_home(&mut self, files: Vec<ComparedFile>, point: &Point) -> Result<()> {
        if *point == Point::Now {
            return Ok(());
        }
        let mut known = HashSet::new();
        let mut compared = Vec::with_capacity(files.len());
        for (node, path) in files {
            // Others have no content to compare.
            if let Some(ids) = self.ids(node)
                && matches!(self.kind(node), FileType::RegularFile | FileType::Unknown)
                && known.insert(node)
            {
                compared.push((node, path, ids, self.file_state(node, ids)));
            }
        }
        drop(known);
        let pending = self.take_pending_stamps();
        for some in compared.chunks_mut(MAX_FILES_AT_ONCE) {
            let paths: Vec<Option<WorldPath>> = some
                .iter_mut()
                .map(|(node, path, ..)| path.take().or_else(|| self.path(*node)))
                .collect();
            let known = paths.iter().zip(some.iter());
            let known = known.filter_map(|(path, (_, _, ids, _))| Some((path.as_ref()?, *ids)));
            let mut history = FileHistory::new(self.disk.store(), known, point)?;
            for (path, (node, _, ids, state)) in paths.iter().zip(some.iter_mut()) {
                let Some(path) = path else {
                    continue;
                };
                self.set_file_state(*node, *ids, state.clone());
                self.compare_file(*node, (path, *ids), &mut history)?;
                *state = self.file_state(*node, *ids);
            }
        }
        for (node, _, ids, state) in compared {
            self.set_file_state(node, ids, state);
        }
        self.put_pending_stamps(pending);
        Ok(())
    }

    fn compare_file(
        &mut self,
        node: NodeId,
        (path, ids): (&WorldPath, InodeNumbers),
        history: &mut FileHistory<'_>,
    ) -> Result<()> {
        if let Some((session, seq)) = self.came_by_name_since(node, (path, ids), history)? {
            self.forget_content(node, (&session, seq));
            return Ok(());
        }
        // What is as it was when a session began was there at its start, whoever wrote that before.
        if let Some((session, record)) = history.begun()?
            && !self.is_changed_since(node, (&session, &record), self.is_recorded(node))?
        {
            return Ok(());
        }
        // What a record found is the content before it, whoever wrote that.
        let layer = self.top_layer(node);
        if let (Some(layer), Point::After(point)) = (layer, history.point())
            && *layer.record.0 == *point.session
            && layer.record.1 == point.seq + 1
        {
            return Ok(());
        }
        let found = layer.map(Arc::as_ptr);
        if let Some((true, (session, seq))) = self.told_by_name(node, (path, ids), history)? {
            self.forget_content(node, (&session, seq));
            return Ok(());
        }
        // The latest record of a move after which the home took no stamp of the file.
        let mut unstamped = None;
        self.take_pending_stamps();
        let mut records = FileRecords::new((path, ids));
        let mut is_named = false;
        while let Some(mut next) = records.next(history)? {
            // Of a link of another file, which was here then, the records on the way here tell nothing.
            if matches!(&next.record.op, Op::Link { ids: of, .. } if *of != ids) {
                let of = (&next.session, next.record.seq);
                self.forget_content(node, of);
                return Ok(());
            }
            is_named |= next.names_it;
            self.note_stamps(std::mem::take(&mut next.stamps));
            if next.moved_above {
                // What is below has no stamp then; a copy that was stamped since tells that nobody had changed it.
                if !self.has_pending_stamp(ids) {
                    unstamped.get_or_insert((next.session, next.record.seq));
                }
                continue;
            }
            // Another file was there before a move: nothing tells which of the two was there after it.
            let is_other = !next.names_it && next.record.op.ids().next().is_some();
            let is_unsure = is_other && unstamped.is_some();
            if !is_unsure && self.has_left(ids, &next) {
                return self.compare_with_time(node, history, false);
            }
            self.effects(&next.record, &next.session)?;
            if let Some((session, seq)) = &unstamped
                && (is_unsure || self.top_layer(node).map(Arc::as_ptr) != found)
            {
                // It was changed before that record, or the home would have stamped it, or may have been.
                self.forget_content(node, (session, *seq));
                return Ok(());
            }
            // The file that it changed here is known somewhere else, or another one that got its number: this one came later.
            let is_content = next.record.op.content().is_some();
            if is_content && !next.names_it && self.ids(node) == Some(ids) {
                return self.compare_with_time(node, history, false);
            }
            let is_moved = !is_content;
            if is_moved && next.record.op.ids().any(|of| *of == ids) && !self.is_settled(ids) {
                unstamped.get_or_insert((next.session.clone(), next.record.seq));
            }
            if begins_file(&next.record.op, &next.path, ids) || self.is_settled(ids) {
                return Ok(());
            }
        }
        is_named |= self.is_recorded(node);
        self.compare_with_time(node, history, is_named)
    }

    /// Returns the layer of the oldest change of a content since the point reached.
    fn top_layer(&self, node: NodeId) -> Option<&Arc<ContentLayer>> {
        self.difference(node)?.content.as_ref()
    }

    /// Returns whether the file that a record has at a path was somewhere else after it, or gone, so that the one there
    /// now is no successor of it: somebody outside the home put it there.
    fn has_left(&self, ids: InodeNumbers, next: &FileRecord) -> bool {
        let path = &next.path;
        match &next.record.op {
            Op::Unlink {
                path: at, ids: of, ..
            }
            | Op::Rename {
                path: at, ids: of, ..
            } if at == path && *of != ids => true,
            Op::Rename { to, ids: of, .. } | Op::Restore { to, ids: of, .. } => {
                to == path && *of != ids && self.is_told_later(next, Some(*of))
            }
            Op::Create { path: at, .. } => at == path && self.is_told_later(next, None),
            op => op.changed_file().is_some_and(|(at, of)| {
                at == path && of != ids && self.is_told_later(next, Some(of))
            }),
        }
    }

    fn is_told_later(&self, next: &FileRecord, of: Option<InodeNumbers>) -> bool {
        let record = (next.session.clone(), next.record.seq);
        self.has_later_stamp(&record, of)
    }

    /// Returns whether a file got the name that it has at a path from somebody outside the home, after a record that has
    /// its names: another file may have been there. `None` where the names do not tell: the file has more links. A
    /// directory above may have another name without that.
    fn came_by_name(
        &self,
        node: NodeId,
        path: &WorldPath,
        names: &[&WorldPath],
    ) -> Result<Option<bool>> {
        if names.iter().any(|known| known.name() == path.name()) {
            return Ok(Some(false));
        }
        let count = self.disk.stat(node).map_or(0, |there| there.nlink);
        if usize::try_from(count).is_ok_and(|count| count <= names.len()) {
            return Ok(Some(true));
        }
        // Of a link, the name that it had before. Where that is gone without a record, it may be here now.
        let Some(name) = names.last() else {
            return Ok(None);
        };
        let above = name.parent().unwrap_or_default();
        let is_gone = self.resolve(&above)?.is_some() && self.resolve(name)? != Some(node);
        Ok(is_gone.then_some(true))
    }

    /// Returns the record after a point by which a file was not at a path then, if so: the first one that tells its names
    /// has others, and none up to the point has that. Somebody outside the home has moved it there since.
    fn came_by_name_since(
        &self,
        node: NodeId,
        (path, ids): (&WorldPath, InodeNumbers),
        history: &mut FileHistory<'_>,
    ) -> Result<Option<RecordId>> {
        let first = history.first_after(ids, |op| names_before(op, ids).is_some())?;
        let Some((session, record)) = first else {
            return Ok(None);
        };
        let names = names_before(&record.op, ids).unwrap_or_default();
        let came = self.came_by_name(node, path, &names)?;
        if came == Some(false) {
            return Ok(None);
        }
        let earlier = self.told_by_name(node, (path, ids), history)?;
        let came = earlier.map_or(came == Some(true), |(came, _)| came);
        Ok(came.then_some((session, record.seq)))
    }

    /// Returns what the latest record up to a point that tells a file's names says: true if they are others than the one
    /// at a path. `None` where no record tells.
    fn told_by_name(
        &self,
        node: NodeId,
        (path, ids): (&WorldPath, InodeNumbers),
        history: &mut FileHistory<'_>,
    ) -> Result<Option<(bool, RecordId)>> {
        let mut records = FileRecords::new((path, ids));
        while let Some(next) = records.next(history)? {
            let FileRecord {
                session, record, ..
            } = next;
            if let Some(names) = names_after(&record.op, ids)
                && let Some(came) = self.came_by_name(node, path, &names)?
            {
                return Ok(Some((came, (session, record.seq))));
            }
            // Before a record of names it had others.
            if !next.moved_above && record.op.changed_file().is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// Compares a file with the time of the point reached, where no record up to it tells the content: what was made or
    /// changed since was so outside the home. `is_named` says whether any record names the file that is there.
    fn compare_with_time(
        &mut self,
        node: NodeId,
        history: &mut FileHistory<'_>,
        is_named: bool,
    ) -> Result<()> {
        let last = history.last()?;
        if let Some((session, record)) = last
            && self.is_changed_since(node, (&session, &record), is_named)?
        {
            self.forget_content(node, (&session, record.seq));
        }
        Ok(())
    }
}

/// Returns whether what is older than a record is not about the file that is at a path: the record created that, moved
/// another one there, or tells its content.
fn begins_file(op: &Op, path: &WorldPath, ids: InodeNumbers) -> bool {
    match op {
        Op::Create { path: at, .. } | Op::Mknod { path: at, .. } | Op::Symlink { path: at, .. } => {
            at == path
        }
        Op::Rename { to, ids: moved, .. } | Op::Restore { to, ids: moved, .. } => {
            to == path && *moved != ids
        }
        op => op.content().is_some(),
    }
}

/// Returns the paths that a record has of a file after it, if it is about that file.
fn names_after(op: &Op, ids: InodeNumbers) -> Option<Vec<&WorldPath>> {
    match op {
        Op::Rename { to, ids: of, .. } | Op::Restore { to, ids: of, .. } if *of == ids => {
            Some(vec![to])
        }
        Op::Link {
            path,
            from,
            ids: of,
        } if *of == ids => Some(vec![path, from]),
        op => {
            let (path, of) = op.changed_file()?;
            (of == ids).then(|| vec![path])
        }
    }
}

/// Returns the paths that a record has of a file before it, if it is about that file: of a link, the new one as well. Of
/// one that it moves to the trash it tells one name, and the file may have had more.
fn names_before(op: &Op, ids: InodeNumbers) -> Option<Vec<&WorldPath>> {
    if let Some(removed) = op.trashed().filter(|removed| removed.ids == ids) {
        return Some(vec![removed.path]);
    }
    match op {
        Op::Rename { path, ids: of, .. } if *of == ids => Some(vec![path]),
        Op::Restore { .. } => None,
        Op::Truncate { path, ids: of, .. } | Op::Content { path, ids: of, .. } if *of == ids => {
            Some(vec![path])
        }
        op => names_after(op, ids),
    }
}
