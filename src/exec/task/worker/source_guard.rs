//! The guard of a file while it is copied: a read lease of the kernel, else a second reading, shows that the file stays
//! as it is.
//!
//! Owns the rule for copies. Whoever has a file open for writing, or mapped so, changes it without moving its times, so times
//! alone show nothing. A lease is granted while nobody has, and ends when somebody begins to.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::super::failure_reason::FailureReason;
use super::content_hash::hash;
use super::worker_failure::{StepResult, WorkerFailure, plain};
use super::worker_order::WorkerOutput;
use crate::sys::file_lease;

/// The guard of a file that is copied, for as long as the file is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceGuard<'s> {
    file: BorrowedFd<'s>,
    shown: &'s str,
    /// True if the kernel gave a lease. It gives none on a file system without leases, nor for another user's file.
    has_lease: bool,
}

impl<'s> SourceGuard<'s> {
    /// Takes the lease of a file that is about to be copied.
    ///
    /// # Errors
    /// A program has the file open for writing.
    pub(super) fn take(file: BorrowedFd<'s>, shown: &'s str) -> StepResult<SourceGuard<'s>> {
        let has_lease = match file_lease::take(file) {
            Ok(()) => true,
            Err(Errno::AGAIN) => {
                return Err(plain(
                    FailureReason::InUse,
                    format!(
                        "{shown}: it may have changed while it was copied: a program has it open or mapped for writing; try again \
                     when that has closed it"
                    ),
                ));
            }
            Err(_) => false,
        };
        Ok(SourceGuard {
            file,
            shown,
            has_lease,
        })
    }

    /// Fails where somebody has begun to write to the file, as far as the kernel tells: whoever opens it waits meanwhile.
    pub(super) fn check(&self) -> StepResult<()> {
        match self.has_lease && !file_lease::holds(self.file) {
            true => Err(changed(self.shown)),
            false => Ok(()),
        }
    }

    /// Fails where a copy is not what the file is now.
    pub(super) fn check_copy(&self, copy: &WorkerOutput) -> StepResult<()> {
        self.check()?;
        let is_same =
            self.has_lease || copy.sha256.as_deref() == Some(&*hash(self.file, self.shown)?);
        match is_same {
            true => Ok(()),
            false => Err(changed(self.shown)),
        }
    }
}

/// Says that a file was written to while it was copied.
pub(super) fn changed(shown: &str) -> WorkerFailure {
    plain(
        FailureReason::Changed,
        format!("{shown}: it was changed while it was copied"),
    )
}
