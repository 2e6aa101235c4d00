//! The home that would be opened for a directory, without mounting it or making anything.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use super::hold::{held_home_path, known_path, served_client, site_unless_served};
use super::target::{Client, DirectorySite, PinnedDir};
use crate::error::Result;
use crate::world::root::stat_fd;
use crate::world::store::layout::{STATE, TRASH};
use crate::world::store::place::{StateHome, id_of};
use crate::world::{SessionPatterns, WorldOptions, last_mounted_with};
use trumanfs_types::meta::Meta;

/// A home that would be opened.
#[derive(Debug)]
pub struct ForeseenHome {
    /// The path by which the home would be known.
    pub path: PathBuf,
    /// The store.
    pub store: PathBuf,
    /// The user and the group that the store belongs to.
    pub owner: (u32, u32),
    /// True if it is mounted.
    pub is_mounted: bool,
    /// The place of the store's history.
    pub history: HistoryPlace,
    /// The patterns that a home has from the store's last mount, beside those of a session.
    pub patterns: SessionPatterns,
}

/// The place of a store's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryPlace {
    /// The store itself; true if it is to be made.
    InStore(bool),
    /// A directory elsewhere.
    At(PathBuf),
    /// A directory elsewhere that is tried for it.
    New(PathBuf),
}

impl PinnedDir {
    /// Returns the home that [`hold`](super::hold()) would give for this directory. `state` is where the history of a new
    /// store would lie.
    ///
    /// # Errors
    /// Those with which the directory is no store and cannot become one.
    pub fn foreseen_home(&self, state: Option<&Path>) -> Result<ForeseenHome> {
        let client = match site_unless_served(self.path())? {
            DirectorySite::Home => Some(Client::open(self.path())?),
            DirectorySite::Store => served_client(self)?,
        };
        let (store, root) = match &client {
            Some(client) => (client.path().to_owned(), Some(client.root()?)),
            None => (self.path().to_owned(), None),
        };
        let root = root.as_ref().unwrap_or(self.root());
        let meta = stat_fd(root.as_fd())?;
        let has = |name: &[u8]| {
            let name = std::ffi::OsStr::from_bytes(name);
            store.join(name).symlink_metadata().is_ok()
        };
        let new = || foreseen_place(&meta, &store, state);
        let history = match root.state_path() {
            Some(place) => HistoryPlace::At(place.to_owned()),
            None if has(STATE) || has(TRASH) => HistoryPlace::InStore(false),
            None => new().map_or(HistoryPlace::InStore(true), HistoryPlace::New),
        };
        let last = last_mounted_with(root).ok().flatten();
        let WorldOptions { view, volatile, .. } =
            WorldOptions::as_last_mounted(String::new(), last);
        let home = client.as_ref().and_then(Client::home);
        Ok(ForeseenHome {
            path: match home {
                Some(home) => known_path(&store, home),
                None => held_home_path(&store),
            },
            store,
            owner: (meta.uid, meta.gid),
            is_mounted: client.is_some(),
            history,
            patterns: SessionPatterns {
                hide: view.hide,
                read_only: view.read_only,
                volatile,
            },
        })
    }
}

/// Returns where [`PinnedDir::with_new_place`] would try to make the place of a directory without one; makes nothing. `None`: it
/// would stay in the directory.
fn foreseen_place(store: &Meta, at: &Path, named: Option<&Path>) -> Option<PathBuf> {
    let (home, id) = (StateHome::of_store(store)?, id_of(store)?);
    if let Some(named) = named {
        return Some(named.join(id));
    }
    let at = std::fs::canonicalize(at).unwrap_or_else(|_| at.to_owned());
    let device = |dir: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, dir, flags, Mode::empty()).ok()?;
        stat_fd(dir.as_fd()).ok().map(|meta| meta.id.0)
    };
    let is_near = home.path.ancestors().find_map(device) == Some(store.id.0);
    (is_near && !home.path.starts_with(&at)).then(|| home.path.join(id))
}
