//! The executor of real programs: what the policy has decided becomes a program in a sandbox.
//!
//! Threads: one for each output stream of the program, and one that looks at the token that ends the request.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::agent_extras::AgentExtras;
use super::background::in_words;
use super::command::ProgramCommand;
use super::decision::{BLOCKED, cwd_of, refusal, report_of, unavailable_refusal};
use super::gateway::open_gateway;
use super::network::{NetworkSettings, NetworkSetup};
use super::output::EscapeStripper;
use super::own_dir::make_own_dir;
use super::policy::{AllowedCommand, CommandRefusal};
use super::program_home::ProgramHome;
use super::runnable::RunnableCommand;
use super::sandbox::{
    self, ActiveLimit, CapturedPorts, KillCondition, LaunchError, NetworkAccess, ProgramEnd,
    ProgramOutcome, RunningProgram, SandboxPlan, Step,
};
use super::terminal::UserTerminal;
use super::turn_socket::TurnServer;
use crate::error::{Error, reason};
use crate::exec::cancel::{CancelReason, CancelToken};
use crate::exec::drain::drain;
use crate::exec::home::Home;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{AdmittedRequest, Executor, RequestEnd, RequestStreams};
use crate::exec::request::{ProgramReport, Refusal, Request, Status};
use crate::name::{WorldPath, escape};
use crate::world::{OriginKind, RunId};

/// The return code of a request whose time is up.
const TIMEOUT: u8 = 124;
/// The interval at which the token that ends a request is checked.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);
/// The longest time that the reader of the output has for the rest of it.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// A command that may run, and the mounted home that it runs in.
pub(super) type HomeCommand<'p> = (&'p ProgramHome, RunnableCommand);

/// The execution of one request.
pub(super) struct ProgramExecution<'p> {
    place: &'p HomeContext,
    command: &'p ProgramCommand,
    decision: Result<HomeCommand<'p>, CommandRefusal>,
    cwd: Vec<u8>,
    directory: WorldPath,
    report: ProgramReport,
    extra: Option<AgentExtras<'p>>,
}

/// Launches a program, whose changes belong to the request of the home.
fn launch(
    programs: &ProgramHome,
    home: &dyn Home,
    plan: SandboxPlan,
) -> Result<RunningProgram, LaunchError> {
    if programs.is_in_place() {
        // It has no namespace by which its processes are known.
        let added = home.add_everybody();
        added.map_err(|error| LaunchError::refused(Step::Source, error.full_message()))?;
        return sandbox::launch_with(plan, &programs.launcher, |_| ());
    }
    sandbox::launch_with(plan, &programs.launcher, |process| {
        home.add_program(process.unsigned_abs());
    })
}

