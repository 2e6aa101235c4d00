//! The store that encloses a working directory, and what a word may name that stands where TARGET may.
//!
//! Owns the search upwards. A store that is only found, not named, must belong to who asks: a stranger may have made one
//! of `/tmp`.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::target::{findable, store_of};
use crate::error::{Error, Result};
use crate::mounts::table;
use crate::world::Root;
use crate::world::root::stat_fd;
use crate::world::store::state::open_unlocked;

/// The kind of thing that a word names where TARGET may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetKind {
    /// The word names a store or a home. The path is that of the store.
    StoreOrHome(PathBuf),
    /// The word names something in a mounted home. The path is that of the store.
    InHome(PathBuf),
    /// Something in the way, such as a dead mount, makes the kind unknown.
    Unknown,
    /// The word names a directory that is neither.
    Directory,
    /// The word names a file that is in no home, or nothing.
    Other,
}

/// Returns the kind of thing that a word names.
#[must_use]
pub fn target_kind(word: &Path) -> TargetKind {
    let word = &*findable(word);
    if table::find(word).is_some() {
        return store_of(word).map_or(TargetKind::Unknown, TargetKind::StoreOrHome);
    }
    let meta = match std::fs::metadata(word) {
        Ok(meta) => meta,
        Err(error) if is_absent(&error) => return TargetKind::Other,
        Err(_) => return TargetKind::Unknown,
    };
    if table::holds(&meta) {
        return store_of(word).map_or(TargetKind::Unknown, TargetKind::InHome);
    }
    if !meta.is_dir() {
        return TargetKind::Other;
    }
    match state_owner(word) {
        Ok(Some(_)) => TargetKind::StoreOrHome(word.to_owned()),
        Ok(None) => TargetKind::Directory,
        Err(_) => TargetKind::Unknown,
    }
}

/// Finds the store that encloses a directory: the one behind the home that the directory lies in, or the nearest
/// directory from there upwards that is a store.
///
/// # Errors
/// [`Error::Refused`] for a store that belongs to another user; as [`Client::open`](super::Client::open) for a home.
pub fn enclosing_store(directory: &Path) -> Result<Option<PathBuf>> {
    let directory = &*findable(directory);
    let at = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let meta = std::fs::metadata(&at);
    if table::find(&at).is_some() || meta.as_ref().is_ok_and(table::holds) {
        return store_of(&at).map(Some);
    }
    let me = rustix::process::geteuid().as_raw();
    for above in at.ancestors() {
        let Ok(Some(owner)) = state_owner(above) else {
            continue;
        };
        let is_trusted = owner == me
            || owner == 0
            || me == 0 && meta.as_ref().is_ok_and(|meta| meta.uid() == owner);
        if !is_trusted {
            return Err(Error::refused(
                format!(
                    "{}: the store around the working directory belongs to user {owner}",
                    above.display()
                ),
                "If that is the one, give it by its path.",
            ));
        }
        return Ok(Some(above.to_owned()));
    }
    Ok(None)
}

/// Returns the directory that a TARGET names: for `.` that of the store that encloses the working directory.
///
/// # Errors
/// As [`enclosing_store`].
pub fn named_directory(target: &Path) -> Result<PathBuf> {
    let enclosing = match is_here(target) {
        true => enclosing_store(target)?,
        false => None,
    };
    Ok(enclosing.unwrap_or_else(|| target.to_owned()))
}

/// Returns whether a TARGET is `.`, which stands for the store that encloses the working directory.
fn is_here(target: &Path) -> bool {
    let mut parts = target.components();
    parts.next() == Some(Component::CurDir) && parts.next().is_none()
}

/// Returns the owner of a store's state; `None` for a directory that is no store.
fn state_owner(directory: &Path) -> Result<Option<u32>> {
    let root = Root::open_store(directory)?.for_operator();
    let state = open_unlocked(&root)?;
    state.map(|fd| Ok(stat_fd(fd.as_fd())?.uid)).transpose()
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound
            | std::io::ErrorKind::NotADirectory
            | std::io::ErrorKind::InvalidFilename
    )
}
