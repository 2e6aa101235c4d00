//! The one pipeline of all executors: a request is admitted or refused as a whole, runs within its limits, ends in an
//! [`Outcome`], and leaves one line in the audit log.
//!
//! Owns the order of these steps. An executor says what it admits and how that is carried out ([`Executor`]); executors
//! do not know each other. Nothing runs that was not admitted: what is carried out is an [`Admitted`], which only
//! `admit` makes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::cancel::Cancel;
use super::home::{Beginning, Home};
use super::place::Place;
use super::request::{Outcome, ProgramReport, Refusal, Request, Status};
pub use super::streams::Streams;
use super::streams::{Gathered, Shared};
use rustix::io::Errno;
use signal_hook::low_level::signal_name;

use trumanfs_types::error::{Error, reason};
use trumanfs_types::name::{Escaped, WorldPath, escape};
use trumanfs_types::origin::{OriginKind, Run, RunId};

/// What a caller's end counts as: Ctrl-C.
const SIGINT: u8 = 2;

/// What carries out requests of one kind.
pub trait Executor {
    /// A request that can run, as this executor understands it.
    type Plan;

    /// What records say of where a change comes from.
    const KIND: OriginKind;

    /// Returns where it works.
    fn place(&self) -> &Place;

    /// Returns the working directory, as `pwd` prints it.
    fn cwd(&self) -> Vec<u8>;

    /// Returns the working directory, from the root of the place.
    fn directory(&self) -> &WorldPath;

    /// Decides whether a request runs.
    ///
    /// # Errors
    /// Why nothing of it does.
    fn plan(&self, request: &Request) -> Result<Self::Plan, Refusal>;

    /// Returns whether a plan may change something in the home.
    fn may_change(&self, plan: &Self::Plan) -> bool;

    /// Returns what a line of a plan's output is called where it is counted.
    fn noun(&self, plan: &Self::Plan) -> &'static str;

    /// Words a refusal where the home cannot be had for changing.
    fn unavailable(&self, error: &Error) -> Refusal;

    /// Words the end of a request that somebody ended before it began.
    fn interrupted(&self, cancel: &Cancel) -> Done;

    /// Takes note of what a request ended with: `$?` of a shell.
    fn note(&mut self, return_code: u8);

    /// Returns what else there is to know of the request.
    fn report(&mut self) -> Option<Box<ProgramReport>> {
        None
    }

    /// Carries out what was admitted, in this home, until the token ends it.
    fn carry_out(
        &mut self,
        admitted: Admitted<Self::Plan>,
        home: Arc<dyn Home>,
        streams: Streams,
    ) -> Done;
}

/// A request that may run. Only `admit` makes one.
#[derive(Debug)]
pub struct Admitted<P> {
    plan: P,
    /// What ends it, where anything can.
    cancel: Option<Cancel>,
    memory: u64,
    run: RunId,
}

impl<P> Admitted<P> {
    /// Returns what is to be done.
    pub fn plan(&self) -> &P {
        &self.plan
    }

    /// Returns what ends it, its time or somebody's word; nothing where it may take as long as it takes.
    pub fn cancel(&self) -> Option<&Cancel> {
        self.cancel.as_ref()
    }

    /// Returns how many bytes it may hold in memory; 0 is no limit.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the run that it is.
    pub fn run(&self) -> RunId {
        self.run
    }
}

/// How a request ended that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// In a word.
    pub status: Status,
    /// With what.
    pub return_code: u8,
    /// Why it ended early.
    pub message: Option<Vec<u8>>,
    /// Whether that is still to be said, last on standard error.
    pub is_untold: bool,
    /// Whether a thread of it was left behind, in a system call that does not return.
    pub left_behind: bool,
    /// Whether something was left out already of what it wrote to standard output, and to standard error.
    pub truncated: [bool; 2],
}

impl Done {
    /// Returns that of what ran to its end.
    pub fn ran(return_code: u8) -> Done {
        Done {
            status: match return_code {
                0 => Status::Success,
                _ => Status::Failed,
            },
            return_code,
            message: None,
            is_untold: false,
            left_behind: false,
            truncated: [false; 2],
        }
    }

    /// Returns that of what somebody ended, with the status of what a signal ends: as of SIGINT if it was none. `what` begins
    /// the message.
    pub fn cancelled(cancel: &Cancel, what: &str) -> Done {
        let signal = cancel.signal();
        let name = signal.and_then(|signal| signal_name(signal.into()));
        let message = match name {
            Some(name) => format!("{what} by {name}"),
            None => what.to_owned(),
        };
        let number = signal.unwrap_or(SIGINT);
        Done::early(Status::Cancelled, 128_u8.saturating_add(number), message)
    }

    /// Returns the same, or a failure if it succeeded and its output could not be written.
    fn unless_unwritten(self, failed: Option<Errno>) -> Done {
        match (self.status, failed) {
            (Status::Success, Some(errno)) => {
                let message = format!("standard output: {}", reason(&errno.into()));
                Done::early(Status::Failed, 1, message)
            }
            _ => self,
        }
    }

    /// Returns that of what went no further, because something in it is not to be had; it has been said why.
    pub fn blocked(return_code: u8, message: Option<Vec<u8>>) -> Done {
        Done {
            status: Status::Blocked,
            return_code,
            message,
            is_untold: false,
            left_behind: false,
            truncated: [false; 2],
        }
    }

    /// Returns that of what ended early, with what there is to say.
    pub fn early(status: Status, return_code: u8, message: impl Into<Vec<u8>>) -> Done {
        Done {
            status,
            return_code,
            message: Some(message.into()),
            is_untold: true,
            left_behind: false,
            truncated: [false; 2],
        }
    }
}