impl<'p> ProgramExecution<'p> {
    /// Makes one of a command that is decided about. `place`: the home, which for one that is refused need not be mounted.
    pub(super) fn new(
        place: &'p HomeContext,
        command: &'p ProgramCommand,
        decision: Result<HomeCommand<'p>, CommandRefusal>,
    ) -> ProgramExecution<'p> {
        let root = place.root();
        let cwd = match &decision {
            Ok((_, ready)) => ready.allowed.cwd.clone(),
            Err(_) => cwd_of(root, &command.cwd),
        };
        let below = cwd.strip_prefix(&root[..]).unwrap_or_default();
        ProgramExecution {
            directory: WorldPath::parse(below).unwrap_or_default(),
            report: report_of(decision.as_ref().map(|(_, ready)| &ready.allowed)),
            place,
            command,
            decision,
            cwd,
            extra: None,
        }
    }

    /// Returns what the command is allowed; `None` if it is refused.
    pub(super) fn allowed(&self) -> Option<&AllowedCommand> {
        let (_, ready) = self.decision.as_ref().ok()?;
        Some(&ready.allowed)
    }

    /// The same with what no policy gives.
    pub(super) fn with(self, extra: AgentExtras<'p>) -> ProgramExecution<'p> {
        ProgramExecution {
            extra: Some(extra),
            ..self
        }
    }

    /// Returns the terminal of whoever started the program, where it gets one of its own.
    fn terminal(&self) -> Option<&'p UserTerminal> {
        self.extra.as_ref().and_then(|extra| extra.terminal)
    }

    /// Makes the plan of the sandbox, with the program's ends of these pipes.
    fn plan_of(
        &self,
        (programs, ready): &HomeCommand<'p>,
        streams: [OwnedFd; 3],
        captured: Option<CapturedPorts>,
    ) -> Result<SandboxPlan, LaunchError> {
        let extra = self.extra.as_ref();
        if extra.is_none() {
            // An agent has a directory of its own.
            make_own_dir(programs)?;
        }
        let mut writable = extra.map_or(Ok(Vec::new()), AgentExtras::writable)?;
        if programs.is_in_place() {
            // At no other path, so it is one more directory.
            writable.push(programs.scratch_dir()?);
        }
        let network = match captured {
            Some(captured) => NetworkAccess::Captured(captured),
            None if extra.is_some_and(|extra| extra.has_host_network) => NetworkAccess::Host,
            None => NetworkAccess::None,
        };
        let bind_ro = [&ready.allowed.bind_ro[..], &self.command.bind_ro];
        Ok(SandboxPlan {
            cwd: PathBuf::from(ready.cwd()),
            read_only: ready.read_only,
            argv: ready.argv(),
            env: ready.env(),
            search_path: Some(ready.search_path()),
            bind_ro: bind_ro.concat(),
            ptrace: ready.allowed.ptrace,
            limits: self.command.limits.clone(),
            writable,
            network,
            placed: extra.map_or(Ok(Vec::new()), AgentExtras::placed)?,
            etc_files: extra.map(AgentExtras::etc_files).unwrap_or_default(),
            terminal: self.terminal().map(UserTerminal::size),
            ..programs.plan(streams)?
        })
    }

    /// Passes on what comes by these pipes, until `ended` is closed. Tells of each pipe of which nothing more comes.
    fn pass_on(
        &self,
        pipes: [(OwnedFd, Box<dyn Write + Send>); 2],
        ended: OwnedFd,
    ) -> mpsc::Receiver<()> {
        let ended = Arc::new(ended);
        let (tell, told) = mpsc::channel();
        for (pipe, to) in pipes {
            let (ended, tell) = (ended.clone(), tell.clone());
            let mut to: Box<dyn Write + Send> = match self.command.strips_ansi {
                true => Box::new(EscapeStripper::new(to)),
                false => to,
            };
            // Not joined: whoever takes the output may never do so.
            std::thread::spawn(move || {
                drain(&pipe, &ended, &mut *to);
                drop(to);
                let _ = tell.send(());
            });
        }
        told
    }

    /// Answers whoever says in the sandbox that a turn begins.
    fn serve_turns(
        &self,
        home: &Arc<dyn Home>,
        programs: &ProgramHome,
    ) -> Result<Option<TurnServer>, LaunchError> {
        let socket = self.extra.as_ref().and_then(|extra| extra.turns);
        let served = socket.map(|socket| socket.serve(home.clone(), programs.client()));
        served.transpose()
    }

    /// Runs the program to its end.
    fn run(
        &mut self,
        admitted: &HomeCommand<'p>,
        cancel: &CancelToken,
        (home, run): (&Arc<dyn Home>, RunId),
        opened: Option<NetworkSetup>,
        mut streams: RequestStreams,
    ) -> Result<(ProgramOutcome, bool), LaunchError> {
        let (stdout, of_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, of_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdin = match streams.stdin {
            Some(stdin) => stdin,
            None => rustix::fs::openat(
                CWD,
                "/dev/null",
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?,
        };
        let programs = admitted.0;
        let captured = opened.as_ref().map(NetworkSetup::captured);
        let plan = self.plan_of(admitted, [stdin, of_stdout, of_stderr], captured)?;
        let mut running = launch(programs, &**home, plan)?;
        let shown = running.shown().iter();
        self.report.bound = shown
            .map(|path| escape(path.as_os_str().as_bytes()))
            .collect();
        self.report.warnings = running.warnings().to_vec();
        self.report.sandbox = Some(running.backend().name());
        let in_force = running.in_force().iter();
        self.report.limits = in_force.map(ActiveLimit::in_words).collect();
        let audit = self.place.audit_log();
        let ssh_agent = self.extra.as_ref().and_then(|extra| extra.ssh_agent);
        let ssh_agent = ssh_agent.map(|access| access.serve(audit.clone(), run));
        let ssh_agent = ssh_agent.transpose()?;
        let turns = self.serve_turns(home, programs)?;
        let gateway = open_gateway(running.take_sockets(), opened, audit, move || run)?;
        // With a terminal, nothing comes by the pipes.
        let connected = running.take_terminal().zip(self.terminal());
        let mut shown: Box<dyn Write + Send> = Box::new(std::io::sink());
        if connected.is_some() {
            std::mem::swap(&mut shown, &mut streams.stdout);
        }
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let told = self.pass_on([(stdout, streams.stdout), (stderr, streams.stderr)], ended);
        let is_lost = || programs.is_lost();
        let outcome = match connected {
            None => wait(&mut running, cancel, is_lost, &mut || {}),
            Some((inner, terminal)) => {
                let mut suspend = || terminal.suspend(inner.as_fd());
                let mut act = || wait(&mut running, cancel, is_lost, &mut suspend);
                let outcome = terminal.while_connected(inner.as_fd(), &mut *shown, &mut act);
                outcome.map_err(|error| {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    LaunchError {
                        errno: Some(errno),
                        ..LaunchError::refused(Step::Terminal, "")
                    }
                })?
            }
        };
        drop(ending);
        self.report.ended_processes = in_words(&outcome.background);
        self.report.limit = outcome.hit.first().map(|limit| limit.name().to_owned());
        let end = Instant::now() + REST_LIMIT;
        let is_read = (0..2).all(|_| {
            told.recv_timeout(end.saturating_duration_since(Instant::now()))
                .is_ok()
        });
        drop(turns);
        home.programs_have_ended();
        if let Some(gateway) = gateway {
            self.report.network_refusals = gateway.finish().in_words();
        }
        if let Some(ssh_agent) = ssh_agent {
            self.report.network_refusals.extend(ssh_agent.finish());
        }
        Ok((outcome, is_read))
    }
}

/// Waits for a program's end, and ends it when the token says so, or when its home is gone.
/// `suspend` is called when the program is stopped.
fn wait(
    running: &mut RunningProgram,
    cancel: &CancelToken,
    is_lost: impl Fn() -> bool + Send,
    suspend: &mut dyn FnMut(),
) -> ProgramOutcome {
    let Ok((cancelled, cancelling)) = pipe_with(PipeFlags::CLOEXEC) else {
        running.kill();
        return running.wait(KillCondition::default());
    };
    std::thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        scope.spawn(move || {
            while cancel.ended().is_none() && !is_lost() {
                if is_over.recv_timeout(cancel.remaining(CANCEL_INTERVAL))
                    != Err(mpsc::RecvTimeoutError::Timeout)
                {
                    return;
                }
            }
            drop(cancelling);
            let _ = is_over.recv();
        });
        let until = KillCondition {
            deadline: None,
            cancel: Some(cancelled.as_fd()),
        };
        let ended = running.wait_suspending(until, suspend);
        drop(over);
        ended
    })
}

