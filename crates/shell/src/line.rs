//! Carries out an admitted line within its time and memory, and words its end.
//!
//! A line with a token runs on a thread of its own. Each wait and each loop checks the token, so the line ends by
//! itself, unless a system call hangs in a disk or in another file system. Then the thread is left behind with
//! everything it holds, and the caller goes on.

use std::sync::Arc;
use std::time::Duration;

use super::call::{ShellState, from_io_error, reason};
use super::deadline::{Deadline, LineStream};
use super::run::{self, CommandStreams};
use super::stream::{Input, Output};
use super::syntax::CommandList;
use super::thread_pool::JoinResult;
use trumanfs_executor::cancel::{CancelReason, CancelToken};
use trumanfs_executor::home::Home;
use trumanfs_executor::pipeline::{self, AdmittedRequest, RequestEnd};
use trumanfs_executor::request::Status;

/// The status of a line whose time was up, as with timeout(1).
const TIMED_OUT_STATUS: u8 = 124;

/// The time that a line has to end in, once it has to.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// A line that was parsed and admitted.
#[derive(Debug)]
pub struct ParsedLine(pub(super) CommandList);

/// Carries a line out in a copy of the shell's state. Returns its end, and the state afterwards; `None` if the line was
/// left behind.
pub(super) fn carry_out(
    admitted: AdmittedRequest<ParsedLine>,
    home: Arc<dyn Home>,
    streams: pipeline::RequestStreams,
    state: &ShellState,
) -> (RequestEnd, Option<ShellState>) {
    let mut state = state.clone();
    let cancel = admitted.cancel().cloned();
    let variables = state.variables.iter();
    let held = variables
        .map(|(name, value)| name.len() + value.len())
        .sum();
    state.line_programs = state
        .programs
        .as_ref()
        .map(|programs| programs.begin_line(home.clone(), admitted.run()));
    state.home = home;
    state.deadline = Deadline::new(cancel.clone().unwrap_or_default(), admitted.memory(), held);
    let threads = state.threads.clone();
    let line = move || {
        let mut done = RequestEnd::finished(0);
        let mut streams = Some(streams);
        let home = state.home.clone();
        home.run_part(&mut || {
            if let Some(streams) = streams.take() {
                done = run_line(&admitted, streams, &mut state);
            }
        });
        (done, Some(state))
    };
    let Some(cancel) = cancel else {
        return line();
    };
    match threads.start(line) {
        Ok(working) => match working.join_within(&cancel, GRACE_PERIOD) {
            JoinResult::Done(ended) => ended,
            JoinResult::Panicked => (
                RequestEnd::ended_early(Status::Error, 1, "bash: the line broke off"),
                None,
            ),
            JoinResult::LeftBehind => {
                let left_behind = true;
                (
                    RequestEnd {
                        left_behind,
                        ..ended_early(&cancel)
                    },
                    None,
                )
            }
        },
        Err(error) => {
            let why = reason(from_io_error(&error).errno());
            (
                RequestEnd::ended_early(Status::Error, 1, format!("bash: {why}")),
                None,
            )
        }
    }
}

fn run_line(
    admitted: &AdmittedRequest<ParsedLine>,
    streams: pipeline::RequestStreams,
    state: &mut ShellState,
) -> RequestEnd {
    let mut stdin = streams
        .stdin
        .map_or_else(Input::empty, |fd| Input::file(fd.into(), &state.deadline));
    let mut streams = CommandStreams {
        stdin: &mut stdin,
        out: Output::line_output(streams.stdout, LineStream::Stdout),
        err: Output::line_output(streams.stderr, LineStream::Stderr),
    };
    let ended = run::run_list(&admitted.plan().0, &mut streams, state);
    let deadline = &state.deadline;
    let done = match deadline.refusal_status() {
        _ if ended.is_err() && state.is_lost() => home_lost(),
        Some(status) if deadline.is_exhausted() => {
            let most = admitted.memory() >> 20;
            let message = format!("bash: the line needs more than {most} MiB of memory");
            RequestEnd::ended_early(Status::Error, status, message)
        }
        // The message was written where the refusal happened.
        Some(status) => RequestEnd::blocked(status, deadline.refusal_message()),
        None => match ended {
            Ok(_) => RequestEnd::finished(state.status),
            Err(_) => ended_early(&deadline.cancel),
        },
    };
    RequestEnd {
        truncated: deadline.truncated(),
        ..done
    }
}

/// Returns the end of a cancelled line.
pub(super) fn interrupted(cancel: &CancelToken) -> RequestEnd {
    RequestEnd::cancelled(cancel, "bash: interrupted")
}

/// Returns the end of a line whose home went away.
fn home_lost() -> RequestEnd {
    let message = "bash: the daemon of the home ended while the line ran; the rest of the line did not run. What was \
                   changed until then is recorded; `trumanfs umount` takes the home away, then mount it again";
    RequestEnd::ended_early(Status::Error, run::HOME_LOST_STATUS, message)
}

/// Returns the end of a line whose token has ended.
fn ended_early(cancel: &CancelToken) -> RequestEnd {
    match cancel.ended() {
        Some(CancelReason::Cancelled) => interrupted(cancel),
        _ => RequestEnd::ended_early(
            Status::Timeout,
            TIMED_OUT_STATUS,
            "bash: the line's time is up",
        ),
    }
}
