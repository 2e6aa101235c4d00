//! The stores whose state lies in a state home: which there are, forgetting one, and moving the state of another there.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::target::{DirectorySite, missing_error, site};
use crate::error::{Error, Result};
use crate::mounts::table;
use crate::name::EscapedBytes;
use crate::world::Root;
use crate::world::root::stat_fd;
use crate::world::store::layout::{SESSIONS, STATE};
use crate::world::store::place::{self, PlaceNote, StateHome};
use crate::world::store::state::refuse_strangers;
use crate::world::store::unused_store;

/// A store whose state lies in this user's state home.
#[derive(Debug, serde::Serialize)]
pub struct KnownStore {
    /// The store's path when an agent last began there.
    pub path: EscapedBytes,
    /// False if another directory is there by now, or none.
    pub is_at_path: bool,
    /// The directory of its state.
    pub state: PathBuf,
    /// The bytes that its state takes on disk.
    pub size: u64,
    /// The newest session.
    pub last: Option<String>,
}

/// Finds all stores whose state lies in this user's state home, by their paths.
///
/// # Errors
/// Those of reading the state home, if there is one.
pub fn known_stores() -> Result<Vec<KnownStore>> {
    let Some(home) = StateHome::own() else {
        return Ok(Vec::new());
    };
    let mut found: Vec<KnownStore> = home
        .notes()?
        .into_iter()
        .filter(|(state, _)| state.join(os(STATE)).is_dir())
        .map(|(state, note)| {
            let sessions = state.join(os(STATE)).join(SESSIONS);
            let names = std::fs::read_dir(sessions).into_iter().flatten().flatten();
            KnownStore {
                is_at_path: id_at(os(&note.path.0)).is_some_and(|id| id == note.id),
                path: note.path,
                size: size_of(&state),
                last: names
                    .filter_map(|name| name.file_name().into_string().ok())
                    .max(),
                state,
            }
        })
        .collect();
    found.sort_by(|one, two| one.path.0.cmp(&two.path.0));
    Ok(found)
}

/// Returns the paths of the homes that are mounted, and of the stores whose state lies in this user's state home.
#[must_use]
pub fn known_targets() -> Vec<PathBuf> {
    let notes = StateHome::own().and_then(|home| home.notes().ok());
    let stores = notes.into_iter().flatten().filter_map(|(_, note)| {
        let path = os(&note.path.0);
        id_at(path)
            .is_some_and(|id| id == note.id)
            .then(|| PathBuf::from(path))
    });
    let homes = table::mounted().into_iter().map(|home| home.path);
    let mut found: Vec<PathBuf> = homes.chain(stores).collect();
    found.sort();
    found.dedup();
    found
}

/// Deletes the state of a store for good, agents' logins included: its history, its trash, its former contents. `target`
/// is the store, or for one that is not at its path that path.
///
/// # Errors
/// [`Error::Refused`] for a home, and while the store is in use; [`Error::Missing`] where no store is known.
pub fn forget_store(target: &Path) -> Result<()> {
    let here = id_at(target.as_os_str());
    if here.is_some() && site(target)? == DirectorySite::Home {
        return Err(home_error(target));
    }
    let store = here
        .as_ref()
        .map(|_| Root::open_store(target))
        .transpose()?;
    let (root, state, id) = match store {
        Some(root) if unused_store::is_store(&root)? => {
            let state = root.state_path().map(Path::to_owned);
            (root, state, here)
        }
        _ => {
            let (state, note) = known_at(target)?;
            (Root::open(&state)?, Some(state), Some(note.id))
        }
    };
    refuse_strangers(&root, target)?;
    unused_store::forget(&root)?;
    place::forget(state.as_deref(), id.as_deref(), &stat_fd(root.as_fd())?)
}

/// Returns the place of the store that was at a path when an agent last began there.
fn known_at(path: &Path) -> Result<(PathBuf, PlaceNote)> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let notes = StateHome::own().map_or_else(|| Ok(Vec::new()), |home| home.notes())?;
    let mut notes = notes.into_iter();
    let known = notes.find(|(_, note)| Path::new(os(&note.path.0)) == path);
    known.ok_or_else(|| match path.is_dir() {
        true => Error::refused(
            format!("{} is no store", path.display()),
            "`trumanfs stores` lists those whose state lies in the state home.",
        ),
        false => missing_error(&path),
    })
}

/// Moves the state of a store that lies in it into the state home of its owner. Returns where it is.
///
/// # Errors
/// [`Error::Refused`] for a home, for what is no store, while it is in use, and where nothing can be moved there.
pub fn move_store_state(target: &Path) -> Result<PathBuf> {
    if site(target)? == DirectorySite::Home {
        return Err(home_error(target));
    }
    let root = Root::open_store(target)?.made_usable()?;
    refuse_strangers(&root, target)?;
    if let Some(state) = root.state_path() {
        return Err(Error::refused(
            format!(
                "the state of {} lies in {} already",
                target.display(),
                state.display()
            ),
            "",
        ));
    }
    unused_store::move_state(&root, target)
}

fn home_error(target: &Path) -> Error {
    Error::refused(
        format!("{} is a mounted home", target.display()),
        "Unmount it, and give the store.",
    )
}

fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

fn id_at(path: &std::ffi::OsStr) -> Option<String> {
    let root = Root::open(Path::new(path)).ok()?;
    place::id_of(&stat_fd(root.as_fd()).ok()?)
}

/// Returns the bytes that a directory takes on disk, as far as it can be read.
fn size_of(top: &Path) -> u64 {
    let mut pending = vec![top.to_owned()];
    let mut size = 0;
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            size += meta.blocks() * 512;
            if meta.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    size
}
