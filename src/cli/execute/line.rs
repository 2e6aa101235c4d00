//! One line: what it reads, and what is said after it.

use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use super::super::exit::{report_failure, report_failure_as_json};
use super::super::output::warn;
use crate::error::{Error, Result, reason};
use crate::exec::interrupt::SIGNALS;
use crate::exec::pipeline::RequestStreams;
use crate::exec::{InterruptSignals, LineShell, Outcome, Request, Status};

/// Returns this program's standard input as commands read it.
pub(in crate::cli) fn stdin() -> Option<OwnedFd> {
    std::io::stdin().as_fd().try_clone_to_owned().ok()
}

/// Takes over the signals that end a line.
pub(in crate::cli) fn take_signals() -> Result<InterruptSignals> {
    InterruptSignals::on(&SIGNALS).map_err(|error| {
        Error::refused(
            format!("signals cannot be handled: {}", reason(&error)),
            "Nothing was run.",
        )
    })
}

/// Returns what a line of this shell reads: a program that has a terminal can act on the session of its user.
pub(in crate::cli) fn input(shell: &LineShell) -> Option<OwnedFd> {
    let is_program = matches!(shell, LineShell::System(_));
    stdin().filter(|_| !(is_program && std::io::stdin().is_terminal()))
}

/// Runs a line with this program's streams; signals end it. Returns what came of it, and whether one came.
pub(in crate::cli) fn run(
    shell: &mut LineShell,
    line: &[u8],
    interrupt: &InterruptSignals,
) -> (Outcome, bool) {
    interrupt.during(|cancel| {
        let request = Request {
            cancel: Some(cancel),
            ..shell.request(line)
        };
        let streams = RequestStreams {
            stdin: input(shell),
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        };
        shell.run(&request, streams)
    })
}

/// Says after a line what an operator should know; the commands of the line have said no more than an errno. Returns
/// the line's exit code, or where the store could not be had for it, that of this.
pub(in crate::cli) fn print_outcome(outcome: &Outcome, as_json: bool) -> ExitCode {
    // In JSON the outcome has them.
    for warning in outcome.warnings.iter().filter(|_| !as_json) {
        warn(false, &format!("warning: {warning}"));
    }
    let unavailable = outcome.unavailable.as_ref().map(|error| {
        if as_json {
            report_failure_as_json(error.clone())
        } else {
            report_failure(error)
        }
    });
    match unavailable {
        Some(code) if outcome.status == Status::Blocked => code,
        _ => ExitCode::from(outcome.return_code),
    }
}
