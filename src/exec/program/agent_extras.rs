//! [`AgentExtras`]: what a program has that no policy gives.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::sandbox::{LaunchError, PlacedMount, WritableDir};
use super::ssh_agent::SshAgentAccess;
use super::terminal::UserTerminal;
use super::turn_socket::TurnSocket;

/// The directory and the terminal of an agent, which an execution has and no policy gives.
pub(super) struct AgentExtras<'a> {
    pub(super) state: &'a (OwnedFd, PathBuf),
    /// Its caches, below that.
    pub(super) caches: &'a [(OwnedFd, PathBuf)],
    /// True if it has the network of this process.
    pub(super) has_host_network: bool,
    pub(super) placed: &'a [PlacedMount],
    pub(super) ssh_agent: Option<&'a SshAgentAccess>,
    pub(super) turns: Option<&'a TurnSocket>,
    pub(super) terminal: Option<&'a UserTerminal>,
}

impl AgentExtras<'_> {
    /// Returns the further directories that the program may write to.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn writable(&self) -> std::result::Result<Vec<WritableDir>, LaunchError> {
        let all = std::iter::once(self.state).chain(self.caches);
        all.map(|(dir, path)| {
            Ok(WritableDir {
                path: path.clone(),
                dir: rustix::io::fcntl_dupfd_cloexec(dir, 0)?,
            })
        })
        .collect()
    }

    /// Returns what the program sees at paths of its own.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn placed(&self) -> std::result::Result<Vec<PlacedMount>, LaunchError> {
        let socket = self.ssh_agent.map(SshAgentAccess::placed);
        let placed = self.placed.iter().map(|one| Ok(one.duplicate()?));
        let turns = self.turns.map(TurnSocket::placed).transpose()?;
        let turns = turns.into_iter().flatten().map(Ok);
        placed.chain(socket).chain(turns).collect()
    }

    /// Returns the further files of `/etc`.
    pub(super) fn etc_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let known_hosts = self.ssh_agent.map(SshAgentAccess::known_hosts);
        let of_turns = self.turns.iter().flat_map(|turns| turns.etc_files());
        of_turns.cloned().chain(known_hosts).collect()
    }
}
