//! Stores do not lie in each other: what is done in the inner one would be unrecorded in the outer one, and seen in its home.
//!
//! A store is told by its `.trumanfs`, whether anybody serves it or not, and by the mounts of this machine: one that lies
//! further in, and one whose state lies elsewhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::registry;
use trumanfs_types::error::{Error, Result};

/// Checks that a directory, which is or is to become a store, is not the whole machine, lies in no other store, and has in it
/// none that is mounted. `state` is what a store's own directory is called. A store around it that is not mounted does not
/// count if it is one of the users' `homes`, as one run there must not refuse every project of that user; nor around a git
/// directory, which worktrees elsewhere bring along.
///
/// # Errors
/// [`Error::Refused`] naming the other store.
pub fn check(store: &Path, state: &[u8], homes: &[PathBuf]) -> Result<()> {
    let store = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let shown = store.display();
    let Some(above) = store.parent() else {
        return Err(Error::refused(
            "/ is the whole machine, and no store",
            "Give the directory that the agent works in.",
        ));
    };
    let is_git = store.components().any(|part| part.as_os_str() == ".git");
    // `..` as the kernel has it, and not as the path says, would lead through bind mounts no better.
    let is_store = |dir: &Path| {
        let state = std::fs::symlink_metadata(dir.join(OsStr::from_bytes(state)));
        state.is_ok_and(|state| state.is_dir())
    };
    let mounted = registry::all().into_iter().map(|entry| entry.store());
    let mounted: Vec<PathBuf> = mounted.collect();
    let is_mounted = |dir: &Path| mounted.iter().any(|served| served == dir);
    let is_free = |dir: &Path| is_git || homes.iter().any(|home| home == dir);
    let outer = above
        .ancestors()
        .find(|dir| is_mounted(dir) || is_store(dir) && !is_free(dir));
    if let Some(outer) = outer {
        return Err(Error::refused(
            format!("{shown} lies in the store {}", outer.display()),
            "What changed in it would not be recorded there. Give that store, or its home, with --cwd for where to begin.",
        ));
    }
    let inner = mounted
        .iter()
        .find(|served| **served != store && served.starts_with(&store));
    match inner {
        Some(served) => Err(Error::refused(
            format!(
                "the store {} lies in {shown}, and is mounted",
                served.display()
            ),
            match served.file_name().is_some_and(|name| name == ".git") {
                true => "An agent in a linked worktree has it: wait until that has ended.",
                false => {
                    "What changed in it would not be recorded there. Give a directory beside it."
                }
            },
        )),
        None => Ok(()),
    }
}
