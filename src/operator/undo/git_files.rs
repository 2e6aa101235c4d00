//! The files of git directories that an undo treats apart, by their paths.

use crate::name::{Name, WorldPath};
use crate::operator::Store;

/// The role of a file in a git directory (`gitrepository-layout(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GitFile {
    /// The index.
    Index,
    /// An object, a pack, or what speeds up finding them, and their directories: nothing is lost if they stay.
    Object,
    /// Files that git writes anew at will and keeps for people: reflogs, notes of the last command.
    Bookkeeping,
    /// A lock file, which has another name once it is written.
    Lock,
    /// All others: references, configuration, the state of a merge.
    Other,
}

/// Files directly in a git directory that belong to the last command.
const LAST_COMMAND: [&[u8]; 6] = [
    b"AUTO_MERGE",
    b"FETCH_HEAD",
    b"ORIG_HEAD",
    b"COMMIT_EDITMSG",
    b"gc.pid",
    b"gc.log",
];

/// First names of paths in a git directory: a submodule's name ends before them.
const LAYOUT: [&[u8]; 5] = [b"objects", b"refs", b"logs", b"index", b"HEAD"];

/// The git directories of a store: what is called `.git`, and the store itself, where it is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct GitDirs {
    store_is_one: bool,
}

impl GitDirs {
    /// Makes those of a store.
    pub(super) fn of(store: &Store) -> GitDirs {
        GitDirs {
            store_is_one: store.is_git_dir(),
        }
    }

    /// Returns the role of a file in the git directory that it lies in; `None` outside of those.
    pub(super) fn file(self, path: &WorldPath) -> Option<GitFile> {
        let parts: Vec<&[u8]> = path.components().map(Name::bytes).collect();
        match parts.iter().rposition(|part| *part == b".git") {
            Some(top) => file_in(parts.get(top + 1..)?),
            None if self.store_is_one => file_in(&parts),
            None => None,
        }
    }

    /// Returns the path of the git directory that a path lies in.
    pub(super) fn around(self, path: &WorldPath) -> Option<WorldPath> {
        let mut at = path.parent()?;
        while at.name().map(Name::bytes) != Some(b".git") {
            at = match at.parent() {
                Some(above) => above,
                None => return self.store_is_one.then_some(at),
            };
        }
        Some(at)
    }

    /// Returns what helps where a later change of a git file is in the way, as the end of a sentence.
    pub(super) fn remedy(self, path: &str) -> &'static str {
        let Ok(path) = WorldPath::parse(path.as_bytes()) else {
            return "";
        };
        match self.file(&path) {
            Some(GitFile::Index) => {
                ": what `git add` staged since is in the way; `git reset` unstages it, and `git add` stages it again after the undo"
            }
            Some(GitFile::Other)
                if path.components().any(|part| part.bytes() == b"refs")
                    || path.name().map(Name::bytes) == Some(b"HEAD") =>
            {
                ": git moved it since; `git reset` or `git switch` moves it back"
            }
            _ => "",
        }
    }
}

/// Returns the role of a file by the names of its path from the git directory on.
fn file_in(mut inner: &[&[u8]]) -> Option<GitFile> {
    match inner {
        [b"worktrees", _, rest @ ..] => inner = rest,
        [b"modules", rest @ ..] => {
            let is_layout = |part: &&[u8]| LAYOUT.contains(part) || LAST_COMMAND.contains(part);
            inner = rest.get(rest.iter().position(is_layout)?..)?;
        }
        _ => {}
    }
    Some(match inner {
        [b"index"] => GitFile::Index,
        [b"objects", ..] => object_file(inner),
        [b"logs", _, ..] => GitFile::Bookkeeping,
        [.., name] if name.ends_with(b".lock") => GitFile::Lock,
        [name] if LAST_COMMAND.contains(name) => GitFile::Bookkeeping,
        _ => GitFile::Other,
    })
}

fn object_file(inner: &[&[u8]]) -> GitFile {
    match inner {
        // Where other objects are is no cache.
        [_] | [_, b"info", b"alternates" | b"http-alternates"] => GitFile::Other,
        _ => GitFile::Object,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_files() {
        let of = |path: &str| in_dirs(false, path);
        fn in_dirs(store_is_one: bool, path: &str) -> Option<GitFile> {
            GitDirs { store_is_one }.file(&WorldPath::parse(path.as_bytes()).unwrap())
        }
        for (path, role) in [
            ("/.git/index", GitFile::Index),
            ("/.git/modules/a/b/index", GitFile::Index),
            ("/.git/worktrees/w/index", GitFile::Index),
            ("/a/.git/objects/ab/cdef", GitFile::Object),
            ("/.git/objects/ab", GitFile::Object),
            ("/.git/objects/pack/pack-1.idx", GitFile::Object),
            ("/.git/objects/info/commit-graph", GitFile::Object),
            ("/.git/objects/info/alternates", GitFile::Other),
            ("/.git/logs/refs/heads/index", GitFile::Bookkeeping),
            ("/.git/refs/heads/main.lock", GitFile::Lock),
            ("/.git/FETCH_HEAD", GitFile::Bookkeeping),
            ("/.git/modules/a/logs/HEAD", GitFile::Bookkeeping),
            ("/.git/refs/heads/index", GitFile::Other),
            ("/.git/HEAD", GitFile::Other),
            ("/.git/config", GitFile::Other),
        ] {
            assert_eq!(of(path), Some(role), "{path}");
        }
        assert_eq!(of("/index"), None);
        for (path, role) in [
            ("/index", GitFile::Index),
            ("/worktrees/w/index", GitFile::Index),
            ("/worktrees/w/logs/HEAD", GitFile::Bookkeeping),
            ("/objects/ab/cdef", GitFile::Object),
            ("/refs/heads/main", GitFile::Other),
        ] {
            assert_eq!(in_dirs(true, path), Some(role), "{path}");
        }
        assert_eq!(of("/.git"), Some(GitFile::Other));
    }
}
