//! Ends of commands: exit codes, and messages of failures.

use std::process::ExitCode;

use super::escaping::{print_error, print_error_json};
use crate::error::{Error, FailureKind};

/// The meaning of a command's end, for scripts. A public contract: numbers never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitReason {
    /// The request was carried out.
    Ok = 0,
    /// Nothing was found; or, of a comparison, something differs.
    Nothing = 1,
    /// The command was typed wrongly.
    Usage = 2,
    /// The thing is not there.
    Missing = 3,
    /// Something is in the way; nothing was changed.
    Conflict = 4,
    /// Part of it was done.
    Partly = 5,
    /// The command was refused before anything was done.
    Refused = 6,
    /// The system could not.
    System = 7,
}

impl ExitReason {
    /// Returns the exit code of a kind of failure.
    pub(super) fn of(kind: FailureKind) -> ExitReason {
        match kind {
            FailureKind::Usage => ExitReason::Usage,
            FailureKind::Missing => ExitReason::Missing,
            FailureKind::Conflict => ExitReason::Conflict,
            FailureKind::Partly => ExitReason::Partly,
            FailureKind::Refused => ExitReason::Refused,
            FailureKind::System => ExitReason::System,
        }
    }
}

impl From<ExitReason> for ExitCode {
    fn from(exit: ExitReason) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Says what went wrong, in words. Returns the exit code that stands for it.
pub(super) fn report_failure(error: &Error) -> ExitCode {
    print_error(format_args!("trumanfs: {}", error.full_message()));
    ExitReason::of(error.kind()).into()
}

/// Says what went wrong, as an object. Returns the exit code that stands for it.
pub(super) fn report_failure_as_json(error: Error) -> ExitCode {
    let kind = error.kind();
    let exit = ExitReason::of(kind);
    let (what, remedy) = error.into_words();
    let error =
        serde_json::json!({ "kind": kind, "exit": exit as u8, "what": what, "remedy": remedy });
    print_error_json(&serde_json::json!({ "error": error }));
    exit.into()
}

/// Adds to a failure of which part may have been done how to go on.
pub(super) fn with_advice(error: Error, next: &str) -> Error {
    match error {
        Error::Partly { what, remedy } => Error::Partly {
            what,
            remedy: format!("{remedy} {next}").trim_start().to_owned(),
        },
        error => error,
    }
}

/// Returns what clap says, as one of our errors.
pub(super) fn from_clap(error: &clap::Error) -> Error {
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(what);
    Error::usage(
        what,
        "`trumanfs help` and `--help` behind any command show what there is.",
    )
}
