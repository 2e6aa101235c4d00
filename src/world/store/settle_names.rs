//! The present place of a name in a record, determined from the records around it, to find out whether the record's act
//! was done.
//!
//! Records name a directory by its inode as well. A path alone can be that of a moment before: a directory above moves
//! while something is made in it, and the record of the move comes first.

use crate::error::{Error, Result};
use crate::journal::{Op, Record};
use crate::name::WorldPath;
use crate::world::root::Root;
use crate::world::store::moved_paths::{moved_paths, path_after_move};

/// The records before and after one, without those whose acts were not done.
pub(in crate::world) struct SurroundingRecords<'r> {
    pub(in crate::world) before: Vec<&'r Record>,
    pub(in crate::world) later: Vec<&'r Record>,
}

impl SurroundingRecords<'_> {
    /// Returns the present path of a name in a directory; `None` if a later act concerned the same name, so that the
    /// one before had ended, or if the directory is not found.
    pub(in crate::world) fn find(
        &self,
        root: &Root,
        path: &WorldPath,
        dir: Option<u64>,
    ) -> Result<Option<WorldPath>> {
        let is_same = |(other, number): (&WorldPath, Option<u64>)| {
            number.is_some() && number == dir && other.name() == path.name()
        };
        if self
            .later
            .iter()
            .any(|record| named_slots(record).any(is_same))
        {
            return Ok(None);
        }
        let Some(now) = follow(path, &self.later) else {
            return Ok(None);
        };
        if holds(root, &now, dir)? {
            return Ok(Some(now));
        }
        // The directory had moved when its path was recorded.
        for now in self.moved_places(path) {
            if holds(root, &now, dir)? {
                return Ok(Some(now));
            }
        }
        Ok(None)
    }

    /// Returns the possible present places of a path that was outdated when it was recorded, the likeliest first.
    pub(in crate::world) fn moved_places(&self, path: &WorldPath) -> Vec<WorldPath> {
        let before: Vec<&Record> = self.before.iter().rev().copied().collect();
        let moved = moved_paths(path, &before);
        let now = moved.iter().filter_map(|path| follow(path, &self.later));
        now.collect()
    }
}

/// Iterates over the names that a record gives or takes, each with the inode number of its directory.
fn named_slots(record: &Record) -> impl Iterator<Item = (&WorldPath, Option<u64>)> {
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

/// Returns the path of a name after later acts, which may have moved a directory above it; `None` if one of them
/// concerned this name, or removed or replaced a directory above it.
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
        at = path_after_move(&at, op).unwrap_or(at);
    }
    Some(at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn renamed(from: &str, to: &str) -> Record {
        let line = format!(
            r#"{{"v":1,"seq":1,"time":"","op":"rename","path":"{from}","to":"{to}","ids":[0,1],"prev":""}}"#
        );
        serde_json::from_str(&line).unwrap()
    }

    /// A directory was about to move when a file in it was emptied: the record of the move came first. After a kill the
    /// emptying counted as not done.
    #[test]
    fn outdated_path_is_followed_through_the_moves_around_its_record() {
        let before = [
            renamed("/z", "/y"),
            renamed("/a", "/z/a"),
            renamed("/z", "/b"),
        ];
        let later = [renamed("/b/a", "/c")];
        let around = SurroundingRecords {
            before: before.iter().collect(),
            later: later.iter().collect(),
        };
        let path = |text: &str| WorldPath::parse(text.as_bytes()).unwrap();
        assert_eq!(around.moved_places(&path("/a/d/f")), [path("/c/d/f")]);
        assert_eq!(around.moved_places(&path("/f")), []);
    }
}
