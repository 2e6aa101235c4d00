//! The executor of real programs: what the policy has decided becomes a program in a sandbox.
//!
//! Threads: one for each output stream of the program, and one that looks at the token that ends the request.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::network::{Opened, Settings};
use super::output::Stripped;
use super::policy::Allowed;
use super::programs::{Command, Decision, Programs};
use super::reach::reach;
use super::refuse::{BLOCKED, cwd_of, refusal, report_of};
use super::sandbox::{self, End, Ended, LaunchError, Network, Plan, Running, Step, Until};
use crate::error::{Error, reason};
use crate::exec::cancel::{Cancel, Ended as Over};
use crate::exec::drain::drain;
use crate::exec::home::Home;
use crate::exec::pipeline::{Admitted, Done, Executor, Streams};
use crate::exec::place::Place;
use crate::exec::request::{ProgramReport, Refusal, Request, Status};
use crate::name::{WorldPath, escape};
use crate::world::{OriginKind, RunId};

/// What a request ends with whose time is up.
const TIMEOUT: u8 = 124;
/// How often the token that ends a request is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long whoever takes the output may take for the rest of it.
const REST: Duration = Duration::from_secs(2);

/// One request.
pub(super) struct Execution<'p> {
    programs: &'p Programs,
    command: &'p Command,
    decision: Decision,
    cwd: Vec<u8>,
    directory: WorldPath,
    report: ProgramReport,
    /// Its network, or why it cannot have what it asks for.
    network: Result<Option<Settings>, String>,
}

impl<'p> Execution<'p> {
    pub(super) fn new(
        programs: &'p Programs,
        command: &'p Command,
        decision: Decision,
    ) -> Execution<'p> {
        let root = programs.place.root();
        let cwd = match &decision {
            Ok(allowed) => allowed.cwd.clone(),
            Err(_) => cwd_of(root, &command.cwd),
        };
        let below = cwd.strip_prefix(&root[..]).unwrap_or_default();
        let mut report = report_of(&decision);
        let network = match &decision {
            Ok(allowed) => Settings::new(&allowed.network, command.network.as_ref()),
            Err(_) => Ok(None),
        };
        if network.is_err() {
            (report.verdict, report.class) = ("deny", Some("network"));
            report.rule = format!("{}.network", report.rule);
        }
        Execution {
            network,
            directory: WorldPath::parse(below).unwrap_or_default(),
            report,
            programs,
            command,
            decision,
            cwd,
        }
    }

    /// Makes the plan of the sandbox, with the program's ends of these pipes.
    fn plan_of(&self, allowed: &Allowed, streams: [OwnedFd; 3]) -> Result<Plan, LaunchError> {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Ok(Plan {
            cwd: PathBuf::from(text(&allowed.cwd)),
            read_only: allowed.read_only || self.programs.is_read_only(),
            argv: allowed.argv.iter().map(|word| text(word)).collect(),
            env: allowed
                .env
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            bind_ro: [allowed.bind_ro.clone(), self.command.bind_ro.clone()].concat(),
            ptrace: allowed.ptrace,
            limits: self.command.limits.clone(),
            ..self.programs.plan(streams)?
        })
    }

    /// Runs the program to its end.
    fn run(
        &mut self,
        allowed: &Allowed,
        cancel: &Cancel,
        (home, run): (&dyn Home, RunId),
        opened: Option<Opened>,
        streams: Streams,
    ) -> Result<(Ended, bool), LaunchError> {
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
        let mut plan = self.plan_of(allowed, [stdin, of_stdout, of_stderr])?;
        if let Some(opened) = &opened {
            plan.network = Network::Captured(opened.prepare(&mut plan.env));
        }
        let mut running = sandbox::launch_with(plan, &self.programs.launcher, |process| {
            home.add_program(process.unsigned_abs());
        })?;
        let shown = running.shown().iter();
        self.report.bound = shown
            .map(|path| escape(path.as_os_str().as_bytes()))
            .collect();
        let in_force = running.in_force().iter();
        self.report.limits = in_force
            .map(|one| format!("{} by {}", one.limit.name(), one.mechanism.name()))
            .collect();
        let gateway = reach(&mut running, opened, self.programs.place.audit_log(), run)?;
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let ended = Arc::new(ended);
        let (tell, told) = mpsc::channel();
        for (pipe, to) in [(stdout, streams.stdout), (stderr, streams.stderr)] {
            let (ended, tell) = (ended.clone(), tell.clone());
            let mut to: Box<dyn Write + Send> = match self.command.strips_ansi {
                true => Box::new(Stripped::new(to)),
                false => to,
            };
            // Not joined: whoever takes the output may never do so.
            std::thread::spawn(move || {
                drain(&pipe, &ended, &mut *to);
                drop(to);
                let _ = tell.send(());
            });
        }
        let outcome = wait(&mut running, cancel, || self.programs.is_lost());
        drop(ending);
        self.report.limit = outcome.hit.first().map(|limit| limit.name().to_owned());
        let end = Instant::now() + REST;
        let is_read = (0..2).all(|_| {
            told.recv_timeout(end.saturating_duration_since(Instant::now()))
                .is_ok()
        });
        home.programs_have_ended();
        if let Some(gateway) = gateway {
            self.report.network_refusals = gateway.finish().in_words();
        }
        Ok((outcome, is_read))
    }
}