impl<'p> Executor for ProgramExecution<'p> {
    type Plan = HomeCommand<'p>;
    type Output = ();
    const KIND: OriginKind = OriginKind::Program;

    fn context(&self) -> &HomeContext {
        self.place
    }

    fn cwd(&self) -> Vec<u8> {
        self.cwd.clone()
    }

    fn directory(&self) -> &WorldPath {
        &self.directory
    }

    fn plan(&self, _: &Request) -> Result<HomeCommand<'p>, Refusal> {
        self.decision.clone().map_err(|refused| refusal(&refused))
    }

    fn may_change(&self, _: &HomeCommand<'p>) -> bool {
        true
    }

    fn noun(&self, _: &HomeCommand<'p>) -> &'static str {
        "lines"
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        unavailable_refusal(error)
    }

    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd {
        RequestEnd::cancelled(cancel, "cancelled")
    }

    fn store_return_code(&mut self, _: u8) {}

    fn report(&mut self) -> Option<Box<ProgramReport>> {
        Some(Box::new(self.report.clone()))
    }

    fn carry_out(
        &mut self,
        admitted: AdmittedRequest<HomeCommand<'p>>,
        home: Arc<dyn Home>,
        streams: RequestStreams,
    ) -> (RequestEnd, ()) {
        let cancel = admitted.cancel().cloned().unwrap_or_default();
        let (programs, ready) = admitted.plan();
        let opened = match ready.network.clone().map(NetworkSettings::open).transpose() {
            Ok(opened) => opened,
            Err(why) => return (blocked(format!("blocked: {why}")), ()),
        };
        let beside = (&home, admitted.run());
        let (ended, is_read) = match self.run(admitted.plan(), &cancel, beside, opened, streams) {
            Ok(ended) => ended,
            Err(error) => return (blocked(error.to_string()), ()),
        };
        let end = if programs.is_lost() {
            lost(&ended)
        } else {
            done(&ended, &cancel, &ready.allowed)
        };
        let left_behind = !is_read || !ended.all_gone;
        (RequestEnd { left_behind, ..end }, ())
    }
}

