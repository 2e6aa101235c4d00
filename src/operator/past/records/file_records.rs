//! The records about a file up to a point, and the stamps after them: they tell whether the file is still as
//! the home left it, although no record since the point names it.

use std::sync::Arc;

use crate::error::Result;
use crate::journal::{InodeNumbers, LeftState, Op, Record, RecordRef};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::records::reverse_records::ReverseRecords;
use crate::operator::point::Point;

/// A record about a file.
pub(in crate::operator::past) struct FileRecord {
    pub(in crate::operator::past) session: Arc<str>,
    pub(in crate::operator::past) record: Record,
    /// True if it has the file's inode, and not the path alone.
    pub(in crate::operator::past) names_it: bool,
    /// The path at which the file, or another one that was there, was after it.
    pub(in crate::operator::past) path: WorldPath,
    /// True if it moved a directory above the file.
    pub(in crate::operator::past) moved_above: bool,
    /// The stamps that were left since the record returned before.
    pub(in crate::operator::past) stamps: Vec<(Arc<str>, LeftState)>,
}

/// The records about a file up to a point, the newest first: those that name its inode, and until one of them moved
/// it, those that made, changed or took away a file at its path, or moved a directory above it.
pub(in crate::operator::past) struct FileRecords<'a> {
    records: ReverseRecords<'a>,
    path: WorldPath,
    ids: InodeNumbers,
    point: Point,
    was_moved: bool,
}

impl<'a> FileRecords<'a> {
    /// Starts at a point.
    ///
    /// # Errors
    /// Those of listing the sessions.
    pub(in crate::operator::past) fn new(
        store: &'a Store,
        (path, ids): (&WorldPath, InodeNumbers),
        point: &Point,
    ) -> Result<FileRecords<'a>> {
        Ok(FileRecords {
            records: ReverseRecords::open_unchecked(store)?.with_stamps(),
            path: path.clone(),
            ids,
            point: point.clone(),
            was_moved: false,
        })
    }

    /// Returns the next older record.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn next(&mut self) -> Result<Option<FileRecord>> {
        let mut stamps = Vec::new();
        while let Some((session, record)) = self.next_candidate()? {
            stamps.splice(0..0, self.records.take_stamps());
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
            return Ok(Some(FileRecord {
                session,
                record,
                names_it,
                path,
                moved_above,
                stamps,
            }));
        }
        Ok(None)
    }

    /// Returns the oldest record after a point that names a file's inode and is wanted.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn first_after(
        store: &Store,
        ids: InodeNumbers,
        point: &Point,
        wanted: impl Fn(&Op) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        let mut records = ReverseRecords::open_unchecked(store)?;
        let mut first = None;
        while let Some((session, record)) = records.next_where_in(|session, header| {
            let mut names = point.includes(session, header.seq);
            let read = header.refs(|word| {
                names |= matches!(word, RecordRef::Inode(number) if number == ids[1]);
            });
            names || read.is_err()
        })? {
            if point.includes(&session, record.seq) {
                break;
            }
            if wanted(&record.op) {
                first = Some((session, record));
            }
        }
        Ok(first)
    }

    fn next_candidate(&mut self) -> Result<Option<(Arc<str>, Record)>> {
        // Its own name, and those of the directories above.
        let on_path = |changed: &[u8]| self.path.components().any(|name| name.bytes() == changed);
        let (point, inode) = (&self.point, self.ids[1]);
        self.records.next_where_in(|session, header| {
            let mut names = false;
            let read = header.refs(|word| match word {
                RecordRef::Changed(changed) => names |= on_path(changed),
                RecordRef::Inode(number) => names |= number == inode,
                RecordRef::Through(_) => {}
            });
            point.includes(session, header.seq) && (names || read.is_err())
        })
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
