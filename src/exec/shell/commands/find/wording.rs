//! What `find` says of an expression that is typed wrongly, in GNU's words.

use crate::exec::shell::call::{Stop, usage};

/// Says that a predicate has no argument.
pub(super) fn missing(typed: &[u8]) -> Stop {
    usage([b"missing argument to `", typed, b"'"].concat())
}

/// Says that an argument is none for its predicate.
pub(super) fn invalid(arg: &[u8], typed: &[u8]) -> Stop {
    usage([b"invalid argument `", arg, b"' to `", typed, b"'"].concat())
}