/// Waits for a program's end, and ends it when the token says so, or when its home is gone.
fn wait(running: &mut Running, cancel: &Cancel, is_lost: impl Fn() -> bool + Send) -> Ended {
    let Ok((cancelled, cancelling)) = pipe_with(PipeFlags::CLOEXEC) else {
        running.kill();
        return running.wait(Until::default());
    };
    std::thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        scope.spawn(move || {
            while cancel.ended().is_none() && !is_lost() {
                if is_over.recv_timeout(cancel.left(LOOK)) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
            drop(cancelling);
            let _ = is_over.recv();
        });
        let ended = running.wait(Until {
            deadline: None,
            cancel: Some(cancelled.as_fd()),
        });
        drop(over);
        ended
    })
}

impl Executor for Execution<'_> {
    type Plan = Allowed;
    const KIND: OriginKind = OriginKind::Program;

    fn place(&self) -> &Place {
        &self.programs.place
    }

    fn cwd(&self) -> Vec<u8> {
        self.cwd.clone()
    }

    fn directory(&self) -> &WorldPath {
        &self.directory
    }

    fn plan(&self, _: &Request) -> Result<Allowed, Refusal> {
        if let Err(why) = &self.network {
            return Err(Refusal {
                message: format!("blocked: {why}").into_bytes(),
                return_code: BLOCKED,
            });
        }
        match &self.decision {
            Ok(allowed) if self.programs.is_read_only() && !allowed.read_only => {
                let message = format!(
                    "blocked: the home is mounted read-only, and {} does not say `read_only: true`",
                    allowed.rule
                );
                Err(Refusal {
                    message: message.into_bytes(),
                    return_code: BLOCKED,
                })
            }
            Ok(allowed) => Ok(allowed.clone()),
            Err(refused) => Err(refusal(refused)),
        }
    }

    fn may_change(&self, _: &Allowed) -> bool {
        true
    }

    fn noun(&self, _: &Allowed) -> &'static str {
        "lines"
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        Refusal {
            message: format!("the home cannot be changed: {error}").into_bytes(),
            return_code: BLOCKED,
        }
    }

    fn interrupted(&self) -> Done {
        Done::early(Status::Cancelled, 130, "cancelled")
    }

    fn note(&mut self, _: u8) {}

    fn report(&mut self) -> Option<Box<ProgramReport>> {
        Some(Box::new(self.report.clone()))
    }

    fn carry_out(
        &mut self,
        admitted: Admitted<Allowed>,
        home: Arc<dyn Home>,
        streams: Streams,
    ) -> Done {
        let cancel = admitted.cancel().cloned().unwrap_or_default();
        let allowed = admitted.plan();
        let network = self.network.as_mut().ok().and_then(Option::take);
        let opened = match network.map(Settings::open).transpose() {
            Ok(opened) => opened,
            Err(why) => return Done::early(Status::Blocked, BLOCKED, format!("blocked: {why}")),
        };
        let beside = (&*home, admitted.run());
        let (ended, is_read) = match self.run(allowed, &cancel, beside, opened, streams) {
            Ok(ended) => ended,
            Err(error) => {
                return Done::early(Status::Blocked, BLOCKED, error.to_string());
            }
        };
        let done = match self.programs.is_lost() {
            true => lost(&ended),
            false => done(&ended, &cancel, allowed),
        };
        Done {
            left_behind: !is_read || !ended.all_gone,
            ..done
        }
    }
}

/// Returns what a request ends with whose program has ended.
fn done(ended: &Ended, cancel: &Cancel, allowed: &Allowed) -> Done {
    match &ended.end {
        End::Exited(code) => Done::ran(u8::try_from(*code & 0xff).unwrap_or(1)),
        End::Signalled(signal) => {
            let code = u8::try_from(128 + (signal & 0x7f)).unwrap_or(255);
            let message = format!("signal {signal} ended the program");
            Done::early(Status::Failed, code, message)
        }
        End::Deadline | End::Cancelled => match cancel.ended() {
            Some(Over::Cancelled) => Done::early(Status::Cancelled, 130, "cancelled"),
            _ => {
                let limit = allowed.timeout.as_secs_f64();
                Done::early(
                    Status::Timeout,
                    TIMEOUT,
                    format!("the time limit of {limit} s is up: everything that ran was killed"),
                )
            }
        },
        End::Limit(limit) => {
            let what = format!(
                "the limit of {} is passed: everything that ran was killed",
                limit.name()
            );
            Done::early(Status::Error, 137, what)
        }
        End::Killed => Done::early(Status::Error, 137, "somebody killed the sandbox"),
        End::NotStarted(error) => not_started(error, allowed),
    }
}

/// Returns what a request ends with whose sandbox was there, and whose program did not begin.
fn not_started(error: &LaunchError, allowed: &Allowed) -> Done {
    let (code, what) = match (error.step, error.errno) {
        (Step::Program, Some(Errno::NOENT)) => (127, allowed.argv.first()),
        (Step::Program, _) => (126, allowed.argv.first()),
        (Step::Directory, _) => (BLOCKED, Some(&allowed.cwd)),
        _ => return Done::early(Status::Error, 126, error.to_string()),
    };
    let what = what.map(|what| escape(what)).unwrap_or_default();
    let reason = error
        .errno
        .map(|errno| reason(&errno.into()))
        .unwrap_or_default();
    let message = format!("{what}: {reason}; {}", error.remedy());
    Done::early(Status::Error, code, message)
}

/// Returns what a request ends with whose home went away while its program ran.
fn lost(ended: &Ended) -> Done {
    let how = match &ended.end {
        End::Exited(code) => format!("the program then exited with {code}"),
        End::Signalled(signal) => format!("signal {signal} then ended the program"),
        _ => "everything that ran was killed".to_owned(),
    };
    let message = format!(
        "the daemon of the home ended while the program ran; {how}. What was changed until then is recorded"
    );
    Done::early(Status::Error, BLOCKED, message)
}
