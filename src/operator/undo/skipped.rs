//! What an undo could not take back: each step with its path and the reason, so that no single thing keeps the rest from being done.
//!
//! Owns the rule which failures end an undo: those that the next step would meet as well, of a disk that is full or failing. All
//! others are of one thing, and whoever worked inside may have seen to them.

use std::fmt::Display;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// How many are named.
const NAMED: usize = 1000;

/// The steps that failed while others were done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Skipped {
    named: Vec<String>,
    more: u64,
    /// At which path the undo ended, if it did.
    end: Option<String>,
    denied: bool,
}

impl Skipped {
    /// Takes the outcome of a step, and notes it where it failed; `None` then.
    ///
    /// # Errors
    /// What ends the undo; [`Skipped::end`] has the path.
    pub(super) fn or_end<T>(
        &mut self,
        what: impl Display,
        outcome: Result<T>,
    ) -> Result<Option<T>> {
        match outcome {
            Ok(done) => Ok(Some(done)),
            Err(error) if ends_all(&error) => {
                self.end = Some(what.to_string());
                Err(error)
            }
            Err(error) => {
                self.note(what, &error);
                Ok(None)
            }
        }
    }

    /// Notes something that could not be taken back.
    pub(super) fn note(&mut self, what: impl Display, error: &Error) {
        self.denied |= error.errno() == Errno::ACCESS;
        if self.named.len() < NAMED {
            self.named
                .push(format!("{what} stays as it is: {}", why(error)));
        } else {
            self.more += 1;
        }
    }

    /// Returns whether everything could be taken back.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns whether the permissions of something were in the way.
    pub fn was_denied(&self) -> bool {
        self.denied
    }

    /// Returns at which path the undo ended, if it did.
    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Returns a line for each.
    pub fn lines(self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("{} more things stay as they are", self.more));
        self.named.into_iter().chain(more)
    }
}

/// Returns whether the next step would fail for the same reason.
fn ends_all(error: &Error) -> bool {
    let errno = match error {
        Error::Os { errno, .. } => *errno,
        _ => return false,
    };
    matches!(
        errno,
        Errno::NOSPC
            | Errno::DQUOT
            | Errno::IO
            | Errno::NOMEM
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NODEV
            | Errno::NXIO
    )
}

/// Says in a line why something failed.
fn why(error: &Error) -> String {
    match error {
        Error::Conflict { what, .. }
        | Error::Missing { what, .. }
        | Error::Refused { what, .. } => what.clone(),
        error => error.to_string(),
    }
}
