//! The mount of a home: at a path of the host, or with its keeper, where only sandboxes enter it.
//!
//! Owns which of the two it is, and that it ends with the daemon.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::MountOptions;
use super::home_keeper::HomeKeeper;
use super::mountpoint::mount;
use super::preflight::PreflightResult;
use super::privileges::try_owner;
use crate::error::{Error, Result};
use crate::mounts::unmount::unmount;
use crate::mounts::{registry, table};

/// A mount that is unmounted when dropped, so that an error leaves no dead mount behind.
#[derive(Debug)]
pub(super) struct HomeMount {
    home: PathBuf,
    /// Its device, as the registry of mounts names it.
    device: Option<String>,
    keeper: Option<HomeKeeper>,
    /// The user and the group to whom everything is shown to belong, if no others have numbers.
    shown_owner: Option<(u32, u32)>,
    /// The difference to a home that is mounted as usual, if there is one.
    notice: Option<String>,
    /// True if the directory that was made for the home goes with it.
    is_temporary: bool,
}

impl HomeMount {
    /// Mounts, and returns the descriptor on which the requests come.
    pub(super) fn mount(
        wanted: &MountOptions,
        checked: &PreflightResult,
    ) -> Result<(HomeMount, OwnedFd)> {
        let (uid, gid) = checked.ids();
        let keeper = wanted.only_in_sandboxes.then(HomeKeeper::start);
        let requests = try_owner(checked)
            .and_then(|()| mount(&checked.home, &wanted.mount, checked.access, uid, gid));
        match (requests, keeper) {
            (Ok(requests), keeper) => {
                let mut mounted = HomeMount {
                    home: checked.home.clone(),
                    device: table::find(&checked.home).map(|mounted| mounted.device),
                    keeper: None,
                    shown_owner: None,
                    notice: None,
                    is_temporary: wanted.while_held,
                };
                if let Some(Err(why)) = keeper.map(|keeper| mounted.hand_over(keeper?)) {
                    mounted.notice = Some(format!(
                        "the home is at a path of this machine, so links that lead out do not exist in it: {why}"
                    ));
                }
                Ok((mounted, requests))
            }
            (Err(refusal), Some(Ok(keeper))) if checked.owner.is_none() => {
                HomeMount::mount_at_keeper(keeper, wanted, checked, refusal)
            }
            (Err(refusal), _) => Err(refusal),
        }
    }

    /// Has a keeper mount the home, where nothing can be mounted on the host.
    fn mount_at_keeper(
        keeper: HomeKeeper,
        wanted: &MountOptions,
        checked: &PreflightResult,
        refusal: Error,
    ) -> Result<(HomeMount, OwnedFd)> {
        let attributes = wanted.mount.attributes(checked.access);
        let (what, remedy) = refusal.into_words();
        let requests = keeper.mount(attributes).map_err(|why| {
            let both = format!("{what}; in a user namespace of its own: {why}");
            Error::refused(both, remedy)
        })?;
        let mounted = HomeMount {
            home: checked.home.clone(),
            device: None,
            keeper: Some(keeper),
            shown_owner: Some(checked.ids()),
            notice: Some(format!(
                "the home is in a user namespace of its own, where everything shows as yours: {what}"
            )),
            is_temporary: wanted.while_held,
        };
        Ok((mounted, requests))
    }

    /// Has a keeper take the home, and takes it away from its path, before a request is answered.
    fn hand_over(&mut self, keeper: HomeKeeper) -> Result<()> {
        keeper.take(&self.home)?;
        unmount(&self.home, true)?;
        self.keeper = Some(keeper);
        Ok(())
    }

    /// Returns whether only sandboxes enter the home.
    pub(super) fn is_detached(&self) -> bool {
        self.keeper.is_some()
    }

    /// Returns the user and the group to whom everything in the home is shown to belong, if only they have numbers there.
    pub(super) fn shown_owner(&self) -> Option<(u32, u32)> {
        self.shown_owner
    }

    /// Returns what is different in this home from one that is mounted as usual.
    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Returns a mount of the home for a sandbox; nothing if it is found at its path.
    pub(super) fn tree(&self) -> Result<Option<OwnedFd>> {
        self.keeper.as_ref().map(HomeKeeper::tree).transpose()
    }

    /// Notes which store is behind the home; returns the note.
    pub(super) fn register(&self, checked: &PreflightResult) -> Option<PathBuf> {
        let entry = registry::MountInfo::new(&checked.store, &checked.home);
        registry::write(self.device.as_ref()?, &entry)
            .inspect_err(|error| log::warn!("the home can only be named by its store: {error}"))
            .ok()
    }

    /// Unmounts. With `lazy` also where it is in use; a home with a keeper always ends with its last user.
    ///
    /// # Errors
    /// As [`unmount()`].
    pub(super) fn unmount(&self, lazy: bool) -> Result<()> {
        match &self.keeper {
            None => unmount(&self.home, lazy)?,
            Some(keeper) => keeper.end(),
        }
        self.remove_place();
        Ok(())
    }

    /// Leaves nothing behind, whatever has ended the requests.
    pub(super) fn clear(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.end();
        }
        if table::find(&self.home).is_some() {
            let _ = unmount(&self.home, true);
        }
        self.remove_place();
    }

    /// Whoever has held a home knows by this that it has ended.
    fn remove_place(&self) {
        if self.is_temporary {
            let _ = std::fs::remove_dir(&self.home);
        }
    }
}

impl Drop for HomeMount {
    fn drop(&mut self) {
        self.clear();
    }
}
