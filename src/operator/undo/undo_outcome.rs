//! The result of applying a plan, with the steps that failed: each with its path and the reason, so that one failure
//! does not prevent the rest.
//!
//! Owns the rule for which errors end an undo: those that every further step would meet too, of a full or failing
//! disk. All others concern a single file, and an occupant may have provoked them.

use std::fmt::Display;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// The result of an undo.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct UndoOutcome {
    /// The number of its record in the session; `None` where there was nothing to do.
    pub record: Option<u64>,
    /// The number of nodes that moved.
    pub moves: u64,
    /// The number of contents that were restored.
    pub contents: u64,
    /// The number of nodes whose attributes were changed.
    pub attributes: u64,
    /// The changes that failed while the rest was made.
    pub skipped: SkippedSteps,
    /// The error that stopped it half-way, if any.
    pub failed: Option<Error>,
}

/// The number of steps that are listed.
const MAX_LISTED_STEPS: usize = 1000;

/// The steps that failed while others succeeded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SkippedSteps {
    named: Vec<String>,
    more: u64,
    /// The path at which the undo ended, if it did.
    end: Option<String>,
    denied: bool,
}

impl SkippedSteps {
    /// Returns the value of a step; notes a failed one and returns `None`.
    ///
    /// # Errors
    /// An error that ends the undo; [`SkippedSteps::end`] has the path.
    pub(super) fn value_or_note<T>(
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

    /// Notes a step that failed.
    pub(super) fn note(&mut self, what: impl Display, error: &Error) {
        self.denied |= error.errno() == Errno::ACCESS;
        if self.named.len() < MAX_LISTED_STEPS {
            self.named
                .push(format!("{what} stays as it is: {}", describe_error(error)));
        } else {
            self.more += 1;
        }
    }

    /// Returns whether no step failed.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns whether any step failed for lack of permission.
    pub fn was_denied(&self) -> bool {
        self.denied
    }

    /// Returns the path at which the undo ended, if it did.
    pub fn ended_at(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Returns a line for each failed step.
    pub fn lines(self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("{} more things stay as they are", self.more));
        self.named.into_iter().chain(more)
    }
}

/// Returns whether every further step would fail for the same reason.
fn ends_all(error: &Error) -> bool {
    let errno = match error {
        Error::Os { errno, .. } => *errno,
        // The disk failed while a file was being written.
        Error::Partly { .. } => return true,
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

/// Describes an error in a line.
fn describe_error(error: &Error) -> String {
    match error {
        Error::Conflict { what, .. }
        | Error::Missing { what, .. }
        | Error::Refused { what, .. } => what.clone(),
        error => error.to_string(),
    }
}
