//! The one pipeline of all executors: a request is admitted or refused as a whole, runs within its limits, ends in an
//! [`Outcome`], and leaves one line in the audit log.
//!
//! Owns the order of these steps. An [`Executor`] decides which requests it admits, and carries them out; executors do
//! not know each other. Only an [`AdmittedRequest`] is carried out, and only `admit` makes one.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::cancel::CancelToken;
use super::home::{Home, RequestStart};
use super::home_context::HomeContext;
use super::request::{Outcome, ProgramReport, Refusal, Request, Status};
pub use super::streams::RequestStreams;
use super::streams::{OutputBuffer, SharedOutput};
use rustix::io::Errno;
use signal_hook::low_level::signal_name;

use trumanfs_types::error::{Error, reason};
use trumanfs_types::name::{EscapedBytes, WorldPath, escape};
use trumanfs_types::origin::{OriginKind, Run, RunId};

/// The signal that a cancellation by the caller counts as: Ctrl-C.
const SIGINT: u8 = 2;

/// An executor: it carries out requests of one kind.
pub trait Executor {
    /// A request that can run, in the form of this executor.
    type Plan;

    /// The product of a request besides its text and its return code.
    type Output;

    /// The origin that records give for changes of this executor.
    const KIND: OriginKind;

    /// Returns the home that the executor works in.
    fn context(&self) -> &HomeContext;

    /// Returns the working directory, as `pwd` prints it.
    fn cwd(&self) -> Vec<u8>;

    /// Returns the working directory, as a path from the root.
    fn directory(&self) -> &WorldPath;

    /// Decides whether a request runs.
    ///
    /// # Errors
    /// The refusal: nothing of the request runs.
    fn plan(&self, request: &Request) -> Result<Self::Plan, Refusal>;

    /// Returns whether a plan may change something in the home.
    fn may_change(&self, plan: &Self::Plan) -> bool;

    /// Returns the name of the lines of a plan's output, for the note about the omitted part.
    fn noun(&self, plan: &Self::Plan) -> &'static str;

    /// Returns the refusal for a home that cannot be changed, with its message.
    fn unavailable(&self, error: &Error) -> Refusal;

    /// Returns the end of a request that was cancelled before it began.
    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd;

    /// Stores the return code of a request: `$?` of a shell.
    fn store_return_code(&mut self, return_code: u8);

    /// Returns the report on real programs of the last request, if any.
    fn report(&mut self) -> Option<Box<ProgramReport>> {
        None
    }

    /// Carries out an admitted request, in this home, until the token ends it.
    fn carry_out(
        &mut self,
        admitted: AdmittedRequest<Self::Plan>,
        home: Arc<dyn Home>,
        streams: RequestStreams,
    ) -> (RequestEnd, Self::Output);
}

/// A request that may run, which only `admit` makes.
#[derive(Debug)]
pub struct AdmittedRequest<P> {
    plan: P,
    /// The token that ends the request, if any.
    cancel: Option<CancelToken>,
    memory: u64,
    run: RunId,
}

impl<P> AdmittedRequest<P> {
    /// Returns the plan.
    pub fn plan(&self) -> &P {
        &self.plan
    }

    /// Returns the cancellation token, which also ends when the time is up; `None` for a request without either.
    pub fn cancel(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// Returns the maximum number of bytes held in memory; 0 for no limit.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the run of the request.
    pub fn run(&self) -> RunId {
        self.run
    }
}

/// The end of a request, as its executor reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEnd {
    /// The kind of end.
    pub status: Status,
    /// The return code.
    pub return_code: u8,
    /// The reason for an early end.
    pub message: Option<Vec<u8>>,
    /// True if the message is still to be written, last on standard error.
    pub message_pending: bool,
    /// True if a thread of the request was left behind, in a system call that does not return.
    pub left_behind: bool,
    /// True, for standard output and for standard error, if the executor has already left something out.
    pub truncated: [bool; 2],
}

impl RequestEnd {
    /// Returns the end of a request that ran to its end.
    pub fn finished(return_code: u8) -> RequestEnd {
        RequestEnd {
            status: match return_code {
                0 => Status::Success,
                _ => Status::Failed,
            },
            return_code,
            message: None,
            message_pending: false,
            left_behind: false,
            truncated: [false; 2],
        }
    }

    /// Returns the end of a cancelled request, with the return code for its signal, or for SIGINT without one. `what`
    /// begins the message.
    pub fn cancelled(cancel: &CancelToken, what: &str) -> RequestEnd {
        let signal = cancel.signal();
        let name = signal.and_then(|signal| signal_name(signal.into()));
        let message = match name {
            Some(name) => format!("{what} by {name}"),
            None => what.to_owned(),
        };
        let number = signal.unwrap_or(SIGINT);
        RequestEnd::ended_early(Status::Cancelled, 128_u8.saturating_add(number), message)
    }

    /// Turns a success into a failure if the output could not be written.
    fn unless_unwritten(self, failed: Option<Errno>) -> RequestEnd {
        match (self.status, failed) {
            (Status::Success, Some(errno)) => {
                let message = format!("standard output: {}", reason(&errno.into()));
                RequestEnd::ended_early(Status::Failed, 1, message)
            }
            _ => self,
        }
    }

    /// Returns the end of a request that was refused midway; the reason has been written to standard error.
    pub fn blocked(return_code: u8, message: Option<Vec<u8>>) -> RequestEnd {
        RequestEnd {
            status: Status::Blocked,
            return_code,
            message,
            message_pending: false,
            left_behind: false,
            truncated: [false; 2],
        }
    }

