//! [`SystemShellSettings`]: the shell, and what its lines have.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::exec::program::policy::NetworkRule;
use crate::exec::program::sandbox::ResourceLimits;

/// A shell of this machine and the surroundings of its lines.
#[derive(Debug, Clone)]
pub struct SystemShellSettings {
    /// The shell: a name, which is looked up as programs are, or a path.
    pub shell: PathBuf,
    /// The variables of its lines, beside those that every agent has.
    pub env: Vec<(OsString, OsString)>,
    /// Directories that come first in `PATH`.
    pub first_path: Vec<PathBuf>,
    /// Paths of the host that lines may read besides system software.
    pub bind_ro: Vec<PathBuf>,
    /// Further files of `/etc`, by their paths from there.
    pub etc_files: Vec<(PathBuf, Vec<u8>)>,
    /// The rule for the hosts that lines may reach.
    pub network: NetworkRule,
    /// The limits that all processes of a shell share.
    pub limits: ResourceLimits,
}

impl SystemShellSettings {
    /// Returns those of a shell without network, and with the usual limits.
    pub fn of(shell: impl Into<PathBuf>) -> SystemShellSettings {
        SystemShellSettings {
            shell: shell.into(),
            env: Vec::new(),
            first_path: Vec::new(),
            bind_ro: Vec::new(),
            etc_files: Vec::new(),
            network: NetworkRule::default(),
            limits: ResourceLimits::usual(),
        }
    }
}
