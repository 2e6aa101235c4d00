//! The git directory of a working tree that has it elsewhere: a linked worktree, a submodule, `--separate-git-dir`.
//!
//! Owns when such a directory belongs to a working tree. The `.git` that leads there may have been written by an agent, so
//! the directory has to name the tree as well, in words that only who may write there can have put there. No link in them
//! is followed: what lies in the tree is the agent's. Writes nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};

/// The largest file that is read in a git directory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A git directory outside of its working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterGitDirectory {
    /// Its path, without links; of a linked worktree, that of the directory which all of the repository's worktrees share.
    pub path: PathBuf,
    /// True if it names the working tree.
    pub points_back: bool,
}

impl OuterGitDirectory {
    /// Finds the git directory of a working tree, if that lies outside of it.
    pub fn of(tree: &Path) -> Option<OuterGitDirectory> {
        let tree = std::fs::canonicalize(tree).ok()?;
        let git = tree.join(".git");
        let (own, is_link) = match read_link_text(&git) {
            Some(named) => (std::fs::canonicalize(tree.join(named)).ok()?, false),
            // A link leads git there as well.
            None => (std::fs::canonicalize(&git).ok()?, true),
        };
        if own.starts_with(&tree) || !own.is_dir() {
            return None;
        }
        let Some(common) = read_path(&own.join("commondir")) else {
            let named = configured_worktree(&read(&own.join("config")).unwrap_or_default());
            let points_back = named.is_some_and(|named| without_dots(&own.join(named)) == tree);
            return Some(OuterGitDirectory {
                points_back: points_back && !is_link,
                path: own,
            });
        };
        let path = std::fs::canonicalize(own.join(common)).ok()?;
        let named = read_path(&own.join("gitdir"));
        let is_its_worktree = own.parent() == Some(&path.join("worktrees"));
        let points_back = named.is_some_and(|named| without_dots(&own.join(named)) == git);
        Some(OuterGitDirectory {
            points_back: points_back && is_its_worktree && !is_link,
            path,
        })
    }
}

/// Returns where a `.git` file leads to.
fn read_link_text(git: &Path) -> Option<PathBuf> {
    let text = read(git)?;
    let named = text.strip_prefix(b"gitdir:")?.trim_ascii();
    Some(PathBuf::from(OsStr::from_bytes(named)))
}

/// Reads a file that has a path in it.
fn read_path(file: &Path) -> Option<PathBuf> {
    let text = read(file)?;
    let named = text.trim_ascii();
    (!named.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(named)))
}

/// Reads a small regular file, through no link.
fn read(file: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, file, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = Vec::new();
    let file = std::fs::File::from(file);
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Returns `core.worktree` of a configuration (`git-config(1)`).
fn configured_worktree(config: &[u8]) -> Option<PathBuf> {
    let mut is_core = false;
    let mut found = None;
    for line in config.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line.starts_with(b"[") {
            is_core = line.eq_ignore_ascii_case(b"[core]");
            continue;
        }
        let at = line.iter().position(|byte| *byte == b'=');
        let Some((key, value)) = at.and_then(|at| line.split_at_checked(at)) else {
            continue;
        };
        if is_core && key.trim_ascii().eq_ignore_ascii_case(b"worktree") {
            let value = value.get(1..)?.trim_ascii();
            let bare = value.strip_prefix(b"\"");
            let value = bare
                .and_then(|value| value.strip_suffix(b"\""))
                .unwrap_or(value);
            found = Some(PathBuf::from(OsStr::from_bytes(value)));
        }
    }
    found
}

/// Takes `.` and `..` out of an absolute path by its words alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all as make, write};

    fn base() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    #[test]
    fn linked_worktree_is_named_by_its_git_directory() {
        let (_dir, base) = base();
        let (tree, own) = (base.join("tree"), base.join("repo/.git/worktrees/w"));
        make(&tree).unwrap();
        make(&own).unwrap();
        let aim = |at: &Path| write(tree.join(".git"), format!("gitdir: {}\n", at.display()));
        aim(&own).unwrap();
        write(own.join("commondir"), "../..\n").unwrap();
        let found = |points_back| {
            let path = base.join("repo/.git");
            Some(OuterGitDirectory { path, points_back })
        };
        assert_eq!(OuterGitDirectory::of(&tree), found(false));
        for named in [tree.join(".git"), "../../../../tree/.git".into()] {
            write(own.join("gitdir"), format!("{}\n", named.display())).unwrap();
            assert_eq!(OuterGitDirectory::of(&tree), found(true));
        }
        // A path that leads here through a link is somebody else's.
        std::os::unix::fs::symlink(&tree, base.join("link")).unwrap();
        let named = base.join("link/.git");
        write(own.join("gitdir"), format!("{}\n", named.display())).unwrap();
        assert_eq!(OuterGitDirectory::of(&tree), found(false));
        // A directory elsewhere that says that it is a worktree of the repository's.
        let other = base.join("other/worktrees/w");
        make(&other).unwrap();
        let common = base.join("repo/.git");
        write(other.join("commondir"), format!("{}\n", common.display())).unwrap();
        write(
            other.join("gitdir"),
            format!("{}\n", tree.join(".git").display()),
        )
        .unwrap();
        aim(&other).unwrap();
        assert_eq!(OuterGitDirectory::of(&tree), found(false));
    }

    #[test]
    fn separate_git_directory_is_named_by_its_configuration() {
        let (_dir, base) = base();
        let (tree, own) = (base.join("tree"), base.join("git"));
        make(&tree).unwrap();
        make(&own).unwrap();
        assert_eq!(OuterGitDirectory::of(&tree), None);
        write(tree.join(".git"), "gitdir: ../git\n").unwrap();
        let points_back = |config: &str| {
            write(own.join("config"), config).unwrap();
            OuterGitDirectory::of(&tree).unwrap().points_back
        };
        assert!(!points_back("[core]\n\tbare = false\n"));
        assert!(points_back("[core]\n\tworktree = ../tree\n"));
        assert!(points_back(&format!(
            "[Core]\n worktree=\"{}\"\n",
            tree.display()
        )));
        assert!(!points_back("[user]\n\tworktree = ../tree\n"));
        make(tree.join("inner")).unwrap();
        write(tree.join(".git"), "gitdir: inner\n").unwrap();
        assert_eq!(OuterGitDirectory::of(&tree), None);
    }
}
