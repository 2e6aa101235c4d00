//! [`SshAgentAccess`]: the user's ssh-agent as an agent has it, with a line in the audit log for each signature.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::sandbox::ssh_agent::{self, SOCKET_PATH, SignatureRecord, SshAgentProxy, SshAgentRules};
use super::sandbox::{LaunchError, PlacedKind, PlacedMount, SandboxSocket, Step};
use crate::error::{Error, Result};
use crate::exec::AuditLog;
use crate::world::RunId;

/// The file of known hosts that ssh reads of all users, from `/etc`.
const KNOWN_HOSTS: &str = "ssh/ssh_known_hosts";

/// The name of the event in an audit line about a refused signature, which an operator should look at.
const REFUSED: &str = "signature_refused";

/// The socket of the proxy, and what may be signed there.
#[derive(Debug)]
pub struct SshAgentAccess {
    socket: SandboxSocket,
    rules: Arc<SshAgentRules>,
}

impl SshAgentAccess {
    /// Makes the socket.
    ///
    /// # Errors
    /// As [`SandboxSocket::new`].
    pub fn new(rules: SshAgentRules) -> Result<SshAgentAccess> {
        let socket = SandboxSocket::new("ssh");
        Ok(SshAgentAccess {
            socket: socket.map_err(|error| Error::io("a socket for --ssh-agent", &error))?,
            rules: Arc::new(rules),
        })
    }

    /// Returns the variable by which ssh finds the socket.
    pub(super) fn variable() -> (&'static str, &'static [u8]) {
        ("SSH_AUTH_SOCK", SOCKET_PATH.as_bytes())
    }

    /// Returns the socket, for a sandbox.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn placed(&self) -> std::result::Result<PlacedMount, LaunchError> {
        Ok(PlacedMount {
            source: rustix::io::fcntl_dupfd_cloexec(self.socket.fd(), 0)?,
            path: PathBuf::from(SOCKET_PATH),
            kind: PlacedKind::ReadOnly,
        })
    }

    /// Returns the file of the keys of hosts that may be reached, for the `/etc` of a sandbox.
    pub(super) fn known_hosts(&self) -> (PathBuf, Vec<u8>) {
        let lines = self.rules.known.allowed_lines(&self.rules.hosts);
        (PathBuf::from(KNOWN_HOSTS), lines.into_bytes())
    }

    /// Answers at the socket, once it is in the sandbox.
    ///
    /// # Errors
    /// No thread can be started, or no pipe made; the program must not run then.
    pub(super) fn serve(
        &self,
        audit: Option<Arc<dyn AuditLog>>,
        run: RunId,
    ) -> std::result::Result<SshAgentProxy, LaunchError> {
        let observer = move |signature: &SignatureRecord| {
            let event = (signature.verdict == "deny").then_some(REFUSED);
            if let Some(audit) = &audit {
                let signature = serde_json::to_value(signature).unwrap_or_default();
                // The line of the request has a warning where none can be written.
                let _ = audit.write_event(run, "signature", event, &signature);
            }
        };
        let served = ssh_agent::serve(&self.socket, self.rules.clone(), Box::new(observer));
        served.map_err(|error| LaunchError {
            errno: Errno::from_io_error(&error),
            ..LaunchError::refused(Step::Network, "answering for the ssh-agent")
        })
    }
}
