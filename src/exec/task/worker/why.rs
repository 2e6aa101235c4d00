//! Why a worker did not do what it was told: the path and the reason, and whether a limit was the cause.

use rustix::io::Errno;

use super::order::Failed;
use crate::error::Error;

/// Why an operation failed.
pub(super) type Why = Failed;

/// What a step of an operation comes to.
pub(super) type Step<T> = std::result::Result<T, Why>;

/// Says why, where no system call failed.
pub(super) fn plain(message: impl Into<String>) -> Why {
    Failed {
        exhausted: false,
        has_acted: false,
        message: message.into(),
    }
}

/// Says of a failure that it came after the act.
pub(super) fn late(why: Why) -> Why {
    Failed {
        has_acted: true,
        ..why
    }
}

/// Says of a path why something failed.
pub(super) fn at(shown: &str, error: &Error) -> Why {
    let errno = error.errno();
    let reason = match error {
        // Of the daemon, in its words.
        Error::Refused { .. }
        | Error::Missing { .. }
        | Error::Conflict { .. }
        | Error::Partly { .. }
        | Error::System { .. } => error.told(),
        _ if errno == Errno::LOOP => "a symbolic link is on the path".to_owned(),
        _ => crate::error::reason(&errno.into()),
    };
    Failed {
        exhausted: matches!(
            errno,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::NOMEM | Errno::MFILE | Errno::NFILE
        ),
        has_acted: false,
        message: format!("{shown}: {reason}"),
    }
}

/// As [`at`], of an errno.
pub(super) fn os(shown: &str, call: &'static str) -> impl FnOnce(Errno) -> Why {
    let shown = shown.to_owned();
    move |errno| at(&shown, &Error::os(call)(errno))
}
