//! A server from its start to its end.

use std::time::Duration;

use rmcp::ServiceExt;

use super::admission::{AT_ONCE, RequestAdmission};
use super::handler::McpServer;
use super::server_home::ServerSettings;
use super::transport::{ServerEnd, StdioTransport};
use crate::error::{Error, Result};

/// The largest number of threads that work for calls at once: more than requests are let in.
const THREADS: usize = 2 * AT_ONCE;
/// The longest time that answers under way may take when the server is to end.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// The interval at which is looked for shells that have been idle for long.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// Serves a client on standard input and output, until it goes away or `end` says so. What still runs then is ended.
///
/// # Errors
/// Those of opening the home; [`Error::Usage`] for a tool that there is not.
pub fn serve(settings: ServerSettings, end: ServerEnd) -> Result<()> {
    let admission = RequestAdmission::default();
    let server = McpServer::new(settings, admission.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(THREADS)
        .build()
        .map_err(|error| Error::io("eventfd", &error))?;
    let (jobs, sessions) = (server.jobs(), server.sessions());
    let served = runtime.block_on(async {
        let (ends, calls) = (end.clone(), jobs.clone());
        tokio::spawn(async move {
            ends.comes().await;
            calls.cancel_all();
        });
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_INTERVAL).await;
                let sessions = sessions.clone();
                let _ = tokio::task::spawn_blocking(move || sessions.end_idle_shells()).await;
            }
        });
        let stdio = StdioTransport::start(admission, end.clone())?;
        let serving = async {
            // Ends without an error once the client has gone away, and with one where it went before it said anything.
            if let Ok(service) = server.serve(stdio).await {
                let _ = service.waiting().await;
            }
        };
        let over = async {
            end.comes().await;
            tokio::time::sleep(LAST_ANSWERS).await;
        };
        tokio::select! {
            () = serving => {}
            () = over => {}
        }
        Ok(())
    });
    jobs.end_all();
    // A thread that hangs in a system call does not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(2));
    served
}
