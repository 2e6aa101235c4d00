//! Answering for the network of a program that runs, with a line in the audit log for each of its connections.

use std::sync::Arc;

use rustix::io::Errno;

use super::network::{ConnectionRecord, Gateway, NetworkSetup};
use super::sandbox::{LaunchError, NetworkSockets, Step};
use crate::exec::AuditLog;
use crate::world::RunId;

/// The name of the event in an audit line about a refused connection, which an operator should look at.
const REFUSED: &str = "connection_refused";

/// Answers for the network of a sandbox, if it has one, at the sockets that it handed over. `run`: that of a connection
/// which is made now.
///
/// # Errors
/// No thread can be started, or no pipe made; the program must not run then.
pub(super) fn open_gateway(
    sockets: Option<NetworkSockets>,
    opened: Option<NetworkSetup>,
    audit: Option<Arc<dyn AuditLog>>,
    run: impl Fn() -> RunId + Send + Sync + 'static,
) -> Result<Option<Gateway>, LaunchError> {
    let (Some(sockets), Some(opened)) = (sockets, opened) else {
        return Ok(None);
    };
    let observer = move |connection: &ConnectionRecord| {
        let event = (connection.verdict == "deny").then_some(REFUSED);
        if let Some(audit) = &audit {
            let connection = serde_json::to_value(connection).unwrap_or_default();
            // The line of the request has a warning where none can be written.
            let _ = audit.write_event(run(), "connection", event, &connection);
        }
    };
    let failed = |error: std::io::Error| LaunchError {
        errno: Errno::from_io_error(&error),
        ..LaunchError::refused(Step::Network, "answering for it")
    };
    Gateway::start(sockets, opened, Box::new(observer))
        .map(Some)
        .map_err(failed)
}
