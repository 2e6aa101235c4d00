//! Carries out a line that was admitted, within its time and memory, and says how it ended.
//!
//! A line that can be ended runs on a thread of its own. It looks at its token wherever it waits or turns, so it ends
//! by itself; only a system call that hangs in a disk or in another file system keeps it. Then its thread is left
//! behind with what it holds, and whoever asked goes on.

use std::sync::Arc;
use std::time::Duration;

use super::call::{ShellState, of_io, reason};
use super::deadline::{Deadline, Leaving};
use super::run::{self, Streams};
use super::stream::{Input, Output};
use super::syntax::List;
use super::thread_pool::Join;
use trumanfs_executor::cancel::{Cancel, Ended};
use trumanfs_executor::home::Home;
use trumanfs_executor::pipeline::{self, Admitted, Done};
use trumanfs_executor::request::Status;

/// The status of a line whose time was up, as timeout(1) has it.
const LATE: u8 = 124;

/// How long a line that has to end is waited for.
const GRACE: Duration = Duration::from_secs(2);

/// A line that may run.
#[derive(Debug)]
pub struct Line(pub(super) List);

/// Carries a line out in a copy of the shell. Returns how it ended, and the shell after it; none where the line was
/// left behind.
pub(super) fn carry_out(
    admitted: Admitted<Line>,
    home: Arc<dyn Home>,
    streams: pipeline::Streams,
    state: &ShellState,
) -> (Done, Option<ShellState>) {
    let mut state = state.clone();
    let cancel = admitted.cancel().cloned();
    let variables = state.variables.iter();
    let held = variables
        .map(|(name, value)| name.len() + value.len())
        .sum();
    state.line_programs = state
        .programs
        .as_ref()
        .map(|programs| programs.begin(home.clone(), admitted.run()));
    state.home = home;
    state.deadline = Deadline::new(cancel.clone().unwrap_or_default(), admitted.memory(), held);
    let threads = state.threads.clone();
    let line = move || {
        let mut done = Done::ran(0);
        let mut streams = Some(streams);
        let home = state.home.clone();
        home.work(&mut || {
            if let Some(streams) = streams.take() {
                done = line(&admitted, streams, &mut state);
            }
        });
        (done, Some(state))
    };
    let Some(cancel) = cancel else {
        return line();
    };
    match threads.start(line) {
        Ok(working) => match working.join_within(&cancel, GRACE) {
            Join::Done(ended) => ended,
            Join::Panicked => (
                Done::early(Status::Error, 1, "bash: the line broke off"),
                None,
            ),
            Join::LeftBehind => {
                let left_behind = true;
                (
                    Done {
                        left_behind,
                        ..early(&cancel)
                    },
                    None,
                )
            }
        },
        Err(error) => {
            let why = reason(of_io(&error).errno());
            (Done::early(Status::Error, 1, format!("bash: {why}")), None)
        }
    }
}

fn line(admitted: &Admitted<Line>, streams: pipeline::Streams, state: &mut ShellState) -> Done {
    let mut stdin = streams
        .stdin
        .map_or_else(Input::empty, |fd| Input::file(fd.into(), &state.deadline));
    let mut streams = Streams {
        stdin: &mut stdin,
        out: Output::leaving(streams.stdout, Leaving::Stdout),
        err: Output::leaving(streams.stderr, Leaving::Stderr),
    };
    let ended = run::list(&admitted.plan().0, &mut streams, state);
    let deadline = &state.deadline;
    let done = match deadline.refused() {
        _ if ended.is_err() && state.is_lost() => lost(),
        Some(status) if deadline.is_exhausted() => {
            let most = admitted.memory() >> 20;
            let message = format!("bash: the line needs more than {most} MiB of memory");
            Done::early(Status::Error, status, message)
        }
        // Said where it happened.
        Some(status) => Done::blocked(status, deadline.reason()),
        None => match ended {
            Ok(_) => Done::ran(state.status),
            Err(_) => early(&deadline.cancel),
        },
    };
    Done {
        truncated: deadline.truncated(),
        ..done
    }
}

/// Says that somebody ended a line.
pub(super) fn interrupted(cancel: &Cancel) -> Done {
    Done::cancelled(cancel, "bash: interrupted")
}

/// Says that a line's home went away.
fn lost() -> Done {
    let message = "bash: the daemon of the home ended while the line ran; the rest of the line did not run. What was \
                   changed until then is recorded; `trumanfs umount` takes the home away, then mount it again";
    Done::early(Status::Error, run::LOST, message)
}

/// Says how a line ended that had to.
fn early(cancel: &Cancel) -> Done {
    match cancel.ended() {
        Some(Ended::Cancelled) => interrupted(cancel),
        _ => Done::early(Status::Timeout, LATE, "bash: the line's time is up"),
    }
}
