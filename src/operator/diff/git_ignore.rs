//! The files that git ignores in a tree.
//!
//! Owns the rules: `.gitignore` in each directory and `.git/info/exclude`, as a tree has them, and the index, because git
//! ignores nothing that it tracks. The excludes of git's user are not read.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::NodeBytes;
use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::past::PastTree;
use crate::world::git_index::tracked_files;
use crate::world::store::layout::GIT_IGNORE;

/// The largest file of patterns that is read.
const MAX_PATTERN_BYTES: u64 = 1 << 18;
/// The number of patterns that are read, of all files together: an occupant may have written them.
const MAX_PATTERNS: usize = 4_000;
/// The largest index that is read, of some 150,000 files.
const MAX_INDEX_BYTES: u64 = 16 << 20;
/// The number of directories in which patterns are looked for: those of more directories cost more than they are worth.
const MAX_PATTERN_DIRS: usize = 2_000;

/// The patterns that hold in a directory.
#[derive(Debug, Clone, Default)]
struct IgnorePatterns {
    /// True if git ignores the directory: nothing in it is looked at.
    is_ignored: bool,
    /// The patterns from the outside to the inside, each with the length of the path of its directory.
    patterns: Vec<(usize, Rc<Gitignore>)>,
}

/// The rules of a tree for what git ignores.
#[derive(Debug)]
pub(in crate::operator) struct GitIgnoreRules<'t, 'a> {
    tree: &'t PastTree<'a>,
    /// By the path of the directory.
    dirs: HashMap<Vec<u8>, IgnorePatterns>,
    /// The tracked files; `None` where there is an index that cannot be read.
    tracked: OnceCell<Option<HashSet<Vec<u8>>>>,
    patterns_left: usize,
}

impl<'t, 'a> GitIgnoreRules<'t, 'a> {
    /// Reads the rules that hold everywhere.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(in crate::operator) fn read(tree: &'t PastTree<'a>) -> Result<GitIgnoreRules<'t, 'a>> {
        let mut rules = GitIgnoreRules {
            tree,
            dirs: HashMap::new(),
            tracked: OnceCell::new(),
            patterns_left: MAX_PATTERNS,
        };
        let mut top = IgnorePatterns::default();
        top.patterns
            .extend(rules.patterns_at(b".git/info/exclude", 0)?);
        top.patterns
            .extend(rules.patterns_at(GIT_IGNORE.as_bytes(), 0)?);
        rules.dirs.insert(Vec::new(), top);
        Ok(rules)
    }

    /// Returns whether git ignores a path. What it tracks, it does not.
    pub(in crate::operator) fn ignores(&mut self, path: &WorldPath, is_dir: bool) -> Result<bool> {
        let path = path.bytes();
        let above = memchr::memrchr(b'/', path).unwrap_or(0);
        let dir = path.get(..above).unwrap_or_default();
        self.read_dir(dir)?;
        let rules = self.dirs.get(dir);
        let is_ignored = rules.is_some_and(|rules| rules.ignores(path, is_dir));
        if !is_ignored {
            return Ok(false);
        }
        let tracked = self.tracked()?;
        Ok(tracked.is_some_and(|tracked| !tracked.contains(path)))
    }

    /// Reads the patterns that hold in a directory.
    fn read_dir(&mut self, dir: &[u8]) -> Result<()> {
        if self.dirs.contains_key(dir) {
            return Ok(());
        }
        let mut rules = self.dirs.get(&b""[..]).cloned().unwrap_or_default();
        for end in memchr::memchr_iter(b'/', dir).chain([dir.len()]) {
            let at = dir.get(..end).unwrap_or_default();
            if let Some(known) = self.dirs.get(at) {
                rules = known.clone();
                continue;
            }
            if rules.ignores(at, true) {
                rules = IgnorePatterns {
                    is_ignored: true,
                    patterns: Vec::new(),
                };
            } else if self.dirs.len() < MAX_PATTERN_DIRS {
                let file = [at, b"/", GIT_IGNORE.as_bytes()].concat();
                rules.patterns.extend(self.patterns_at(&file, end + 1)?);
            }
            self.dirs.insert(at.to_owned(), rules.clone());
        }
        Ok(())
    }

    /// Reads a file of patterns, for paths of which so many bytes are those of its directory.
    fn patterns_at(&mut self, file: &[u8], start: usize) -> Result<Option<(usize, Rc<Gitignore>)>> {
        let Ok(file) = WorldPath::parse(file) else {
            return Ok(None);
        };
        let text = NodeBytes::read_small(self.tree, &file, MAX_PATTERN_BYTES)?;
        if text.is_empty() {
            return Ok(None);
        }
        let mut builder = GitignoreBuilder::new("");
        let text = String::from_utf8_lossy(&text);
        for line in text.lines().take(self.patterns_left) {
            // A pattern that cannot be read matches nothing, as in git.
            let _ = builder.add_line(None, line);
        }
        let count = text.lines().count();
        self.patterns_left = self.patterns_left.saturating_sub(count);
        Ok(builder
            .build()
            .ok()
            .map(|patterns| (start, Rc::new(patterns))))
    }

    fn tracked(&self) -> Result<Option<&HashSet<Vec<u8>>>> {
        if self.tracked.get().is_none() {
            let path = WorldPath::parse(b".git/index")?;
            let index = NodeBytes::read_small(self.tree, &path, MAX_INDEX_BYTES)?;
            let files = match index.is_empty() {
                true => self.tree.resolve(&path)?.is_none().then(Vec::new),
                false => tracked_files(&index),
            };
            let files = files.map(|files| files.into_iter().map(|(path, _)| path).collect());
            let _ = self.tracked.set(files);
        }
        Ok(self.tracked.get().and_then(Option::as_ref))
    }
}

impl IgnorePatterns {
    fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        self.is_ignored
            || self.patterns.iter().rev().find_map(|(start, patterns)| {
                let below = path.get(*start..).unwrap_or_default();
                match patterns.matched(Path::new(OsStr::from_bytes(below)), is_dir) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                }
            }) == Some(true)
    }
}
