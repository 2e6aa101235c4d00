//! The instructions that a user has for all projects, as an agent reads them: files of its profile, shown read-only in
//! the agent's own directory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::agent_login::{prepare_place, remove_place};
use super::agents::AgentPlace;
use crate::error::Result;

/// A file of the user's, and its path from the agent's own directory.
pub type ShownInstructions = (OwnedFd, PathBuf);

impl AgentPlace {
    /// Opens those of some files that the user has, and makes their places. What the agent itself has at such a place is
    /// covered while it runs; where it has a link or a directory, nothing is shown.
    ///
    /// # Errors
    /// Errors of making the places.
    pub fn show_instructions(
        &self,
        user_home: &Path,
        paths: &[PathBuf],
        homes: &[&Path],
    ) -> Result<Vec<ShownInstructions>> {
        let mut shown = Vec::new();
        for path in paths {
            let file = user_home.join(path);
            // What lies in a project is the agent's already.
            let Ok(real) = std::fs::canonicalize(&file) else {
                continue;
            };
            if homes.iter().any(|home| real.starts_with(home)) {
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(fd) = rustix::fs::openat(CWD, &real, flags, Mode::empty()) else {
                continue;
            };
            let is_file = rustix::fs::fstat(&fd)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
            if is_file && prepare_place(self.home(), path, self.owner())? {
                shown.push((fd, path.clone()));
            }
        }
        Ok(shown)
    }

    /// Removes the places that were made for instructions.
    pub fn hide_instructions(&self, paths: &[PathBuf]) {
        // Without its place, it would be gone for another run, too.
        let paths = if self.has_other_runs() { &[] } else { paths };
        for path in paths {
            remove_place(self.home(), path);
        }
    }
}
