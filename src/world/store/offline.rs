//! The world of an unmounted store, with the settings of its last mount.

use std::os::fd::AsFd;
use std::path::Path;

use crate::error::Result;
use crate::journal::MountSettings;
use crate::world::root::Root;
use crate::world::store::holder::read_holder;
use crate::world::store::lock::{self, LOCK_TIMEOUT};
use crate::world::store::notices::StoreFinding;
use crate::world::store::place::make_enclosed_state_home;
use crate::world::store::sessions::{last_mount, new_session_id};
use crate::world::store::state::{open_unlocked, refuse_strangers};
use crate::world::{World, WorldOptions};

/// Returns the settings of a store's last mount, if a session names them.
///
/// # Errors
/// Those of opening its state and of reading its sessions.
pub fn last_mounted_with(root: &Root) -> Result<Option<MountSettings>> {
    match open_unlocked(root)? {
        Some(state) => last_mount(state.as_fd(), None),
        None => Ok(None),
    }
}

impl World {
    /// Opens an unmounted store, as [`World::open`], with the settings of its last mount.
    ///
    /// # Errors
    /// As [`World::open`].
    pub fn open_offline(store: &Path) -> Result<(World, Vec<StoreFinding>)> {
        make_enclosed_state_home(store);
        let root = Root::open_store(store)?.made_usable()?;
        refuse_strangers(&root, store)?;
        World::open_offline_root(root)
    }

    /// Begins a session as [`World::open_offline`] in a store that is already open.
    ///
    /// # Errors
    /// As [`World::begin_session`].
    pub fn open_offline_root(root: Root) -> Result<(World, Vec<StoreFinding>)> {
        let (held, last) = match open_unlocked(&root)? {
            Some(state) => {
                let mut held = lock::for_changes(state.as_fd(), LOCK_TIMEOUT.into())?;
                let holder = held.as_mut().and_then(read_holder);
                let named = holder.as_ref().map(|holder| &*holder.session);
                (held, last_mount(state.as_fd(), named)?)
            }
            None => (None, None),
        };
        let options = WorldOptions::as_last_mounted(new_session_id(), last);
        let is_limited = options.keep.max.is_some();
        let (world, settled) = World::begin_session((root, held), options)?;
        if is_limited {
            world.count_versions()?;
        }
        Ok((world, settled))
    }
}
