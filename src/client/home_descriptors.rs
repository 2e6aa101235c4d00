//! The descriptors that an executor in a process of its own needs of a mounted home, besides the home, so that it
//! finds nothing by a path.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::target::Client;
use crate::error::{Error, Result};
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::run;
use crate::world::store::layout::TRASH;
use crate::world::{Root, RunId, adopt};

/// Descriptors of what belongs to a mounted home.
#[derive(Debug)]
pub struct HomeDescriptors {
    /// The home's trash, as the home shows it.
    pub trash: Root,
    /// The store's state directory, where the daemon listens.
    pub state: OwnedFd,
    /// The directory of files that are not whole yet.
    pub staged: OwnedFd,
    /// The directory that was asked about, as a path in the home.
    pub prefix: WorldPath,
}

impl Client {
    /// Opens what belongs to a mounted home, for work in a directory of it.
    ///
    /// # Errors
    /// [`Error::Refused`] where nothing is mounted, or the state directory is not this user's; what the system calls
    /// say.
    pub fn home_descriptors(&self, directory: &Path) -> Result<HomeDescriptors> {
        let home = self.home().ok_or_else(|| {
            Error::refused(
                format!("{} is not mounted", self.path.display()),
                "Mount it: file tasks work in a mounted home.",
            )
        })?;
        let state = rustix::io::fcntl_dupfd_cloexec(self.store.state(), 0);
        let state = state.map_err(Error::os("fcntl"))?;
        Ok(HomeDescriptors {
            trash: Root::open(&home.join(std::ffi::OsStr::new(
                std::str::from_utf8(TRASH).unwrap_or_default(),
            )))?,
            staged: adopt::open_staging_dir(&state)?,
            state,
            prefix: self.in_home(directory.as_os_str())?,
        })
    }

    /// Returns the entries of the trash that a run has made, the newest first; none where it has recorded nothing.
    ///
    /// # Errors
    /// Those of reading the journal.
    pub fn entries_trashed_by(&self, id: RunId) -> Result<Vec<EscapedBytes>> {
        run::entries_trashed_by(&self.store, id)
    }
}
