//! A program that runs in its sandbox: waiting for its end, and ending it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::Signal;

use super::bwrap::FirstProcess;
use super::error::{LaunchError, Step};
use super::limits::{ActiveLimit, EnforcedLimits, SandboxCgroup};
use super::network_sockets::NetworkSockets;
use super::program_end::{ProgramEnd, ProgramOutcome, end_by_limit, end_of};
use super::reaper::{ChildReaper, GONE_LIMIT};
use trumanfs_init::backend::Backend;
use trumanfs_init::background::BackgroundProcesses;
use trumanfs_init::channel::{self, InitMessage};
use trumanfs_init::limit::LimitKind;
use trumanfs_init::proc::ProcOwner;
use trumanfs_init::sys::clone::ClonedChild;
use trumanfs_init::sys::program;

/// The time that the first process may take to set up a sandbox.
const SET_UP_LIMIT: Duration = Duration::from_secs(20);

/// The warning about a sandbox that has the `/proc` of the container around.
const SHARED_PROC: &str = "parts of /proc are covered here, so the program sees the container's: names, arguments and connections of its processes";

/// Until when a program may run.
#[derive(Debug, Clone, Copy, Default)]
pub struct KillCondition<'a> {
    /// The moment at which it is killed.
    pub deadline: Option<Instant>,
    /// A descriptor: when it is readable or its other end is closed, the program is killed.
    pub cancel: Option<BorrowedFd<'a>>,
}

/// A program that runs. Dropping it kills everything in its sandbox.
#[derive(Debug)]
pub struct RunningProgram {
    started: ClonedChild,
    /// The sandbox's first process, where that is not what was started but a descendant of it.
    first: Option<FirstProcess>,
    backend: Backend,
    channel: OwnedFd,
    enforced: EnforcedLimits,
    /// The host paths that are shown beside system software.
    shown: Vec<PathBuf>,
    warnings: Vec<String>,
    /// True if the first process was waited for.
    reaped: bool,
    /// The sockets of its network, until somebody takes them.
    sockets: Option<NetworkSockets>,
    /// The launcher's end of its terminal, until somebody takes it.
    terminal: Option<OwnedFd>,
    /// True if the first process was killed and did not end in time.
    hangs: bool,
    /// The reaper that waits for the first process once nothing else is left in the sandbox.
    reaper: Arc<ChildReaper>,
    /// True if nothing else is left in the sandbox.
    is_empty: bool,
}

impl RunningProgram {
    /// A first process without limits and orders.
    pub(super) fn new(
        backend: Backend,
        started: ClonedChild,
        channel: OwnedFd,
        reaper: Arc<ChildReaper>,
    ) -> Self {
        Self {
            started,
            first: None,
            backend,
            channel,
            enforced: EnforcedLimits::default(),
            shown: Vec::new(),
            warnings: Vec::new(),
            reaped: false,
            sockets: None,
            terminal: None,
            hangs: false,
            reaper,
            is_empty: false,
        }
    }

    /// Returns the child that was started.
    pub(super) fn started(&self) -> &ClonedChild {
        &self.started
    }

    /// Notes which process is the sandbox's first.
    pub(super) fn set_first(&mut self, first: FirstProcess) {
        self.first = Some(first);
    }

    /// Returns the backend that has made the sandbox.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    pub(super) fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Puts these limits into force, as far as they are the cgroup's and the first process does not do so by its
    /// orders. Only before it has them.
    pub(super) fn limit_to(&mut self, enforced: EnforcedLimits) -> Result<(), LaunchError> {
        self.enforced = enforced;
        let Some(group) = &self.enforced.group else {
            return Ok(());
        };
        // Bubblewrap itself is in the group, and knows nothing of it.
        let enters = self.backend == Backend::Namespaces;
        group
            .add_process(self.started.pid, enters)
            .map_err(|errno| {
                // It may be gone because it could not even begin.
                let now = KillCondition {
                    deadline: Some(Instant::now()),
                    ..KillCondition::default()
                };
                match self.receive_event(now) {
                    WaitEvent::Said(InitMessage::Failed(failed)) => failed.into(),
                    _ => LaunchError::new(Step::Limits, "cgroup.procs", errno),
                }
            })
    }

