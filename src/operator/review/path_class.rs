//! The class of a changed path: by hand, git's own, ignored by git, or written by a tool.
//!
//! Owns which paths of a long list are of less interest; the class decides nothing else. The rules for what git ignores
//! are those of before the changes under review, so that nothing reviewed hides itself. The excludes of git's user are
//! not read.

use super::list::Review;
use crate::error::Result;
use crate::name::Name;
use crate::operator::diff::GitIgnoreRules;

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
        let mut rules = GitIgnoreRules::read(before)?;
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
