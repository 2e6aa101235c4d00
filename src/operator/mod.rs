//! What an operator reads and does. A library: it prints nothing, and works on a store whether or not it is mounted.
//!
//! Reading needs no lock: journals only grow, and entries of the trash are whole. Writing goes through a [`World`]: the
//! daemon's own while the store is mounted (by way of its control socket), else one opened for the purpose.
//!
//! [`World`]: crate::world::World

pub mod checkpoint;
pub mod diff;
pub mod ephemeral;
pub mod filter;
pub mod fold;
pub mod fsck;
pub mod kept;
pub mod log;
pub mod past;
pub mod point;
pub mod purge;
pub mod report;
pub mod session;
pub mod show;
pub mod trash;
pub mod undo;
pub mod usage;
pub mod versions;

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::error::{Error, Result};
use crate::world::lock;
use crate::world::state::{self, Holder};
use crate::world::{Root, World};

/// A store, open for reading.
#[derive(Debug)]
pub struct Store {
    root: Root,
    state: OwnedFd,
}

impl Store {
    /// Opens a store for reading.
    ///
    /// # Errors
    /// `ENOENT`; [`Error::Refused`] where the directory has never been a store.
    pub fn open(path: &Path) -> Result<Store> {
        let root = Root::open(path)?;
        let state = state::open_unlocked(&root)?.ok_or_else(|| {
            Error::refused(
                format!("{} is not a store: nobody has ever mounted it", path.display()),
                "Give the directory that `trumanfs mount STORE HOME` was given, or the home itself.",
            )
        })?;
        Ok(Store { root, state })
    }

    /// Opens for reading the store that a world serves.
    ///
    /// # Errors
    /// What `fcntl(2)` says.
    pub fn of(world: &World) -> Result<Store> {
        let state =
            rustix::io::fcntl_dupfd_cloexec(world.state(), 0).map_err(Error::os("fcntl"))?;
        Ok(Store {
            root: world.root().again()?,
            state,
        })
    }

    /// Returns who serves, or last served, the store.
    ///
    /// # Errors
    /// What reading the lock says.
    pub fn holder(&self) -> Result<Option<Holder>> {
        state::holder(std::os::fd::AsFd::as_fd(&self.state))
    }

    /// Returns whether the store is being served at this moment.
    ///
    /// # Errors
    /// What `flock(2)` says.
    pub fn is_served(&self) -> Result<bool> {
        lock::is_held(std::os::fd::AsFd::as_fd(&self.state))
    }

    /// Returns the resolver of paths.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the state directory's descriptor.
    pub fn state(&self) -> &OwnedFd {
        &self.state
    }
}
