//! Where a name of a record is now, as the records around it tell: for finding out whether the record's act was done.
//!
//! Records name a directory by its inode as well. A path alone can be that of a moment before: a directory above moves
//! while something is made in it, and the record of the move comes first.

use super::root::Root;
use crate::error::{Error, Result};
use crate::journal::{Op, Record};
use crate::name::WorldPath;

/// The records before and after one, without those whose acts were not done.
pub(super) struct Around<'r> {
    pub(super) before: Vec<&'r Record>,
    pub(super) later: Vec<&'r Record>,
}

impl Around<'_> {
    /// Returns where a name in a directory is now; `None` where a later act was about the same name, so that the one
    /// before had ended, or where the directory is not found.
    pub(super) fn find(
        &self,
        root: &Root,
        path: &WorldPath,
        dir: Option<u64>,
    ) -> Result<Option<WorldPath>> {
        let is_same = |(other, number): (&WorldPath, Option<u64>)| {
            number.is_some() && number == dir && other.name() == path.name()
        };
        if self.later.iter().any(|record| slots(record).any(is_same)) {
            return Ok(None);
        }
        let Some(now) = follow(path, &self.later) else {
            return Ok(None);
        };
        if holds(root, &now, dir)? {
            return Ok(Some(now));
        }
        // The directory had moved when its path was recorded.
        for (index, record) in self.before.iter().enumerate().rev() {
            let Some(moved) = carry(path, &record.op) else {
                continue;
            };
            let after: Vec<&Record> = self.before.iter().skip(index + 1).copied().collect();
            let now = follow(&moved, &after).and_then(|path| follow(&path, &self.later));
            if let Some(now) = now
                && holds(root, &now, dir)?
            {
                return Ok(Some(now));
            }
        }
        Ok(None)
    }
}

/// Iterates over the names that a record gives or takes, each with the inode number of its directory.
fn slots(record: &Record) -> impl Iterator<Item = (&WorldPath, Option<u64>)> {
    let numbers = record.at.iter().map(|at| Some(at.2));
    record.op.changed_dirs().zip(numbers)
}

/// Returns whether the directory of a path is there, and has this inode number if one is known.
fn holds(root: &Root, path: &WorldPath, dir: Option<u64>) -> Result<bool> {
    let (Some(number), Some(parent)) = (dir, path.parent()) else {
        return Ok(true);
    };
    match root.dir(&parent) {
        Ok(dir) => Ok(dir.id().1 == number),
        Err(Error::NotFound | Error::NotDirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns where a name is after later acts, which may have moved a directory above it; `None` where one of them was
/// about this name, or removed or replaced a directory above it.
fn follow(path: &WorldPath, later: &[&Record]) -> Option<WorldPath> {
    let mut at = path.clone();
    for record in later {
        let op = &record.op;
        let ends = match op {
            Op::Truncate { path, new, .. } | Op::Content { path, new, .. } => {
                new.is_some() && *path == at
            }
            Op::Unlink { path, .. } | Op::Rmdir { path, .. } => path.contains(&at),
            Op::Rename { path, to, .. } | Op::Restore { path, to, .. } => {
                *path == at || to.contains(&at)
            }
            op => op.changed_dirs().any(|path| *path == at),
        };
        if ends {
            return None;
        }
        at = carry(&at, op).unwrap_or(at);
    }
    Some(at)
}

/// Returns where an act moved a name along with a directory above it.
fn carry(at: &WorldPath, op: &Op) -> Option<WorldPath> {
    match op {
        Op::Rename { path, to, .. } | Op::Restore { path, to, .. } => at.moved(path, to),
        Op::Exchange { path, to, .. } => at.moved(path, to).or_else(|| at.moved(to, path)),
        _ => None,
    }
}