    /// Another descriptor of what is readable when memory has run out, where the kernel does not end all for it.
    pub(super) fn out_of_memory(&self) -> rustix::io::Result<Option<OwnedFd>> {
        let event = self
            .enforced
            .group
            .as_ref()
            .and_then(SandboxCgroup::out_of_memory);
        event
            .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0))
            .transpose()
    }

    /// Notes what is shown of the host, and what is to be known of that.
    pub(super) fn set_shown(&mut self, shown: Vec<PathBuf>, warnings: Vec<String>) {
        (self.shown, self.warnings) = (shown, warnings);
    }

    /// Returns the warnings about what the sandbox shows of the host.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the host paths that the sandbox shows beside system software, read-only: what `bind_ro` lists, under all
    /// names that it has there, and the tree that the program is installed in.
    #[must_use]
    pub fn shown(&self) -> &[PathBuf] {
        &self.shown
    }

    /// The limits that are in force, and by which mechanism.
    #[must_use]
    pub fn in_force(&self) -> &[ActiveLimit] {
        &self.enforced.in_force
    }

    /// A descriptor of a process of the launcher's: it is readable when everything in the sandbox has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.started.pidfd.as_fd()
    }

    /// The number of the sandbox's first process, as seen from here. Its PID namespace is the sandbox's.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.first
            .as_ref()
            .map_or(self.started.pid, |first| first.pid)
    }

    /// Kills everything in the sandbox, at once and without waiting for it. [`RunningProgram::wait`] then tells the
    /// end.
    pub fn kill(&self) {
        if !self.backend.has_namespaces() {
            // The first process ends the others when it hears of it, and itself.
            let _ = rustix::net::shutdown(&self.channel, Shutdown::Both);
            return;
        }
        // What waits for the first process ends after it, and has counted it then.
        let first = self.first.as_ref().map(|first| &first.pidfd);
        let _ =
            rustix::process::pidfd_send_signal(first.unwrap_or(&self.started.pidfd), Signal::KILL);
    }

    /// Takes the sockets of the sandbox's network, once. There are none without
    /// [`NetworkAccess::Captured`](super::NetworkAccess::Captured).
    pub fn take_sockets(&mut self) -> Option<NetworkSockets> {
        self.sockets.take()
    }

    /// Takes the launcher's end of the program's terminal, once, where the plan asks for one. What is written there is
    /// typed, what is read was printed; `EIO` says that nobody has the other end any more.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Keeps the launcher's end of the program's terminal.
    pub(super) fn set_terminal(&mut self, terminal: OwnedFd) {
        self.terminal = Some(terminal);
    }

    /// Keeps the sockets of the sandbox's network.
    pub(super) fn set_sockets(&mut self, sockets: NetworkSockets) {
        self.sockets = Some(sockets);
    }

    /// Waits until the sandbox is set up; returns the sockets that its first process handed over. `sent`: whether the
    /// orders could be sent.
    pub(super) fn set_up(
        &mut self,
        sent: rustix::io::Result<()>,
    ) -> Result<Vec<OwnedFd>, LaunchError> {
        let deadline = Instant::now() + SET_UP_LIMIT;
        let error = match self.receive_event(KillCondition {
            deadline: Some(deadline),
            cancel: None,
        }) {
            WaitEvent::Said(InitMessage::SetUp(sockets, proc)) => {
                if proc == ProcOwner::Container {
                    self.warnings.push(SHARED_PROC.to_owned());
                }
                return Ok(sockets);
            }
            WaitEvent::Said(InitMessage::Failed(failed)) => failed.into(),
            WaitEvent::Deadline => {
                LaunchError::new(Step::Control, "the set-up hangs", Errno::TIMEDOUT)
            }
            _ => match sent {
                Err(errno) if errno != Errno::PIPE => LaunchError::new(Step::Control, "", errno),
                _ => LaunchError::refused(Step::Init, "it ended before the sandbox was set up"),
            },
        };
        self.kill_and_wait();
        Err(error)
    }

    /// Waits for the program's end, and for that of everything that it has left behind, which is killed then. At the
    /// deadline, or when cancelled, all are killed.
    pub fn wait(&mut self, until: KillCondition<'_>) -> ProgramOutcome {
        self.wait_suspending(until, &mut || {})
    }

    /// Waits likewise. `suspend` is called when the program is stopped, as by ^Z at its terminal; it goes on when that
    /// returns.
    pub fn wait_suspending(
        &mut self,
        until: KillCondition<'_>,
        suspend: &mut dyn FnMut(),
    ) -> ProgramOutcome {
        let (mut reported, mut counted) = (None, Duration::ZERO);
        let mut background = BackgroundProcesses::default();
        let end = loop {
            match self.receive_event(until) {
                WaitEvent::Said(
                    InitMessage::SetUp(..)
                    | InitMessage::ProgramEnded(..)
                    | InitMessage::ProgramFailed(..),
                ) => {}
                WaitEvent::Said(InitMessage::Stopped) => {
                    suspend();
                    // Where nobody hears it, the end is heard next.
                    let _ = channel::go_on(&self.channel);
                }
                WaitEvent::Said(InitMessage::Failed(failed)) => {
                    break ProgramEnd::NotStarted(failed.into());
                }
                WaitEvent::Said(InitMessage::Ended(status, used, ended)) => {
                    (reported, background) = (used, ended);
                    break end_of(status);
                }
                WaitEvent::Said(InitMessage::Over(limit, cpu_us)) => {
                    counted = Duration::from_micros(cpu_us);
                    break ProgramEnd::Limit(limit);
                }
                WaitEvent::Deadline => break ProgramEnd::Deadline,
                WaitEvent::Cancelled => break ProgramEnd::Cancelled,
                WaitEvent::Closed => break ProgramEnd::Killed,
            }
        };
        self.is_empty = reported.is_some();
        let (cpu, memory, all_gone) = match reported {
            Some(used) => (Duration::from_micros(used.cpu_us), used.memory, true),
            None => self.kill_and_wait(),
        };
        let hit = self.limits_hit(&end);
        ProgramOutcome {
            end: end_by_limit(end, &hit),
            // What could not be waited for is missing in the one, what was used after the last look in the other.
            cpu: cpu.max(counted),
            memory,
            all_gone,
            hit,
            background,
        }
    }

    /// The limits that were hit.
    fn limits_hit(&self, end: &ProgramEnd) -> Vec<LimitKind> {
        let mut hit = Vec::new();
        if let Some(group) = &self.enforced.group {
            hit.extend(group.killed_for_memory().then_some(LimitKind::Memory));
            hit.extend(group.refused_processes().then_some(LimitKind::Processes));
        }
        let by_end = match end {
            ProgramEnd::Limit(limit) => Some(*limit),
            ProgramEnd::Signalled(signal) if *signal == Signal::XFSZ.as_raw() => {
                Some(LimitKind::FileSize)
            }
            ProgramEnd::Signalled(signal) if *signal == Signal::XCPU.as_raw() => {
                Some(LimitKind::Cpu)
            }
            _ => None,
        };
        hit.extend(by_end.filter(|limit| !hit.contains(limit)));
        hit
    }

    /// Kills everything and waits for it so long as is reasonable; returns what was used, and whether all are gone.
    fn kill_and_wait(&mut self) -> (Duration, u64, bool) {
        self.kill();
        let gone = Instant::now() + GONE_LIMIT;
        // What was started may have been killed by somebody, and the sandbox lives on.
        let first_is_gone = |first: &FirstProcess| program::ends_by(&first.pidfd, gone);
        let is_empty = self.first.as_ref().is_none_or(first_is_gone);
        let has_ended = program::ends_by(&self.started.pidfd, gone);
        if !(is_empty && has_ended)
            && let Some(group) = &self.enforced.group
        {
            group.kill();
        }
        match program::wait(self.started.pid, false) {
            Ok(Some(end)) => {
                self.reaped = true;
                (end.cpu, end.memory, is_empty)
            }
            Ok(None) => {
                self.hangs = true;
                (Duration::ZERO, 0, false)
            }
            // This process ignores the ends of its children, so nobody can know what they have used.
            Err(_) => {
                self.reaped = true;
                (Duration::ZERO, 0, true)
            }
        }
    }

    /// Waits for the first process to say something.
    fn receive_event(&self, until: KillCondition<'_>) -> WaitEvent {
        let out_of_memory = self
            .enforced
            .group
            .as_ref()
            .and_then(SandboxCgroup::out_of_memory);
        loop {
            let mut fds = vec![PollFd::new(&self.channel, PollFlags::IN)];
            fds.extend(out_of_memory.map(|fd| PollFd::new(fd, PollFlags::IN)));
            fds.extend(
                until
                    .cancel
                    .as_ref()
                    .map(|fd| PollFd::new(fd, PollFlags::IN)),
            );
            let timeout = until.deadline.map(left);
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Err(Errno::INTR) => continue,
                Err(_) => return WaitEvent::Closed,
                Ok(0) => return WaitEvent::Deadline,
                Ok(_) => {}
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            // What it says has happened first: the program may have ended because its memory was over.
            return match (ready.first(), ready.get(1)) {
                (Some(true), _) => match channel::receive(&self.channel) {
                    Ok(Some(message)) => WaitEvent::Said(message),
                    Ok(None) | Err(_) => WaitEvent::Closed,
                },
                (_, Some(true)) if out_of_memory.is_some() => {
                    WaitEvent::Said(InitMessage::Over(LimitKind::Memory, 0))
                }
                _ => WaitEvent::Cancelled,
            };
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if self.is_empty {
            self.kill();
            let enforced = std::mem::take(&mut self.enforced);
            return self.reaper.reap_later(self.started.pid, enforced);
        }
        if !self.reaped && !self.hangs {
            self.kill_and_wait();
        }
        if self.reaped {
            return;
        }
        // What hangs in the kernel was killed, and has to be waited for whenever it ends: by whom does not matter.
        let (pid, enforced) = (self.started.pid, std::mem::take(&mut self.enforced));
        let waiting = std::thread::Builder::new().name("sandbox-end".to_owned());
        let _ = waiting.spawn(move || {
            let _ = program::wait(pid, true);
            drop(enforced);
        });
    }
}

enum WaitEvent {
    Said(InitMessage),
    Deadline,
    Cancelled,
    /// The first process has ended without a word.
    Closed,
}

fn left(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}
