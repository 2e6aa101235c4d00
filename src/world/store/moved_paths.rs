//! The places to which earlier records moved a path: the record of a change in a file has the path that the file was
//! opened by, and a directory above may have moved in between, under a record of its own.

use crate::journal::{Op, Record};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::store::layout::TRASH;
use crate::world::trash::trash_entries::parse_entry;

/// Returns the paths that a path may have become by the records before one, of which the newest comes first: the
/// likeliest first.
pub fn moved_paths(path: &WorldPath, before: &[&Record]) -> Vec<WorldPath> {
    let mut moved = Vec::new();
    for (index, record) in before.iter().enumerate() {
        let Some(mut at) = path_after_move(path, &record.op) else {
            continue;
        };
        for later in before.iter().take(index).rev() {
            at = path_after_move(&at, &later.op).unwrap_or(at);
        }
        moved.push(at);
    }
    moved
}

/// Returns where an act moved a path, alone or along with a directory above it; the trash is a place like any other.
pub(in crate::world) fn path_after_move(at: &WorldPath, op: &Op) -> Option<WorldPath> {
    let whole = |from: &WorldPath, to: &WorldPath| {
        if at == from {
            Some(to.clone())
        } else {
            at.moved(from, to)
        }
    };
    match op {
        Op::Rename {
            path, to, replaced, ..
        }
        | Op::Restore {
            path, to, replaced, ..
        } => whole(path, to).or_else(|| whole(to, &entry_path(&replaced.as_ref()?.trash)?)),
        Op::Exchange { path, to, .. } => whole(path, to).or_else(|| whole(to, path)),
        Op::Unlink { path, trash, .. } | Op::Rmdir { path, trash, .. } => {
            whole(path, &entry_path(trash)?)
        }
        Op::Gather {
            trash,
            entries,
            names,
            ..
        } => entries.iter().find_map(|entry| {
            let known = names.iter().find(|(of, _)| of == entry);
            let name = match known {
                Some((_, name)) => &name.0,
                None => parse_entry(&entry.0)?.1,
            };
            let to = entry_path(trash)?.join(Name::new(name).ok()?);
            whole(&entry_path(entry)?, &to)
        }),
        _ => None,
    }
}

fn entry_path(entry: &EscapedBytes) -> Option<WorldPath> {
    let trash = WorldPath::parse(TRASH).ok()?;
    Some(trash.join(Name::new(&entry.0).ok()?))
}
