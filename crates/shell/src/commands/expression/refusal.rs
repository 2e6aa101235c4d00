//! Reasons for which a pattern is not translated.

use crate::call::{CommandError, LineRejection};

/// The reason for which a pattern is not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum PatternError {
    /// A malformed pattern: an error of the command, in the words of regcomp(3) or PCRE.
    Malformed(&'static str),
    /// A valid pattern with a construct that is not supported, by name: it ends the line.
    Unsupported(&'static str),
}

/// The error for an expression that is too large for the automata.
pub(in super::super) const TOO_LARGE: PatternError =
    PatternError::Unsupported("an expression of this size");

/// The status of a line with an unsupported pattern.
const REFUSED_STATUS: u8 = 2;

impl PatternError {
    /// Returns the error of a command, which is named with its option.
    pub(in super::super) fn into_command_error(self, command: &str, status: u8) -> CommandError {
        match self {
            PatternError::Malformed(message) => CommandError::Usage(message.into(), status),
            PatternError::Unsupported(what) => CommandError::Rejected(rejection(command, what)),
        }
    }

    /// Returns the rejection of a line with an unsupported pattern.
    pub(in super::super) fn into_rejection(self, command: &str) -> Option<LineRejection> {
        match self {
            PatternError::Malformed(_) => None,
            PatternError::Unsupported(what) => Some(rejection(command, what)),
        }
    }
}

fn rejection(command: &str, what: &str) -> LineRejection {
    let way_out = match command {
        "grep -P" => "use grep -E without it, or python3 -c",
        _ => "write the pattern without it, or use python3 -c",
    };
    LineRejection {
        message: format!("bash: {command}: {what} is not supported; {way_out}").into_bytes(),
        status: REFUSED_STATUS,
    }
}
