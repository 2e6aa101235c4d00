//! Which operations concern a path.
//!
//! One that names it, as it was called then, or something below it; a rename concerns both of its paths. What removed a directory
//! above it is taken back along with it, or it would have no place; what else that directory held stays in the trash.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::journal::Op;
use crate::name::WorldPath;
use crate::operator::filter::Paths;

/// Patterns, and what was met that removed directories.
#[derive(Default)]
pub(super) struct Asked {
    patterns: Vec<Paths>,
    /// By path: the numbers of the removals met on the way back, until something below is taken back.
    removed: BTreeMap<WorldPath, Vec<u64>>,
}

impl Asked {
    /// Understands patterns as `log --path` does.
    ///
    /// # Errors
    /// As [`Paths::parse`].
    pub(super) fn new(patterns: &[String]) -> Result<Asked> {
        let parsed: Result<_> = patterns.iter().map(|text| Paths::parse(text)).collect();
        Ok(Asked {
            patterns: parsed?,
            removed: BTreeMap::new(),
        })
    }

    /// Returns whether an operation is meant: all are, where no patterns were given.
    pub(super) fn concerns(&self, op: &Op) -> bool {
        self.patterns.is_empty() || op.paths().any(|path| self.fits(path))
    }

    fn fits(&self, path: &WorldPath) -> bool {
        let text = path.to_string();
        self.patterns.iter().any(|pattern| pattern.fits(&text))
    }

    /// Notes a removal of a directory that is not meant itself.
    pub(super) fn note_removal(&mut self, op: &Op, numbers: &[u64]) {
        if let (Op::Rmdir { path, .. }, false) = (op, self.patterns.is_empty()) {
            let noted = self.removed.entry(path.clone()).or_default();
            noted.extend(numbers);
        }
    }

    /// Returns the removals of the directories above what an operation that is meant concerns.
    pub(super) fn above(&mut self, op: &Op) -> Vec<u64> {
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

    /// Forgets them, at the end of a session: their numbers are its own.
    pub(super) fn next_session(&mut self) {
        self.removed.clear();
    }
}
