//! The selection of files and directories for `grep`: `--include`, `--exclude`, `--exclude-dir`, by GNU's rules.
//!
//! A file found in a directory is matched by its name alone. An operand is matched as a whole and from each of its
//! components on.

use crate::pattern::GlobPattern;

/// The patterns that select files and directories.
#[derive(Debug, Clone, Default)]
pub(super) struct FileFilter {
    /// The patterns for files in the order given, each with true if it includes.
    files: Vec<(GlobPattern, bool)>,
    directories: Vec<GlobPattern>,
}

impl FileFilter {
    /// Adds a pattern that includes or excludes files.
    pub(super) fn add_file_pattern(&mut self, pattern: &[u8], include: bool) {
        self.files.push((GlobPattern::new(pattern), include));
    }

    /// Adds a pattern that excludes directories.
    pub(super) fn add_directory_pattern(&mut self, pattern: &[u8]) {
        let end = pattern
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(1, |at| at + 1);
        let pattern = pattern.get(..end).unwrap_or(pattern);
        self.directories.push(GlobPattern::new(pattern));
    }

    /// Returns whether a file found in a directory is searched.
    pub(super) fn accepts_found(&self, name: &[u8]) -> bool {
        self.accepts(|pattern| pattern.matches(name))
    }

    /// Returns whether an operand is searched.
    pub(super) fn accepts_operand(&self, typed: &[u8]) -> bool {
        self.accepts(|pattern| matches_from_component(pattern, typed))
    }

    /// Returns whether a directory found in another is searched.
    pub(super) fn enters_found(&self, name: &[u8]) -> bool {
        !self.directories.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether an operand that is a directory is searched.
    pub(super) fn enters_operand(&self, typed: &[u8]) -> bool {
        !self
            .directories
            .iter()
            .any(|pattern| matches_from_component(pattern, typed))
    }

    /// Applies the last pattern that matches; where none does, the opposite of the first.
    fn accepts(&self, matches: impl Fn(&GlobPattern) -> bool) -> bool {
        let Some((_, first)) = self.files.first() else {
            return true;
        };
        let deciding = self
            .files
            .iter()
            .rev()
            .find(|(pattern, _)| matches(pattern));
        deciding.map_or(!first, |(_, include)| *include)
    }
}

fn matches_from_component(pattern: &GlobPattern, typed: &[u8]) -> bool {
    let mut rest = typed;
    loop {
        if pattern.matches(rest) {
            return true;
        }
        let Some(slash) = rest.iter().position(|b| *b == b'/') else {
            return false;
        };
        let after = rest.get(slash..).unwrap_or_default();
        let Some(start) = after.iter().position(|b| *b != b'/') else {
            return false;
        };
        rest = after.get(start..).unwrap_or_default();
    }
}
