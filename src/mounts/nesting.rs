//! The check that stores are not nested: changes in an inner store would be unrecorded in the outer one, and seen in
//! its home.
//!
//! An outer store is recognised by its `.trumanfs`, whether or not it is served; an inner one by the mounts of this
//! machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::registry;
use crate::error::{Error, Result};

/// Checks that a directory, which is or is to become a store, is not the whole machine, lies in no other store, and
/// contains no mounted one. `state` is the name of a store's own directory.
///
/// # Errors
/// [`Error::Refused`] naming the other store.
pub fn check(store: &Path, state: &[u8]) -> Result<()> {
    let store = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let shown = store.display();
    let Some(above) = store.parent() else {
        return Err(Error::refused(
            "/ is the whole machine, and no store",
            "Give the directory that the agent works in.",
        ));
    };
    // The kernel's `..` instead of the path's own parents would get through bind mounts no better.
    let outer = above.ancestors().find(|dir| {
        std::fs::symlink_metadata(dir.join(OsStr::from_bytes(state)))
            .is_ok_and(|state| state.is_dir())
    });
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
