//! [`Extra`]: what a program has that no policy gives.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::sandbox::{LaunchError, Writable};
use super::terminal::Terminal;

/// What an execution has that no policy gives.
pub(super) struct Extra<'a> {
    pub(super) state: &'a (OwnedFd, PathBuf),
    pub(super) terminal: Option<&'a Terminal>,
}

impl Extra<'_> {
    /// Returns the further directories that the program may write to.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn writable(&self) -> std::result::Result<Vec<Writable>, LaunchError> {
        let (dir, path) = self.state;
        Ok(vec![Writable {
            path: path.clone(),
            dir: rustix::io::fcntl_dupfd_cloexec(dir, 0)?,
        }])
    }
}
