//! A sandbox in which programs are started one after the other or side by side: those of one line of a shell.
//!
//! Its first process takes orders as long as the launcher keeps the channel open; each program has a number. One thread
//! hears what the first process says and tells those who wait.
//!
//! Locks: one over the ends that were heard and not taken, one over the channel while an order is sent and numbered.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::error::{LaunchError, Step};
use super::launch::{Launcher, launch_service};
use super::limits::ActiveLimit;
use super::network_sockets::NetworkSockets;
use super::plan::SandboxPlan;
use super::program_end::{ProgramEnd, end_of};
use super::running::RunningProgram;
use super::start_order::make_start_order;
use trumanfs_init::backend::Backend;
use trumanfs_init::channel::{self, InitMessage};
use trumanfs_init::limit::LimitKind;

/// The time between two questions of a wait whether to go on.
const RECHECK_PAUSE: Duration = Duration::from_millis(50);

/// A sandbox that takes orders. Dropping it kills everything in it.
#[derive(Debug)]
pub struct SandboxService {
    running: RunningProgram,
    channel: OwnedFd,
    ends: Arc<ProgramEnds>,
    /// The number of the next program.
    next: Mutex<u32>,
}

#[derive(Debug, Default)]
struct ProgramEnds {
    state: Mutex<EndTable>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct EndTable {
    ends: HashMap<u32, ProgramEnd>,
    /// The end of every program that has not ended, once nothing more will be heard.
    over: Option<ProgramEnd>,
}

/// Makes a sandbox in which programs can be started. The plan's own program, working directory and environment do not
/// count; its streams are nobody's. `begun` is called as by [`launch_with`](super::launch_with).
///
/// # Errors
/// As [`launch`](super::launch()).
pub fn serve(
    plan: SandboxPlan,
    launcher: &Launcher,
    begun: impl FnMut(i32),
) -> Result<SandboxService, LaunchError> {
    let running = launch_service(&plan, launcher, begun)?;
    let control = |errno| LaunchError::new(Step::Control, "", errno);
    let dup_channel = || rustix::io::fcntl_dupfd_cloexec(running.channel(), 0).map_err(control);
    let (channel, hearing) = (dup_channel()?, dup_channel()?);
    let out_of_memory = running.out_of_memory().map_err(control)?;
    let ends = Arc::new(ProgramEnds::default());
    let ends_of_thread = ends.clone();
    // Ends when the first process does.
    let hear = move || {
        let over = loop {
            if is_out_of_memory(&hearing, out_of_memory.as_ref()) {
                break ProgramEnd::Limit(LimitKind::Memory);
            }
            let (number, end) = match channel::receive(&hearing) {
                Ok(Some(InitMessage::ProgramEnded(number, status))) => (number, end_of(status)),
                Ok(Some(InitMessage::ProgramFailed(number, error))) => {
                    (number, ProgramEnd::NotStarted(error.into()))
                }
                Ok(Some(InitMessage::Over(limit, _))) => break ProgramEnd::Limit(limit),
                _ => break ProgramEnd::Killed,
            };
            ends_of_thread.state.lock().ends.insert(number, end);
            ends_of_thread.changed.notify_all();
        };
        ends_of_thread.state.lock().over = Some(over);
        ends_of_thread.changed.notify_all();
    };
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    thread
        .spawn(hear)
        .map_err(|error| LaunchError::refused(Step::Control, format!("no thread: {error}")))?;
    Ok(SandboxService {
        running,
        channel,
        ends,
        next: Mutex::new(0),
    })
}

/// Waits until something is said; returns whether memory has run out before that.
fn is_out_of_memory(channel: &OwnedFd, event: Option<&OwnedFd>) -> bool {
    let Some(event) = event else { return false };
    let mut fds = [
        PollFd::new(channel, PollFlags::IN),
        PollFd::new(event, PollFlags::IN),
    ];
    while rustix::event::poll(&mut fds, None) == Err(Errno::INTR) {}
    let [has_message, out_of_memory] = fds.map(|fd| !fd.revents().is_empty());
    out_of_memory && !has_message
}

impl SandboxService {
    /// Takes the sockets of the sandbox's network, as [`RunningProgram::take_sockets`].
    pub fn take_sockets(&mut self) -> Option<NetworkSockets> {
        self.running.take_sockets()
    }

    /// As [`RunningProgram::warnings`].
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.running.warnings()
    }

    /// Returns the host paths that the sandbox shows, as [`RunningProgram::shown`].
    #[must_use]
    pub fn shown(&self) -> &[PathBuf] {
        self.running.shown()
    }

    /// The limits that are in force for all programs together, and by which mechanism.
    #[must_use]
    pub fn in_force(&self) -> &[ActiveLimit] {
        self.running.in_force()
    }

    /// Returns the backend that has made the sandbox.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.running.backend()
    }

    /// Starts a program. Returns its number, for [`SandboxService::wait`]. `path` and `installed` are those of `order`.
    ///
    /// # Errors
    /// What cannot be a program, or that the sandbox has ended. Whether the program's file could be executed is told by
    /// [`SandboxService::wait`].
    pub fn start(
        &self,
        argv: &[OsString],
        path: &OsStr,
        env: &[(OsString, OsString)],
        cwd: &OsStr,
        installed: Option<&Path>,
        streams: [OwnedFd; 3],
    ) -> Result<u32, LaunchError> {
        let order = make_start_order(argv, path, env, cwd, installed)?;
        let [stdin, stdout, stderr] = &streams;
        let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let mut next = self.next.lock();
        channel::send_orders(&self.channel, &order.to_bytes(), &fds)
            .map_err(|errno| LaunchError::new(Step::Control, "", errno))?;
        let number = *next;
        *next += 1;
        Ok(number)
    }

    /// Returns the number of the first process, in this process's PID namespace.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Returns a program's end, where that has come.
    #[must_use]
    pub fn end_so_far(&self, number: u32) -> Option<ProgramEnd> {
        let mut state = self.ends.state.lock();
        state.ends.remove(&number).or_else(|| state.over.clone())
    }

    /// Waits for a program's end; returns nothing once `go_on`, which is asked now and then, says no.
    pub fn wait(&self, number: u32, go_on: &dyn Fn() -> bool) -> Option<ProgramEnd> {
        let mut state = self.ends.state.lock();
        loop {
            if let Some(end) = state.ends.remove(&number) {
                return Some(end);
            }
            if let Some(over) = &state.over {
                // Where memory has run out, the kernel has ended one program; now all end.
                self.kill();
                return Some(over.clone());
            }
            self.ends.changed.wait_for(&mut state, RECHECK_PAUSE);
            if !parking_lot::MutexGuard::unlocked(&mut state, go_on) {
                return None;
            }
        }
    }

    /// Kills everything in the sandbox, at once.
    pub fn kill(&self) {
        self.running.kill();
    }
}
