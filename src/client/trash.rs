//! The trash: what lies there, and putting it back.

use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::Result;
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::trash::{self, TrashEntry};
use crate::operator::usage::{SpaceUsage, usage};
use crate::world::Caller;

/// An entry that is no longer in the trash.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RestoredEntry {
    /// The entry.
    pub entry: EscapedBytes,
    /// The entry's present path.
    pub to: WorldPath,
}

impl Client {
    /// Lists the trash, oldest first.
    ///
    /// # Errors
    /// As [`trash::list`].
    pub fn trash(&self) -> Result<Vec<TrashEntry>> {
        self.seal();
        trash::list(&self.store)
    }

    /// Puts an entry of the trash, or something in one, back: to a path, or to where it was.
    ///
    /// # Errors
    /// As [`trash::origin`] and [`trash::restore`]; as [`Client::open`] where the store cannot be had.
    pub fn trash_restore(&self, entry: &[u8], to: Option<&WorldPath>) -> Result<RestoredEntry> {
        self.seal();
        let to = match to {
            Some(to) => to.clone(),
            None => trash::origin(&self.store, entry)?,
        };
        let entry = EscapedBytes(entry.to_vec());
        let request = ControlRequest::TrashRestore {
            entry: entry.clone(),
            to: to.clone(),
        };
        self.make_change(
            &request,
            |answer| matches!(answer, ControlAnswer::Done).then_some(()),
            |_, backend| trash::restore(backend.world(), &entry.0, &to, Caller::myself()).map(drop),
        )?;
        Ok(RestoredEntry { entry, to })
    }

    /// Finds out what the trash and the former contents take, by session and by program.
    ///
    /// # Errors
    /// As [`usage`].
    pub fn usage(&self) -> Result<SpaceUsage> {
        self.seal();
        usage(&self.store)
    }
}
