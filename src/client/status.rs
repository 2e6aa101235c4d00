//! The state of all mounts.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::connect::{ask, misunderstood_error, silence_of};
use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest, MountStatus};
use crate::error::Result;
use crate::mounts::{registry, table};
use crate::world::root::stat_fd;
use crate::world::store::layout;
use crate::world::store::place::StateHome;

/// A mounted home of this machine, and what could be found out about it.
#[derive(Debug)]
pub enum KnownMount {
    /// A home that is served.
    Served(Box<MountStatus>),
    /// Its daemon has died.
    Dead(PathBuf),
    /// Another user mounted it, and only they and root may know of which store.
    Foreign(PathBuf),
    /// Its daemon does not say.
    Unknown(PathBuf, crate::error::Error),
}

/// Finds out about all homes of this machine.
pub fn mounts() -> Vec<KnownMount> {
    let status = |home: table::MountedAt| {
        let Some(entry) = registry::find(&home.device) else {
            return KnownMount::Foreign(home.path);
        };
        match Client::open(&entry.store()).and_then(|client| client.status()) {
            Ok(Some(status)) => KnownMount::Served(Box::new(status)),
            Ok(None) => KnownMount::Dead(home.path),
            Err(error) => KnownMount::Unknown(home.path, error),
        }
    };
    let in_sandboxes = |entry: registry::MountInfo| {
        let status = Client::open(&entry.store()).and_then(|client| client.status());
        let status = status
            .ok()
            .flatten()
            .filter(|found| found.only_in_sandboxes);
        status.map(|status| KnownMount::Served(Box::new(status)))
    };
    let homes = table::mounted().into_iter().map(status);
    let others = registry::in_sandboxes().into_iter();
    homes.chain(others.filter_map(in_sandboxes)).collect()
}

/// Returns the state directories of this store and of all that are mounted here, as far as this user may know of them.
pub fn state_dirs(own: &Client) -> Vec<PathBuf> {
    let own_path = std::fs::canonicalize(own.path()).unwrap_or_else(|_| own.path().to_owned());
    let others = registry::all().into_iter().map(|entry| entry.store());
    let name = std::ffi::OsStr::from_bytes(layout::STATE);
    let in_stores = std::iter::once(own_path).chain(others);
    let elsewhere = own.root().ok().and_then(|root| {
        let store = stat_fd(root.as_fd()).ok()?;
        let homes = [StateHome::of_store(&store), StateHome::own()];
        let homes = homes.into_iter().flatten().map(|home| home.path);
        let homes = homes.filter(|home| home.is_dir());
        let named = root.state_path().map(Path::to_owned);
        Some(homes.chain(named).collect::<Vec<_>>())
    });
    in_stores
        .map(|store| store.join(name))
        .chain(elsewhere.into_iter().flatten())
        .map(|dir| std::fs::canonicalize(&dir).unwrap_or(dir))
        .collect()
}

impl Client {
    /// Returns the home that TARGET was given by, where its daemon has died.
    pub fn dead_home(&self) -> Option<PathBuf> {
        let home = table::find(self.target())?.path;
        table::has_died(&home).then_some(home)
    }

    /// Finds out how the mount of this store is going; `None` where it is not mounted.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::error::Error::Refused) where its daemon does not answer.
    pub fn status(&self) -> Result<Option<MountStatus>> {
        let Some(holder) = self.store.served_by()? else {
            return Ok(None);
        };
        let answer = ask(self.store.state(), &ControlRequest::Status);
        match answer.map_err(|error| silence_of(holder.pid, error))? {
            ControlAnswer::Status(status) => Ok(Some(*status)),
            _ => Err(misunderstood_error(
                &ControlRequest::Status,
                "it answers another question",
            )),
        }
    }
}
