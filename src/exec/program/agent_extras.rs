//! [`AgentExtras`]: what a program has that no policy gives.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::sandbox::{LaunchError, WritableDir};
use super::terminal::UserTerminal;

/// The directory and the terminal of an agent, which an execution has and no policy gives.
pub(super) struct AgentExtras<'a> {
    pub(super) state: &'a (OwnedFd, PathBuf),
    pub(super) terminal: Option<&'a UserTerminal>,
}

impl AgentExtras<'_> {
    /// Returns the further directories that the program may write to.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn writable(&self) -> std::result::Result<Vec<WritableDir>, LaunchError> {
        let (dir, path) = self.state;
        Ok(vec![WritableDir {
            path: path.clone(),
            dir: rustix::io::fcntl_dupfd_cloexec(dir, 0)?,
        }])
    }
}
