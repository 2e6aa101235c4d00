//! The things that an undo does not bring back because they were volatile: removals that were deleted for good, and contents that
//! were never kept. These are no conflicts; they are counted by directory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::journal::{Op, Record, VolatileLoss};
use crate::name::WorldPath;
use crate::operator::past::RecordId;
use crate::operator::past::tree::layer::ContentLayer;

/// The volatile things that the records tell of as gone, and those of them that an undo would need.
#[derive(Debug, Default)]
pub(super) struct VolatileGone {
    purges: HashMap<RecordId, Vec<WorldPath>>,
    versions: HashSet<(String, u64)>,
    dirs: HashSet<WorldPath>,
    missed: BTreeMap<WorldPath, u64>,
}

impl VolatileGone {
    /// Notes a record.
    pub(super) fn note(&mut self, session: &Arc<str>, record: &Record) {
        let dirs_of = |losses: &[VolatileLoss]| -> Vec<WorldPath> {
            losses.iter().map(|loss| loss.dir.clone()).collect()
        };
        match &record.op {
            Op::Purge { volatile, .. } if !volatile.is_empty() => {
                let of = (session.clone(), record.seq);
                self.purges.insert(of, dirs_of(volatile));
            }
            Op::Evict { versions, volatile } if !volatile.is_empty() => {
                self.versions.extend(versions.iter().cloned());
                self.dirs.extend(dirs_of(volatile));
            }
            _ => {}
        }
    }

    /// Counts a node that a purge deleted, if it was volatile. Returns whether it was.
    pub(super) fn count_purged(&mut self, by: Option<&RecordId>, path: Option<WorldPath>) -> bool {
        let Some(dirs) = by.and_then(|by| self.purges.get(by)) else {
            return false;
        };
        let path = path.unwrap_or_default();
        let dir = dirs.iter().find(|dir| dir.contains(&path)).cloned();
        *self.missed.entry(dir.unwrap_or(path)).or_default() += 1;
        true
    }

    /// Counts a content that cannot be read, if it was volatile or lies over one that was. Returns whether it was.
    pub(super) fn count_content(&mut self, layer: &ContentLayer, path: Option<WorldPath>) -> bool {
        let mut at = Some(layer);
        let is_gone = |layer: &ContentLayer| {
            let version = layer.kind.version();
            version.is_some_and(|(session, n)| self.versions.contains(&(session.to_string(), n)))
        };
        while let Some(layer) = at {
            if is_gone(layer) {
                let path = path.unwrap_or_default();
                let dir = self.dirs.iter().find(|dir| dir.contains(&path)).cloned();
                *self.missed.entry(dir.unwrap_or(path)).or_default() += 1;
                return true;
            }
            at = layer.below.as_deref();
        }
        false
    }

    /// Returns the number of things that stay away, by directory.
    pub(super) fn missed(self) -> Vec<(WorldPath, u64)> {
        self.missed.into_iter().collect()
    }
}
