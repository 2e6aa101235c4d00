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
    /// Why it has no keeper, if it should have one.
    refusal: Option<Error>,
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
            .and_then(|()| mount(&checked.home, &wanted.mount, checked.access, uid, gid))?;
        let mut mounted = HomeMount {
            home: checked.home.clone(),
            device: table::find(&checked.home).map(|mounted| mounted.device),
            keeper: None,
            refusal: None,
            is_temporary: wanted.while_held,
        };
        let handed_over = keeper.map(|keeper| mounted.hand_over(keeper?));
        mounted.refusal = handed_over.and_then(Result::err);
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

    /// Says what it means that a home has no keeper that should have one: it is at a path, with the links of one.
    pub(super) fn refusal(&self) -> Option<String> {
        let why = self.refusal.as_ref()?;
        Some(format!(
            "the home is at a path of this machine, so links that lead out do not exist in it: {why}"
        ))
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
