//! The list of hard links in the trash after a crash: the last moves may lack their lines.
//!
//! A line is written after the move that it counts. The trash is searched only if one of the last records moved a file
//! with several names.

use std::collections::HashMap;

use crate::error::Result;
use crate::journal::{InodeNumbers, Op, Record};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::located::stat;
use crate::world::root::Root;
use crate::world::store::layout::TRASH;
use crate::world::store::state::StateDir;
use crate::world::walk::walk;
use trumanfs_types::meta::Id;

/// Counts the links in the trash anew, of the files on the list and of those that the last records moved.
///
/// # Errors
/// Any error from reading the trash.
pub(in crate::world) fn recount_links(
    root: &Root,
    state: &StateDir,
    window: &[Record],
) -> Result<()> {
    let listed = state.all_trashed_links();
    let mut found: HashMap<Id, u32> = listed.keys().map(|id| (*id, 0)).collect();
    let mut is_doubtful = false;
    for record in window {
        is_doubtful |= !listed.is_empty() && matches!(record.op, Op::Restore { .. });
        if let Some(id) = trashed_inode(&record.op).map_or(Ok(None), |of| has_links(root, of))? {
            is_doubtful = true;
            found.entry(id).or_default();
        }
    }
    if !is_doubtful {
        return Ok(());
    }
    walk(root, &WorldPath::parse(TRASH)?, |step| {
        if let Some(count) = found.get_mut(&step.id) {
            *count += 1;
        }
        Ok(true)
    })?;
    for (id, count) in found {
        let known = listed.get(&id).copied().unwrap_or(0);
        for _ in known..count {
            state.count_link(id, true);
        }
        for _ in count..known {
            state.count_link(id, false);
        }
    }
    Ok(())
}

/// Returns the inode that a record moved to the trash, and its entry.
fn trashed_inode(op: &Op) -> Option<(InodeNumbers, &EscapedBytes)> {
    match op {
        Op::Unlink { ids, trash, .. } => Some((*ids, trash)),
        Op::Rename { replaced, .. } | Op::Restore { replaced, .. } => replaced
            .as_ref()
            .map(|replaced| (replaced.ids, &replaced.trash)),
        _ => None,
    }
}

/// Returns the file of an entry of the trash if it has other names.
fn has_links(root: &Root, (ids, entry): (InodeNumbers, &EscapedBytes)) -> Result<Option<Id>> {
    let path = WorldPath::parse(TRASH)?.join(Name::new(&entry.0)?);
    let there = stat(root, &path)?;
    Ok(there
        .filter(|meta| meta.id == Id(ids[0], ids[1]) && !meta.is_dir() && meta.nlink > 1)
        .map(|meta| meta.id))
}
