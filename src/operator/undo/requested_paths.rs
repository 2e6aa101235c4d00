//! The selection of operations by path.
//!
//! An operation concerns a path if it names it, as it was called then, or something below it; a rename concerns both
//! of its paths. The removal of a directory above the path is taken back too, since the file would have no place
//! otherwise; the directory's other content stays in the trash.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::journal::Op;
use crate::name::WorldPath;
use crate::operator::filter::PathGlobs;

/// The patterns, and the removals of directories seen so far.
#[derive(Default)]
pub(super) struct RequestedPaths {
    patterns: Vec<PathGlobs>,
    /// Removals seen on the way back, by path, until something below is taken back: their records' numbers.
    removed: BTreeMap<WorldPath, Vec<u64>>,
}

impl RequestedPaths {
    /// Parses patterns as `log --path` does.
    ///
    /// # Errors
    /// As [`PathGlobs::parse`].
    pub(super) fn new(patterns: &[String]) -> Result<RequestedPaths> {
        let parsed: Result<_> = patterns.iter().map(|text| PathGlobs::parse(text)).collect();
        Ok(RequestedPaths {
            patterns: parsed?,
            removed: BTreeMap::new(),
        })
    }

    /// Returns whether an operation is selected: without patterns, all are.
    pub(super) fn selects(&self, op: &Op) -> bool {
        self.patterns.is_empty() || op.paths().any(|path| self.matches(path))
    }

    fn matches(&self, path: &WorldPath) -> bool {
        let text = path.to_string();
        self.patterns.iter().any(|pattern| pattern.matches(&text))
    }

    /// Notes a removal of a directory that is not itself selected.
    pub(super) fn note_removal(&mut self, op: &Op, numbers: &[u64]) {
        if let (Op::Rmdir { path, .. }, false) = (op, self.patterns.is_empty()) {
            let noted = self.removed.entry(path.clone()).or_default();
            noted.extend(numbers);
        }
    }

    /// Returns the removals of the directories above the paths of a selected operation.
    pub(super) fn removals_above(&mut self, op: &Op) -> Vec<u64> {
        if self.removed.is_empty() {
            return Vec::new();
        }
        let mut above = Vec::new();
        for path in op.paths() {
            let mut dir = path.parent();
            while let Some(at) = dir {
                above.extend(self.removed.remove(&at).into_iter().flatten());
                dir = at.parent().filter(|_| !at.is_root());
            }
        }
        above
    }

    /// Drops the removals at the end of a session: their numbers are only valid in it.
    pub(super) fn next_session(&mut self) {
        self.removed.clear();
    }
}
