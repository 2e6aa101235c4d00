//! The class of a changed path: by hand, git's own, ignored by git, or written by a tool.
//!
//! Owns which paths of a long list are of less interest; the class decides nothing else. The rules for what git ignores
//! are those of before the changes under review, so that nothing reviewed hides itself. The excludes of git's user are
//! not read.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::list::Review;
use crate::error::Result;
use crate::name::{Name, WorldPath};
use crate::operator::diff::NodeBytes;
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

/// The names of files that package managers write.
const LOCK_FILES: [&str; 20] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "packages.lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];
/// The ends of names of files that compilers, bundlers and generators write.
const GENERATED_ENDS: [&str; 9] = [
    ".d.ts.map",
    ".js.map",
    ".css.map",
    ".min.css",
    ".min.js",
    ".pb.go",
    ".pyc",
    "_pb2.py",
    "_pb2_grpc.py",
];

/// The class of a changed path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PathClass {
    /// A path like any other.
    #[default]
    Ordinary,
    /// In a directory `.git`.
    Git,
    /// Ignored by git, by the patterns of before the changes.
    Ignored,
    /// A lock file, or a file that its name says to be generated.
    Generated,
}

impl Review<'_> {
    /// Returns the class of each path, in the order of the review.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn classes(&self) -> Result<Vec<PathClass>> {
        let Some(diff) = self.diff() else {
            return Ok(Vec::new());
        };
        let (before, after) = diff.trees();
        let mut rules = IgnoreRules::read(before)?;
        let mut classes = Vec::with_capacity(self.len());
        for number in 0..self.len() {
            let Some((_, path)) = self.path(number) else {
                classes.push(PathClass::Ordinary);
                continue;
            };
            let is_dir = match self.nodes(number) {
                [_, Some(node)] => after.kind(node).is_dir(),
                [Some(node), None] => before.kind(node).is_dir(),
                [None, None] => false,
            };
            classes.push(if path.components().any(|name| name.bytes() == b".git") {
                PathClass::Git
            } else if rules.ignores(&path, is_dir)? {
                PathClass::Ignored
            } else if path.name().is_some_and(is_generated) {
                PathClass::Generated
            } else {
                PathClass::Ordinary
            });
        }
        Ok(classes)
    }
}

fn is_generated(name: Name<'_>) -> bool {
    let name = name.bytes();
    let is_end = |end: &&str| name.ends_with(end.as_bytes()) && name.len() > end.len();
    LOCK_FILES.iter().any(|lock| name == lock.as_bytes()) || GENERATED_ENDS.iter().any(is_end)
}

/// The patterns that hold in a directory.
#[derive(Debug, Clone, Default)]
struct DirRules {
    /// True if git ignores the directory: nothing in it is looked at.
    is_ignored: bool,
    /// The patterns from the outside to the inside, each with the length of the path of its directory.
    patterns: Vec<(usize, Rc<Gitignore>)>,
}

/// The rules of a tree for what git ignores.
struct IgnoreRules<'t, 'a> {
    tree: &'t PastTree<'a>,
    /// By the path of the directory.
    dirs: HashMap<Vec<u8>, DirRules>,
    tracked: OnceCell<HashSet<Vec<u8>>>,
    patterns_left: usize,
}

impl<'t, 'a> IgnoreRules<'t, 'a> {
    fn read(tree: &'t PastTree<'a>) -> Result<IgnoreRules<'t, 'a>> {
        let mut rules = IgnoreRules {
            tree,
            dirs: HashMap::new(),
            tracked: OnceCell::new(),
            patterns_left: MAX_PATTERNS,
        };
        let mut top = DirRules::default();
        top.patterns
            .extend(rules.patterns_at(b".git/info/exclude", 0)?);
        top.patterns
            .extend(rules.patterns_at(GIT_IGNORE.as_bytes(), 0)?);
        rules.dirs.insert(Vec::new(), top);
        Ok(rules)
    }

    /// Returns whether git ignores a path. What it tracks, it does not.
    fn ignores(&mut self, path: &WorldPath, is_dir: bool) -> Result<bool> {
        let path = path.bytes();
        let above = memchr::memrchr(b'/', path).unwrap_or(0);
        let dir = path.get(..above).unwrap_or_default();
        self.read_dir(dir)?;
        let rules = self.dirs.get(dir);
        let is_ignored = rules.is_some_and(|rules| rules.ignores(path, is_dir));
        Ok(is_ignored && !self.tracked()?.contains(path))
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
                rules = DirRules {
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

    fn tracked(&self) -> Result<&HashSet<Vec<u8>>> {
        if self.tracked.get().is_none() {
            let index = WorldPath::parse(b".git/index")?;
            let index = NodeBytes::read_small(self.tree, &index, MAX_INDEX_BYTES)?;
            let files = tracked_files(&index).unwrap_or_default().into_iter();
            let _ = self.tracked.set(files.map(|(path, _)| path).collect());
        }
        Ok(self.tracked.get_or_init(HashSet::new))
    }
}

impl DirRules {
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