    /// Returns an early end, with its message, which is still to be written.
    pub fn ended_early(status: Status, return_code: u8, message: impl Into<Vec<u8>>) -> RequestEnd {
        RequestEnd {
            status,
            return_code,
            message: Some(message.into()),
            message_pending: true,
            left_behind: false,
            truncated: [false; 2],
        }
    }
}

impl From<Refusal> for RequestEnd {
    fn from(refusal: Refusal) -> RequestEnd {
        RequestEnd::ended_early(Status::Blocked, refusal.return_code, refusal.message)
    }
}

/// Admits a request. Its time begins when it is carried out.
///
/// # Errors
/// The refusal: nothing of the request runs.
fn admit<E: Executor>(
    executor: &E,
    request: &Request,
    run: RunId,
) -> Result<AdmittedRequest<E::Plan>, Refusal> {
    Ok(AdmittedRequest {
        plan: executor.plan(request)?,
        cancel: request.cancel.clone(),
        memory: request.limits.memory,
        run,
    })
}

/// Runs a request through all steps, with the given streams. Returns its output too, unless it was refused or ended before
/// it was carried out.
pub fn execute<E: Executor>(
    executor: &mut E,
    request: &Request,
    streams: RequestStreams,
) -> (Outcome, Option<E::Output>) {
    let begun = Instant::now();
    let run = request.run.unwrap_or_else(RunId::random);
    let cwd = executor.cwd();
    let stderr = SharedOutput::new(streams.stderr, &request.limits, "lines");
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
    let mut output = None;
    let done = match admit(executor, request, run) {
        Err(refusal) => refusal.into(),
        Ok(admitted) => {
            let stdout = SharedOutput::new(
                streams.stdout,
                &request.limits,
                executor.noun(&admitted.plan),
            );
            let streams = RequestStreams {
                stdin: streams.stdin,
                stdout: Box::new(stdout.clone()),
                stderr: Box::new(stderr.clone()),
            };
            let done;
            (done, output) = run_admitted(executor, request, admitted, streams, &mut outcome);
            outcome.truncated_stdout = stdout.finish();
            outcome.written[0] = stdout.written();
            done.unless_unwritten(stdout.write_error())
        }
    };
    if let Some(message) = &done.message {
        if done.message_pending {
            stderr.write_line(message);
        }
        outcome.error_message = Some(String::from_utf8_lossy(message).into_owned());
    }
    if let Some(error) = &outcome.unavailable {
        outcome.error_message = Some(error.full_message());
    }
    outcome.truncated_stdout |= done.truncated[0];
    outcome.truncated_stderr = stderr.finish() | done.truncated[1];
    outcome.written[1] = stderr.written();
    (outcome.status, outcome.return_code) = (done.status, done.return_code);
    executor.store_return_code(done.return_code);
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
    let warning = executor.context().audit(E::KIND, request, &cwd, &outcome);
    outcome.warnings.extend(warning);
    (outcome, output)
}

/// The warning for a thread that was left behind.
const LEFT_BEHIND: &str = "a thread was left behind: a system call of it does not return";

fn run_admitted<E: Executor>(
    executor: &mut E,
    request: &Request,
    admitted: AdmittedRequest<E::Plan>,
    streams: RequestStreams,
    outcome: &mut Outcome,
) -> (RequestEnd, Option<E::Output>) {
    let run = Run {
        id: outcome.run,
        kind: E::KIND,
        command: EscapedBytes(request.command.clone()),
        cwd: executor.context().path_in_home(executor.directory()),
        also: Vec::new(),
    };
    let beginning = RequestStart {
        run: &run,
        changes: executor.may_change(&admitted.plan),
        cancel: request.cancel.as_ref(),
    };
    let home = match executor.context().home().clone().begin(&beginning) {
        Ok(home) => home,
        Err(_) if beginning.is_cancelled() => {
            let cancel = request.cancel.clone().unwrap_or_default();
            return (executor.interrupted(&cancel), None);
        }
        Err(unavailable) => {
            outcome.unavailable = unavailable.detail;
            return (executor.unavailable(&unavailable.reported).into(), None);
        }
    };
    let time = request.limits.time;
    let admitted = AdmittedRequest {
        cancel: match (admitted.cancel, time) {
            (None, None) => None,
            (cancel, time) => Some(cancel.unwrap_or_default().within(time)),
        },
        ..admitted
    };
    let (done, output) = executor.carry_out(admitted, home.clone(), streams);
    outcome.changed = home.has_changed();
    outcome.unavailable = home.unavailable();
    outcome.warnings.extend(home.warning());
    (done, Some(output))
}

/// Runs a request through all steps, and gathers its output in the outcome.
pub fn execute_gathering<E: Executor>(
    executor: &mut E,
    request: &Request,
    stdin: Option<OwnedFd>,
) -> (Outcome, Option<E::Output>) {
    let mut output = None;
    let outcome = gather(stdin, |streams| {
        let outcome;
        (outcome, output) = execute(executor, request, streams);
        outcome
    });
    (outcome, output)
}

/// Runs `act` with streams in memory, and puts their content into its outcome.
pub fn gather(stdin: Option<OwnedFd>, act: impl FnOnce(RequestStreams) -> Outcome) -> Outcome {
    let (stdout, stderr) = (OutputBuffer::default(), OutputBuffer::default());
    let streams = RequestStreams {
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
