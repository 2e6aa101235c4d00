//! [`HomeBacking`]: what programs work in: a mounted home, or a fork of the store where none can be mounted.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sandbox::{LaunchError, Step};
use crate::client::{AgentFork, Client, HomeHold, RunRegistry, state_dirs};
use crate::error::{Error, Result};

/// The directory that programs work in as their home.
pub(super) enum HomeBacking {
    /// A home that stays mounted while this lives.
    Mounted {
        /// The registry of runs at the home's daemon.
        runs: Arc<RunRegistry>,
        /// The hold of the home.
        hold: HomeHold,
    },
    /// A fork, whose changes come into the store at the end.
    Forked(AgentFork),
}

impl HomeBacking {
    /// Returns the store behind the home.
    pub(super) fn client(&self) -> &Client {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.client(),
            HomeBacking::Forked(fork) => fork.client(),
        }
    }

    /// Returns the home's path as programs in a sandbox see it.
    pub(super) fn path(&self) -> &Path {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.path(),
            HomeBacking::Forked(fork) => fork.home(),
        }
    }

    /// Returns the user and the group that the home is for.
    pub(super) fn owner(&self) -> (u32, u32) {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.owner(),
            HomeBacking::Forked(fork) => fork.owner(),
        }
    }

    /// Returns whether nothing in the home can be changed.
    pub(super) fn is_read_only(&self) -> bool {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.is_read_only(),
            HomeBacking::Forked(_) => false,
        }
    }

    /// Returns whether the daemon of the home has ended, and the home with it.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.is_lost(),
            HomeBacking::Forked(_) => false,
        }
    }

    /// Returns whether the home is a mount that is at no path: only sandboxes enter it.
    pub(super) fn only_in_sandboxes(&self) -> bool {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.only_in_sandboxes(),
            HomeBacking::Forked(_) => false,
        }
    }

    /// Duplicates the directory that is `/tmp` for programs.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    pub(super) fn scratch(&self) -> Result<OwnedFd> {
        let scratch = match self {
            HomeBacking::Mounted { hold, .. } => hold.scratch(),
            HomeBacking::Forked(fork) => fork.scratch(),
        };
        rustix::io::fcntl_dupfd_cloexec(scratch, 0).map_err(Error::os("fcntl"))
    }

    /// Returns the path of that directory outside a sandbox.
    pub(super) fn scratch_path(&self) -> PathBuf {
        match self {
            HomeBacking::Mounted { hold, .. } => hold.scratch_path(),
            HomeBacking::Forked(fork) => fork.scratch_path(),
        }
    }

    /// Returns the root of the home for one sandbox, of which `home` is a descriptor.
    ///
    /// # Errors
    /// The daemon does not hand the home over; too many descriptors are open.
    pub(super) fn for_sandbox(&self, home: &OwnedFd) -> std::result::Result<OwnedFd, LaunchError> {
        match self {
            HomeBacking::Mounted { hold, .. } => for_sandbox(hold, home),
            HomeBacking::Forked(_) => Ok(rustix::io::fcntl_dupfd_cloexec(home, 0)?),
        }
    }

    /// Returns the directories with the state of the store, which no sandbox shows.
    pub(super) fn state_dirs(&self) -> Vec<PathBuf> {
        state_dirs(self.client())
    }
}

/// Returns the root of a mounted home for one sandbox: a mount of its own where the home is at no path.
///
/// # Errors
/// As [`HomeBacking::for_sandbox`].
pub(super) fn for_sandbox(
    hold: &HomeHold,
    home: &OwnedFd,
) -> std::result::Result<OwnedFd, LaunchError> {
    if hold.only_in_sandboxes() {
        let mount = hold.open_home();
        return mount.map_err(|error| LaunchError::refused(Step::Source, error.to_string()));
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(home, 0)?)
}
