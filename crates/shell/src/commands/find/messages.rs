//! The messages of `find` for malformed expressions, in GNU's words.

use crate::call::{CommandError, usage};

/// Returns the error for a predicate without its argument.
pub(super) fn missing(typed: &[u8]) -> CommandError {
    usage([b"missing argument to `", typed, b"'"].concat())
}

/// Returns the error for an invalid argument of a predicate.
pub(super) fn invalid(arg: &[u8], typed: &[u8]) -> CommandError {
    usage([b"invalid argument `", arg, b"' to `", typed, b"'"].concat())
}
