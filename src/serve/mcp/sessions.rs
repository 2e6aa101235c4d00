//! Sessions of a client: a shell whose working directory and variables last, and the runs that were made in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::server_home::ServerHome;
use crate::exec::{Limits, LineShell};
use crate::journal::RunId;

/// The largest number of sessions that are kept: the least recently used session is forgotten.
const MAX_SESSIONS: usize = 64;
/// The time after which a shell that runs nothing is ended.
const IDLE_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The number of runs among which one that is noted again may be.
const RECENT: usize = 100;
/// The largest number of runs of a session that are kept.
const RUNS: usize = 10_000;

/// A session. Clones of the `Arc` are the same one.
pub(super) struct McpSession {
    /// Its id.
    pub(super) id: String,
    /// Its shell; locked while a line runs.
    pub(super) shell: Mutex<LineShell>,
    /// The working directory after the last line.
    cwd: Mutex<Vec<u8>>,
    runs: Mutex<Vec<RunId>>,
    used: Mutex<Instant>,
    /// The last to be dropped: what the shell has open keeps the home from being unmounted.
    workplace: Mutex<Arc<ServerHome>>,
}

impl McpSession {
    fn new(workplace: &Arc<ServerHome>, limits: Limits) -> McpSession {
        let shell = workplace.session_shell(limits);
        McpSession {
            id: RunId::random().to_string(),
            cwd: Mutex::new(shell.cwd()),
            shell: Mutex::new(shell),
            runs: Mutex::default(),
            used: Mutex::new(Instant::now()),
            workplace: Mutex::new(workplace.clone()),
        }
    }

    /// Goes on in a home that was opened anew. The working directory stays, variables do not.
    fn move_to(&self, workplace: &Arc<ServerHome>, limits: Limits) {
        let mut shell = workplace.session_shell(limits);
        // A directory that is gone is said by the next line.
        let _ = shell.set_cwd(&self.cwd());
        // A line that still runs in the lost home ends by itself.
        *self.shell.lock() = shell;
        *self.workplace.lock() = workplace.clone();
    }

    /// Returns the working directory, also while a line runs.
    pub(super) fn cwd(&self) -> Vec<u8> {
        self.cwd.lock().clone()
    }

    /// Notes the working directory after a line.
    pub(super) fn set_cwd(&self, cwd: Vec<u8>) {
        *self.cwd.lock() = cwd;
        *self.used.lock() = Instant::now();
    }

    /// Ends its shell where that has been idle for long, and is one that takes something meanwhile.
    fn end_idle_shell(&self) {
        let is_idle = self.used.lock().elapsed() > IDLE_LIMIT;
        // One that runs a line is locked.
        if is_idle
            && let Some(mut shell) = self.shell.try_lock()
            && let LineShell::System(shell) = &mut *shell
        {
            let minutes = IDLE_LIMIT.as_secs() / 60;
            shell.end_shell(&format!("it was idle for {minutes} minutes"));
        }
    }

    /// Notes a run, unless it is one of the last already.
    pub(super) fn add(&self, run: RunId) {
        let mut runs = self.runs.lock();
        if runs.iter().rev().take(RECENT).any(|known| *known == run) {
            return;
        }
        if runs.len() == RUNS {
            runs.remove(0);
        }
        runs.push(run);
    }

    /// Returns its runs, oldest first.
    pub(super) fn runs(&self) -> Vec<RunId> {
        // What the last line has left running may have changed something since; a line that runs now is no run yet.
        if let Some(run) = self.shell.try_lock().and_then(|shell| shell.changed_run()) {
            self.add(run);
        }
        self.runs.lock().clone()
    }
}

/// All sessions of a server.
#[derive(Default)]
pub(super) struct McpSessions(Mutex<Vec<Arc<McpSession>>>);

impl McpSessions {
    /// Returns the session with an id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<McpSession>> {
        let sessions = self.0.lock();
        let found = sessions.iter().find(|session| session.id == id)?;
        *found.used.lock() = Instant::now();
        Some(found.clone())
    }

    /// Makes a session.
    pub(super) fn begin(&self, workplace: &Arc<ServerHome>, limits: Limits) -> Arc<McpSession> {
        let made = Arc::new(McpSession::new(workplace, limits));
        let mut sessions = self.0.lock();
        while sessions.len() >= MAX_SESSIONS {
            let idle = sessions.iter().enumerate();
            let oldest = idle.min_by_key(|(_, session)| *session.used.lock());
            let Some(at) = oldest.map(|(at, _)| at) else {
                break;
            };
            sessions.remove(at);
        }
        sessions.push(made.clone());
        made
    }

    /// Ends the shells that have been idle for long.
    pub(super) fn end_idle_shells(&self) {
        for session in self.all() {
            session.end_idle_shell();
        }
    }

    /// Has all of them go on in a home that was opened anew.
    pub(super) fn move_to(&self, workplace: &Arc<ServerHome>, limits: Limits) {
        for session in self.all() {
            session.move_to(workplace, limits);
        }
    }

    /// Returns all of them, the one that was made last at the end.
    pub(super) fn all(&self) -> Vec<Arc<McpSession>> {
        self.0.lock().clone()
    }
}
