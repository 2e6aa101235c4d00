//! The messages of `find` for malformed expressions, in GNU's words.

use crate::call::{CommandError, usage_error};

/// Returns the error for a predicate without its argument.
pub(super) fn missing_argument(typed: &[u8]) -> CommandError {
    usage_error([b"missing argument to `", typed, b"'"].concat())
}

/// Returns the error for an invalid argument of a predicate.
pub(super) fn invalid_argument(arg: &[u8], typed: &[u8]) -> CommandError {
    usage_error([b"invalid argument `", arg, b"' to `", typed, b"'"].concat())
}
