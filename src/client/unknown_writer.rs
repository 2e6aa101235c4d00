//! What was changed directly in a store while a run worked there that no wall kept from it: it is found and recorded at
//! the run's end, or by the next run where that one was killed.

use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::Result;
use crate::journal::LeftState;
use crate::name::WorldPath;
use crate::operator::unknown_writer::StoreSnapshot;
use crate::world::RunId;

/// The maximum number of files in one request to a daemon.
const MAX_STATES: usize = 1000;

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
        let states = since.unrecorded_changes(&self.store, during)?;
        let file = |state: &LeftState| Some(state.by.as_ref()?.file.clone());
        let mut paths: Vec<WorldPath> = states.iter().filter_map(file).collect();
        paths.sort();
        for part in states.chunks(MAX_STATES) {
            let request = ControlRequest::Unknown {
                states: part.to_vec(),
            };
            self.make_change(
                &request,
                |answer| matches!(answer, ControlAnswer::Done).then_some(()),
                |_, backend| backend.world().note_unknown_writes(part.to_vec()),
            )?;
        }
        Ok(paths)
    }
}
