//! The directory that an agent works in where nobody names one, and where in it the agent begins.
//!
//! Owns the choice: the home or the store around the working directory, else the top of its git repository, else the
//! working directory itself; never a user's whole home directory or the whole machine. Writes nothing.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::daemon::user_homes;
use crate::error::{Error, Result};
use crate::mounts::table;
use crate::world::store::layout::STATE;

/// The most entries of a directory in which stores are looked for.
const MAX_SEARCHED_ENTRIES: usize = 1000;

/// A directory for an agent, chosen by where it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDirectory {
    /// The store, or the home.
    pub store: PathBuf,
    /// The directory in which the agent begins, from there.
    pub below: PathBuf,
}

impl AgentDirectory {
    /// Chooses by the working directory `here`, an absolute path.
    ///
    /// # Errors
    /// [`Error::Usage`] where the directory should be named: a user's home directory, `/`, and one with stores in it.
    pub fn around(here: &Path) -> Result<AgentDirectory> {
        if let Some(home) = table::around(here) {
            return Ok(AgentDirectory::of(home.path, here));
        }
        let owner = std::fs::metadata(here).map(|meta| meta.uid());
        let homes = user_homes(owner.ok());
        let is_wide = |dir: &Path| dir.parent().is_none() || homes.iter().any(|home| home == dir);
        let narrow = || here.ancestors().filter(|dir| !is_wide(dir));
        if let Some(store) = narrow().find(|dir| has_state(dir)) {
            return Ok(AgentDirectory::of(store.to_owned(), here));
        }
        let top = narrow().find(|dir| is_repository(dir, here));
        let store = top.unwrap_or(here);
        if is_wide(store) {
            return Err(named_error(store, "is more than a project"));
        }
        if let Some(inner) = store_in(store) {
            let what = format!("has a store in it, {}", inner.display());
            return Err(named_error(store, &what));
        }
        Ok(AgentDirectory::of(store.to_owned(), here))
    }

    fn of(store: PathBuf, here: &Path) -> AgentDirectory {
        let below = here.strip_prefix(&store).unwrap_or(Path::new(""));
        let below = below.to_owned();
        AgentDirectory { store, below }
    }
}

fn named_error(dir: &Path, what: &str) -> Error {
    Error::usage(
        format!("{} {what}", dir.display()),
        "Change to a project's directory, or name the directory with --store.",
    )
}

fn has_state(dir: &Path) -> bool {
    let state = dir.join(std::ffi::OsStr::from_bytes(STATE));
    std::fs::symlink_metadata(state).is_ok_and(|meta| meta.is_dir())
}

/// Returns whether a directory is the top of a git repository that nobody else can have put around `here`.
fn is_repository(dir: &Path, here: &Path) -> bool {
    let owner = |path: &Path| std::fs::symlink_metadata(path).map(|meta| meta.uid());
    let (Ok(git), Ok(top), Ok(own)) = (owner(&dir.join(".git")), owner(dir), owner(here)) else {
        return false;
    };
    let me = rustix::process::geteuid().as_raw();
    [git, top].iter().all(|uid| *uid == own || *uid == me)
}

/// Returns a store that lies right in a directory.
fn store_in(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.take(MAX_SEARCHED_ENTRIES);
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .find(|inner| has_state(inner))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::create_dir_all as make;

    #[test]
    fn innermost_store_then_the_repository_then_the_directory_itself() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let here = base.join("top/package/src");
        make(&here).unwrap();
        let chosen = || AgentDirectory::around(&here).unwrap();
        let expect = |store: &str, below: &str| AgentDirectory {
            store: base.join(store),
            below: below.into(),
        };
        assert_eq!(chosen(), expect("top/package/src", ""));
        make(base.join("top/.git")).unwrap();
        assert_eq!(chosen(), expect("top", "package/src"));
        // A linked worktree has a file.
        std::fs::write(base.join("top/package/.git"), "gitdir: x\n").unwrap();
        assert_eq!(chosen(), expect("top/package", "src"));
        make(base.join("top/.trumanfs")).unwrap();
        assert_eq!(chosen(), expect("top", "package/src"));
    }

    #[test]
    fn directory_with_stores_in_it_and_the_machine_are_to_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        make(base.join("project/.trumanfs")).unwrap();
        for wide in [&*base, Path::new("/")] {
            let error = AgentDirectory::around(wide).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{error}");
        }
        assert!(AgentDirectory::around(&base.join("project")).is_ok());
    }
}
