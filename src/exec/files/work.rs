//! The context that operations on files work with, and the form of their errors: `path: reason`.

use std::io;

use rustix::io::Errno;

use crate::error::Error;
use crate::exec::cancel::CancelToken;
use crate::exec::home::{Home, reason};
use crate::exec::resolve::PathResolver;
use crate::name::{WorldPath, escape};

/// The message of an operation that failed: its path and the reason.
pub(super) type FileError = Vec<u8>;

/// Says of a path why something failed.
pub(super) fn at(path: &[u8], error: &Error) -> FileError {
    let reason = reason(error.errno());
    format!("{}: {reason}", escape(path)).into_bytes()
}

/// Returns the error that reading or writing ended with.
pub(super) fn of_io(error: &io::Error) -> Error {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    Error::os("read or write")(errno)
}

/// The context that an operation works with.
pub(super) struct FileContext<'w> {
    /// The home.
    pub(super) home: &'w dyn Home,
    /// The resolver of paths; it has the directory at which relative paths begin.
    pub(super) base: PathResolver<'w>,
    /// The token that ends the operation.
    pub(super) cancel: &'w CancelToken,
}

impl FileContext<'_> {
    /// Resolves a path.
    pub(super) fn path(&self, typed: &[u8]) -> Result<WorldPath, FileError> {
        self.base.resolve(typed).map_err(|error| at(typed, &error))
    }

    /// Resolves the path of a file to be made.
    pub(super) fn path_to_make(&self, typed: &[u8]) -> Result<WorldPath, FileError> {
        let path = self.base.resolve_new_file(typed);
        path.map_err(|error| at(typed, &error))
    }

    /// Returns whether the operation may go on.
    pub(super) fn goes_on(&self) -> bool {
        self.cancel.ended().is_none()
    }

    /// Fails once the operation has to end.
    pub(super) fn check(&self) -> Result<(), FileError> {
        match self.goes_on() {
            true => Ok(()),
            false => Err(b"it was ended".to_vec()),
        }
    }
}
