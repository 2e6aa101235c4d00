//! Differences that are counted and not listed: those in `.git`, and those of files that git ignores.
//!
//! What is flagged is never among them, nor what moved from one group to another or out of one.

use std::collections::BTreeMap;

use super::Diff;
use super::git_ignore::GitIgnoreRules;
use crate::error::Result;
use crate::name::WorldPath;

/// Differences that are counted and not listed.
#[derive(Debug, Default)]
pub struct DiffFolds {
    /// True at the places of these differences.
    folded: Vec<bool>,
    /// By git directory.
    git: BTreeMap<WorldPath, FoldCount>,
    ignored: FoldCount,
}

/// The numbers of counted differences.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FoldCount {
    /// Those of anything but directories.
    pub files: u64,
    /// Those of directories.
    pub directories: u64,
}

impl FoldCount {
    fn add(&mut self, is_dir: bool) {
        match is_dir {
            true => self.directories += 1,
            false => self.files += 1,
        }
    }

    /// Returns whether nothing was counted.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == FoldCount::default()
    }
}

impl DiffFolds {
    /// Returns whether the difference at this place is counted and not listed.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        self.folded.get(number).copied().unwrap_or(false)
    }

    /// Returns the number of differences that are counted and not listed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.folded.iter().filter(|is_folded| **is_folded).count()
    }

    /// Returns whether all are listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the git directories with such differences.
    pub fn git_directories(&self) -> impl Iterator<Item = (&WorldPath, FoldCount)> {
        self.git.iter().map(|(path, count)| (path, *count))
    }

    /// Returns how many are ignored by git.
    #[must_use]
    pub fn ignored(&self) -> FoldCount {
        self.ignored
    }
}

/// Where a difference is counted.
#[derive(PartialEq, Eq)]
enum FoldPlace {
    Git(WorldPath),
    Ignored,
}

impl Diff<'_> {
    /// Finds the differences that need not be listed one by one. Where `below`, the path that was asked for, is such a
    /// place itself, there are none.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn folds(&self, below: &WorldPath) -> Result<DiffFolds> {
        // By the rules of before: an occupant who writes others hides nothing.
        let mut rules = GitIgnoreRules::read(&self.before)?;
        let mut place = |path: &WorldPath, is_dir: bool| {
            Ok(match git_directory(path) {
                Some(directory) => Some(FoldPlace::Git(directory)),
                None => rules.ignores(path, is_dir)?.then_some(FoldPlace::Ignored),
            })
        };
        let mut folds = DiffFolds::default();
        if !below.is_root() && place(below, true)?.is_some() {
            return Ok(folds);
        }
        let flags = self.flags()?;
        folds.folded.reserve(self.len());
        for number in 0..self.len() {
            let is_dir = match self.nth_nodes(number) {
                [_, Some(node)] => self.after.kind(node).is_dir(),
                [Some(node), None] => self.before.kind(node).is_dir(),
                [None, None] => false,
            };
            let mut found = None;
            if let Some((from, path)) = self
                .nth_names(number)
                .filter(|_| !flags.contains_key(&number))
            {
                found = place(&path, is_dir)?;
                if let Some(from) = from
                    && place(&from, is_dir)? != found
                {
                    found = None;
                }
            }
            folds.folded.push(found.is_some());
            match found {
                Some(FoldPlace::Git(directory)) => {
                    folds.git.entry(directory).or_default().add(is_dir)
                }
                Some(FoldPlace::Ignored) => folds.ignored.add(is_dir),
                None => {}
            }
        }
        Ok(folds)
    }
}

/// Returns the outermost directory `.git` on a path.
fn git_directory(path: &WorldPath) -> Option<WorldPath> {
    let mut directory = WorldPath::root();
    for name in path.components() {
        directory.push(name);
        if name.bytes() == b".git" {
            return Some(directory);
        }
    }
    None
}
