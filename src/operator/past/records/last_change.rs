//! The last record that changed a file up to a point, and the stamps after it: they tell whether the file is still as
//! the home left it, although no record since the point names it.

use std::sync::Arc;

use crate::error::Result;
use crate::journal::{InodeNumbers, LeftState, Op, Record, RecordRef};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::records::reverse_records::ReverseRecords;
use crate::operator::point::Point;

/// The last change of a file up to a point.
pub(in crate::operator::past) struct LastChange {
    pub(in crate::operator::past) session: Arc<str>,
    pub(in crate::operator::past) record: Record,
    /// The stamps that were left since.
    pub(in crate::operator::past) stamps: Vec<(Arc<str>, LeftState)>,
}

/// Finds the last record up to a point that made a file or changed its content, by its path or its inode.
///
/// # Errors
/// As [`ReverseRecords::next_record`].
pub(in crate::operator::past) fn last_change(
    store: &Store,
    (path, ids): (&WorldPath, InodeNumbers),
    point: &Point,
) -> Result<Option<LastChange>> {
    let mut records = ReverseRecords::open_unchecked(store)?.with_stamps();
    let name = path.name().map(|name| name.bytes().to_vec());
    let mut stamps = Vec::new();
    while let Some((session, record)) = records.next_where_in(|session, header| {
        let mut names = false;
        let read = header.refs(|word| match word {
            RecordRef::Changed(changed) => names |= name.as_deref() == Some(changed),
            RecordRef::Inode(number) => names |= number == ids[1],
            RecordRef::Through(_) => {}
        });
        point.includes(session, header.seq) && (names || read.is_err())
    })? {
        stamps.splice(0..0, records.take_stamps());
        let changes = match &record.op {
            Op::Create { path: made, .. } | Op::Mknod { path: made, .. } => made == path,
            op => {
                op.content().is_some()
                    && op
                        .changed_file()
                        .is_some_and(|of| of.0 == path || of.1 == ids)
            }
        };
        if changes {
            return Ok(Some(LastChange {
                session,
                record,
                stamps,
            }));
        }
    }
    Ok(None)
}
