//! Why a worker did not do what it was told: the path and the reason, and whether a limit was the cause.

use rustix::io::Errno;

use super::super::failure_reason::FailureReason;
pub(super) use super::worker_order::WorkerFailure;
use crate::error::Error;

/// The result of a step of an operation.
pub(super) type StepResult<T> = std::result::Result<T, WorkerFailure>;

/// Says why, where no system call failed.
pub(super) fn plain(reason: FailureReason, message: impl Into<String>) -> WorkerFailure {
    WorkerFailure {
        reason,
        has_acted: false,
        message: message.into(),
    }
}

/// Says of a failure that it came after the act.
pub(super) fn late(why: WorkerFailure) -> WorkerFailure {
    WorkerFailure {
        has_acted: true,
        ..why
    }
}

/// Says of a path why something failed.
pub(super) fn at(shown: &str, error: &Error) -> WorkerFailure {
    let errno = error.errno();
    let words = match error {
        // Of the daemon, in its words.
        Error::Refused { .. }
        | Error::Missing { .. }
        | Error::Conflict { .. }
        | Error::Partly { .. }
        | Error::System { .. } => error.full_message(),
        _ if errno == Errno::LOOP => "a symbolic link is on the path".to_owned(),
        _ => crate::error::reason(&errno.into()),
    };
    WorkerFailure {
        reason: FailureReason::of(error),
        has_acted: false,
        message: format!("{shown}: {words}"),
    }
}

/// As [`at`], of an errno.
pub(super) fn os(shown: &str, call: &'static str) -> impl FnOnce(Errno) -> WorkerFailure {
    let shown = shown.to_owned();
    move |errno| at(&shown, &Error::os(call)(errno))
}
