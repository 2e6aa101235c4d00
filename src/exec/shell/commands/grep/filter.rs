//! Which files and directories `grep` searches: `--include`, `--exclude`, `--exclude-dir`, by GNU's rules.
//!
//! What was found in a directory is known by its name alone. What was typed is held against a pattern as a whole and from
//! each of its components on.

use crate::exec::shell::pattern::Pattern;

/// The patterns.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// In the order given, and whether each includes.
    files: Vec<(Pattern, bool)>,
    directories: Vec<Pattern>,
}

impl Filter {
    /// Adds a pattern of files that are to be searched, or not.
    pub(super) fn files(&mut self, pattern: &[u8], include: bool) {
        self.files.push((Pattern::new(pattern), include));
    }

    /// Adds a pattern of directories that are not to be searched.
    pub(super) fn directories(&mut self, pattern: &[u8]) {
        let end = pattern
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(1, |at| at + 1);
        let pattern = pattern.get(..end).unwrap_or(pattern);
        self.directories.push(Pattern::new(pattern));
    }

    /// Returns whether a file that was found is searched.
    pub(super) fn takes_found(&self, name: &[u8]) -> bool {
        self.takes(|pattern| pattern.matches(name))
    }

    /// Returns whether a file that was typed is searched.
    pub(super) fn takes_typed(&self, typed: &[u8]) -> bool {
        self.takes(|pattern| somewhere(pattern, typed))
    }

    /// Returns whether a directory that was found is searched.
    pub(super) fn enters_found(&self, name: &[u8]) -> bool {
        !self.directories.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether a directory that was typed is searched.
    pub(super) fn enters_typed(&self, typed: &[u8]) -> bool {
        !self
            .directories
            .iter()
            .any(|pattern| somewhere(pattern, typed))
    }

    /// The last pattern that matches decides; where none does, the first one's opposite.
    fn takes(&self, matches: impl Fn(&Pattern) -> bool) -> bool {
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

fn somewhere(pattern: &Pattern, typed: &[u8]) -> bool {
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
