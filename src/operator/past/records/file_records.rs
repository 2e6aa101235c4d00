//! The records about a file up to a point, and the stamps after them: they tell whether the file is still as
//! the home left it, although no record since the point names it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::journal::{InodeNumbers, LeftState, Op, Record};
use crate::name::WorldPath;
use crate::operator::past::records::file_history::FileHistory;

/// A record about a file.
pub(in crate::operator::past) struct FileRecord {
    pub(in crate::operator::past) session: Arc<str>,
    pub(in crate::operator::past) record: Arc<Record>,
    /// True if it has the file's inode, and not the path alone.
    pub(in crate::operator::past) names_it: bool,
    /// The path at which the file, or another one that was there, was after it.
    pub(in crate::operator::past) path: WorldPath,
    /// True if it moved a directory above the file.
    pub(in crate::operator::past) moved_above: bool,
    /// The stamps of the file, and of others that the record names, that were left since the record returned before.
    pub(in crate::operator::past) stamps: Vec<(Arc<str>, LeftState)>,
}

/// The records about a file up to a point, the newest first: those that name its inode, and until one of them moved
/// it, those that made, changed or took away a file at its path, or moved a directory above it.
pub(in crate::operator::past) struct FileRecords {
    /// The number of records that were passed.
    passed: usize,
    path: WorldPath,
    ids: InodeNumbers,
    was_moved: bool,
    /// The number of stamps returned of each inode.
    returned: HashMap<InodeNumbers, usize>,
}

impl FileRecords {
    /// Starts at the point of a history.
    pub(in crate::operator::past) fn new((path, ids): (&WorldPath, InodeNumbers)) -> FileRecords {
        FileRecords {
            passed: 0,
            path: path.clone(),
            ids,
            was_moved: false,
            returned: HashMap::new(),
        }
    }

    /// Returns the next older record.
    ///
    /// # Errors
    /// As [`FileHistory::next_about`].
    pub(in crate::operator::past) fn next(
        &mut self,
        history: &mut FileHistory<'_>,
    ) -> Result<Option<FileRecord>> {
        loop {
            let path = (!self.was_moved).then_some(&self.path);
            let Some(at) = history.next_about(self.passed, path, self.ids)? else {
                return Ok(None);
            };
            self.passed = at + 1;
            let Some((session, record)) = history.record(at) else {
                return Ok(None);
            };
            if !history.point().includes(&session, record.seq) {
                continue;
            }
            let op = &record.op;
            let names_it = op.ids().any(|ids| *ids == self.ids)
                || op.changed_file().is_some_and(|of| of.1 == self.ids);
            let is_at_path = match op {
                Op::Create { path, .. }
                | Op::Mknod { path, .. }
                | Op::Symlink { path, .. }
                | Op::Attr { path, .. }
                | Op::Unlink { path, .. } => *path == self.path,
                Op::Rename { path, to, .. } => [path, to].contains(&&self.path),
                Op::Restore { to, .. } => *to == self.path,
                Op::Link { from, .. } => *from == self.path,
                op => {
                    op.content().is_some() && op.changed_file().is_some_and(|of| *of.0 == self.path)
                }
            };
            let before = path_before_move(&self.path, op).filter(|_| !self.was_moved);
            if !names_it && before.is_none() && (self.was_moved || !is_at_path) {
                continue;
            }
            // Attributes are changed where the file is.
            let is_here = op.changed_file().is_some_and(|of| *of.0 == self.path);
            self.was_moved |= names_it && op.content().is_none() && !is_here;
            let moved_above = before.is_some();
            let path = self.path.clone();
            self.path = before.unwrap_or_else(|| path.clone());
            let stamps = history.stamps(at, self.ids, &mut self.returned);
            return Ok(Some(FileRecord {
                session,
                record,
                names_it,
                path,
                moved_above,
                stamps,
            }));
        }
    }
}

/// Returns where a path was before a record that moved a directory above it.
fn path_before_move(path: &WorldPath, op: &Op) -> Option<WorldPath> {
    match op {
        Op::Rename { path: from, to, .. } | Op::Restore { path: from, to, .. } => {
            path.moved(to, from)
        }
        Op::Exchange { path: one, to, .. } => path.moved(to, one).or_else(|| path.moved(one, to)),
        _ => None,
    }
}
