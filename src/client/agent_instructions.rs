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

/// Opens those of some files that a user has, outside of the homes.
pub fn user_instructions(
    user_home: &Path,
    paths: &[PathBuf],
    homes: &[PathBuf],
) -> Vec<ShownInstructions> {
    let open = |path: &PathBuf| {
        // What lies in a project is the agent's already.
        let real = std::fs::canonicalize(user_home.join(path)).ok()?;
        if homes.iter().any(|home| real.starts_with(home)) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, &real, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| (fd, path.clone()))
    };
    paths.iter().filter_map(open).collect()
}

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
        homes: &[PathBuf],
    ) -> Result<Vec<ShownInstructions>> {
        let mut shown = Vec::new();
        for (fd, path) in user_instructions(user_home, paths, homes) {
            if prepare_place(self.home(), &path, self.owner())? {
                shown.push((fd, path));
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
