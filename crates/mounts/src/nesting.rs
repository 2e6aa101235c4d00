//! Stores do not lie in each other: what is done in the inner one would be unrecorded in the outer one, and seen in its home.
//!
//! A store is told by its `.trumanfs`, whether anybody serves it or not; one that lies further in, by the mounts of this machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::registry;
use trumanfs_types::error::{Error, Result};

/// Checks that a directory, which is or is to become a store, is not the whole machine, lies in no other store, and has in it
/// none that is mounted. `state` is what a store's own directory is called. A store around it does not count that is one of
/// the users' `homes` and is not mounted: one run there must not refuse every project of that user.
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
    // `..` as the kernel has it, and not as the path says, would lead through bind mounts no better.
    let is_store = |dir: &Path| {
        let state = std::fs::symlink_metadata(dir.join(OsStr::from_bytes(state)));
        state.is_ok_and(|state| state.is_dir())
    };
    let is_mounted = |dir: &Path| registry::all().iter().any(|entry| entry.store() == dir);
    let outer = above
        .ancestors()
        .find(|dir| is_store(dir) && (!homes.iter().any(|home| home == dir) || is_mounted(dir)));
    if let Some(outer) = outer {
        return Err(Error::refused(
            format!("{shown} lies in the store {}", outer.display()),
            "What changed in it would not be recorded there. Give that store, or its home, with --cwd for where to begin.",
        ));
    }
    let inner = registry::all()
        .into_iter()
        .map(|entry| entry.store())
        .find(|served| *served != store && served.starts_with(&store));
    match inner {
        Some(served) => Err(Error::refused(
            format!(
                "the store {} lies in {shown}, and is mounted",
                served.display()
            ),
            "What changed in it would not be recorded there. Give a directory beside it.",
        )),
        None => Ok(()),
    }
}
