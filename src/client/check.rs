//! Checking a store, and repairing what can be repaired.

use super::target::Client;
use crate::error::{Error, Result};
use crate::operator::fsck::{CheckProgress, FsckReport, check, repair};

impl Client {
    /// Checks whether journal, trash and former contents agree with each other. `contents` says whether contents are
    /// read.
    ///
    /// # Errors
    /// As [`check`].
    pub fn check(&self, contents: bool, step: &mut dyn FnMut(CheckProgress)) -> Result<FsckReport> {
        self.seal();
        check(&self.store, contents, step)
    }

    /// Checks, and repairs what can be. Deletes nothing of the occupant's.
    ///
    /// # Errors
    /// [`Error::Refused`] where the store is mounted; as [`repair`].
    pub fn repair(
        &self,
        contents: bool,
        step: &mut dyn FnMut(CheckProgress),
    ) -> Result<FsckReport> {
        if self.store.served_by()?.is_some() {
            return Err(Error::refused(
                "the store is mounted; nothing was repaired",
                "Unmount it first. Without --repair it can be checked while it is mounted.",
            ));
        }
        repair(&self.store, contents, step)
    }
}