impl From<Refusal> for Done {
    fn from(refusal: Refusal) -> Done {
        Done::early(Status::Blocked, refusal.return_code, refusal.message)
    }
}

/// Admits a request. Its time begins when it is carried out.
///
/// # Errors
/// Why nothing of it runs.
fn admit<E: Executor>(
    executor: &E,
    request: &Request,
    run: RunId,
) -> Result<Admitted<E::Plan>, Refusal> {
    Ok(Admitted {
        plan: executor.plan(request)?,
        cancel: request.cancel.clone(),
        memory: request.limits.memory,
        run,
    })
}

/// Puts a request through, with its streams where they are to go.
pub fn execute<E: Executor>(executor: &mut E, request: &Request, streams: Streams) -> Outcome {
    let begun = Instant::now();
    let run = request.run.unwrap_or_else(RunId::random);
    let cwd = executor.cwd();
    let stderr = Shared::new(streams.stderr, &request.limits, "lines");
    let mut outcome = Outcome {
        run,
        status: Status::Error,
        return_code: 1,
        stdout: Vec::new(),
        stderr: Vec::new(),
        truncated_stdout: false,
        truncated_stderr: false,
        duration_ms: 0,
        changed: false,
        cwd: Vec::new(),
        error_message: None,
        unavailable: None,
        written: Default::default(),
        warnings: Vec::new(),
        command: None,
        working_directory: None,
        program: None,
    };
    let done = match admit(executor, request, run) {
        Err(refusal) => refusal.into(),
        Ok(admitted) => {
            let stdout = Shared::new(
                streams.stdout,
                &request.limits,
                executor.noun(&admitted.plan),
            );
            let streams = Streams {
                stdin: streams.stdin,
                stdout: Box::new(stdout.clone()),
                stderr: Box::new(stderr.clone()),
            };
            let done = run_admitted(executor, request, admitted, streams, &mut outcome);
            outcome.truncated_stdout = stdout.finish();
            outcome.written[0] = stdout.written();
            done.unless_unwritten(stdout.failed())
        }
    };
    if let Some(message) = &done.message {
        if done.is_untold {
            stderr.say(message);
        }
        outcome.error_message = Some(String::from_utf8_lossy(message).into_owned());
    }
    if let Some(error) = &outcome.unavailable {
        outcome.error_message = Some(error.told());
    }
    outcome.truncated_stdout |= done.truncated[0];
    outcome.truncated_stderr = stderr.finish() | done.truncated[1];
    outcome.written[1] = stderr.written();
    (outcome.status, outcome.return_code) = (done.status, done.return_code);
    executor.note(done.return_code);
    if done.left_behind {
        outcome.warnings.push(LEFT_BEHIND.to_owned());
    }
    outcome.cwd = executor.cwd();
    if let Some(mut report) = executor.report() {
        outcome.warnings.append(&mut report.warnings);
        outcome.command = Some(escape(&request.command));
        outcome.working_directory = Some(escape(&cwd));
        outcome.program = Some(report);
    }
    outcome.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let warning = executor.place().audit(E::KIND, request, &cwd, &outcome);
    outcome.warnings.extend(warning);
    outcome
}

const LEFT_BEHIND: &str = "a thread was left behind: a system call of it does not return";

fn run_admitted<E: Executor>(
    executor: &mut E,
    request: &Request,
    admitted: Admitted<E::Plan>,
    streams: Streams,
    outcome: &mut Outcome,
) -> Done {
    let run = Run {
        id: outcome.run,
        kind: E::KIND,
        command: Escaped(request.command.clone()),
        cwd: executor.place().in_home(executor.directory()),
    };
    let beginning = Beginning {
        run: &run,
        changes: executor.may_change(&admitted.plan),
        cancel: request.cancel.as_ref(),
    };
    let home = match executor.place().home().clone().begin(&beginning) {
        Ok(home) => home,
        Err(_) if beginning.is_cancelled() => {
            return executor.interrupted(&request.cancel.clone().unwrap_or_default());
        }
        Err(unavailable) => {
            outcome.unavailable = unavailable.why;
            return executor.unavailable(&unavailable.heard).into();
        }
    };
    let time = request.limits.time;
    let admitted = Admitted {
        cancel: match (admitted.cancel, time) {
            (None, None) => None,
            (cancel, time) => Some(cancel.unwrap_or_default().within(time)),
        },
        ..admitted
    };
    let done = executor.carry_out(admitted, home.clone(), streams);
    outcome.changed = home.has_changed();
    outcome.unavailable = home.unavailable();
    outcome.warnings.extend(home.warning());
    done
}

/// Puts a request through, and gathers what it writes.
pub fn execute_gathering<E: Executor>(
    executor: &mut E,
    request: &Request,
    stdin: Option<OwnedFd>,
) -> Outcome {
    gather(stdin, |streams| execute(executor, request, streams))
}

/// Gathers what is written to the streams of a request.
pub fn gather(stdin: Option<OwnedFd>, act: impl FnOnce(Streams) -> Outcome) -> Outcome {
    let (stdout, stderr) = (Gathered::default(), Gathered::default());
    let streams = Streams {
        stdin,
        stdout: Box::new(stdout.clone()),
        stderr: Box::new(stderr.clone()),
    };
    let outcome = act(streams);
    Outcome {
        stdout: stdout.take(),
        stderr: stderr.take(),
        ..outcome
    }
}
