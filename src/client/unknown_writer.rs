//! Changes made directly in a store while a run worked there that no wall kept from it: they are found and recorded at the
//! run's end, or by the next run where that one was killed.

use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::unknown_writer::StoreSnapshot;
use crate::world::RunId;

/// The maximum number of files in one request to a daemon.
const MAX_WRITES: usize = 1000;

impl Client {
    /// Returns the files of the store as they are, for [`Client::record_unknown_writes`].
    ///
    /// # Errors
    /// As [`StoreSnapshot::of`].
    pub fn snapshot(&self) -> Result<StoreSnapshot> {
        self.seal();
        StoreSnapshot::of(&self.store)
    }

    /// Records which files were changed, made or removed since a snapshot without a record, while a run was under way.
    /// Returns their paths, those of the home's own changes left out.
    ///
    /// # Errors
    /// Those of reading the store, and of writing to its journal.
    pub fn record_unknown_writes(
        &self,
        since: &StoreSnapshot,
        during: RunId,
    ) -> Result<Vec<WorldPath>> {
        self.flush()?;
        self.seal();
        let writes = since.unrecorded_changes(&self.store, during)?;
        let paths = writes.paths();
        for part in writes.split(MAX_WRITES) {
            let request = ControlRequest::Unknown {
                writes: part.clone(),
            };
            self.make_change(
                &request,
                |answer| matches!(answer, ControlAnswer::Done).then_some(()),
                |_, backend| part.record(backend.world()),
            )?;
        }
        Ok(paths)
    }
}