/// Returns what a request ends with for which no sandbox can be made.
fn blocked(message: String) -> RequestEnd {
    RequestEnd::ended_early(Status::Blocked, BLOCKED, message)
}

/// Returns what a request ends with whose program has ended.
fn done(ended: &ProgramOutcome, cancel: &CancelToken, allowed: &AllowedCommand) -> RequestEnd {
    match &ended.end {
        ProgramEnd::Exited(code) => RequestEnd::finished(u8::try_from(*code & 0xff).unwrap_or(1)),
        ProgramEnd::Signalled(signal) => {
            let code = u8::try_from(128 + (signal & 0x7f)).unwrap_or(255);
            let message = format!("signal {signal} ended the program");
            RequestEnd::ended_early(Status::Failed, code, message)
        }
        ProgramEnd::Deadline | ProgramEnd::Cancelled => match cancel.ended() {
            Some(CancelReason::Cancelled) => RequestEnd::cancelled(cancel, "cancelled"),
            _ => {
                let limit = allowed.timeout.as_secs_f64();
                RequestEnd::ended_early(
                    Status::Timeout,
                    TIMEOUT,
                    format!("the time limit of {limit} s is up: everything that ran was killed"),
                )
            }
        },
        ProgramEnd::Limit(limit) => {
            let what = format!(
                "the limit of {} is passed: everything that ran was killed",
                limit.name()
            );
            RequestEnd::ended_early(Status::Error, 137, what)
        }
        ProgramEnd::Killed => {
            RequestEnd::ended_early(Status::Error, 137, "somebody killed the sandbox")
        }
        ProgramEnd::NotStarted(error) => not_started(error, allowed),
    }
}

/// Returns what a request ends with whose sandbox was there, and whose program did not begin.
fn not_started(error: &LaunchError, allowed: &AllowedCommand) -> RequestEnd {
    let (code, what) = match (error.step, error.errno) {
        (Step::Program, Some(Errno::NOENT)) => (127, allowed.argv.first()),
        (Step::Program, _) => (126, allowed.argv.first()),
        (Step::Directory, _) => (BLOCKED, Some(&allowed.cwd)),
        _ => return RequestEnd::ended_early(Status::Error, 126, error.to_string()),
    };
    let what = what.map(|what| escape(what)).unwrap_or_default();
    let reason = error
        .errno
        .map(|errno| reason(&errno.into()))
        .unwrap_or_default();
    let advice = error.advice().map(|advice| format!("; {advice}"));
    let message = format!("{what}: {reason}{}", advice.unwrap_or_default());
    RequestEnd::ended_early(Status::Error, code, message)
}

/// Returns what a request ends with whose home went away while its program ran.
fn lost(ended: &ProgramOutcome) -> RequestEnd {
    let how = match &ended.end {
        ProgramEnd::Exited(code) => format!("the program then exited with {code}"),
        ProgramEnd::Signalled(signal) => format!("signal {signal} then ended the program"),
        _ => "everything that ran was killed".to_owned(),
    };
    let message = format!(
        "the daemon of the home ended while the program ran; {how}. What was changed until then is recorded"
    );
    RequestEnd::ended_early(Status::Error, BLOCKED, message)
}
