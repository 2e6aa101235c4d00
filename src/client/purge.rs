//! Deleting for good.

use super::connect::{ask, misunderstood_error};
use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::{Error, Result};
use crate::name::EscapedBytes;
use crate::operator::kept_versions::KeptVersion;
use crate::operator::purge::{self, PurgePlan, PurgeRequest};
use crate::world::{Caller, PurgeResult};

/// The number of things that one request to the daemon names: others can ask it something in between.
const MAX_ITEMS_PER_REQUEST: usize = 50;

/// A callback that gets the number of bytes freed since its last call.
pub type FreedCallback<'a> = &'a mut dyn FnMut(u64);

/// Entries of the trash, and former contents by session and number.
type PurgeItems = (Vec<EscapedBytes>, Vec<(String, u64)>);

impl Client {
    /// Finds out what a request means for the store as it is now.
    ///
    /// # Errors
    /// As [`purge::choose_items`].
    pub fn purge_plan(&self, request: &PurgeRequest) -> Result<PurgePlan> {
        self.seal();
        purge::choose_items(&self.store, request)
    }

    /// Deletes for good what was chosen.
    ///
    /// # Errors
    /// As [`purge::purge_items`]; as [`Client::open`] where the store cannot be had. Then nothing was deleted: what
    /// comes in between later is in [`PurgeResult::stopped`].
    pub fn purge(&self, plan: &PurgePlan, freed: FreedCallback<'_>) -> Result<PurgeResult> {
        let entries: Vec<EscapedBytes> = plan.entries.iter().map(|l| l.entry.clone()).collect();
        let version = |version: &KeptVersion| (version.session.clone(), version.n);
        let versions: Vec<_> = plan.versions.iter().map(version).collect();
        if self.store.served_by()?.is_some() {
            return self.purge_live((entries, versions), freed);
        }
        self.in_process(|world| {
            purge::purge_items(world, &entries, &versions, Caller::myself(), freed)
        })
    }

    /// Returns how many of the chosen things are still there.
    ///
    /// # Errors
    /// As [`purge::still_there`].
    pub fn still_there(&self, plan: &PurgePlan) -> Result<u64> {
        purge::still_there(&self.store, plan)
    }

    fn purge_live(
        &self,
        (entries, versions): PurgeItems,
        freed: FreedCallback<'_>,
    ) -> Result<PurgeResult> {
        let mut purged = PurgeResult::default();
        let entries = entries
            .chunks(MAX_ITEMS_PER_REQUEST)
            .map(|some| (some.to_vec(), Vec::new()));
        let versions = versions
            .chunks(MAX_ITEMS_PER_REQUEST)
            .map(|some| (Vec::new(), some.to_vec()));
        for things in entries.chain(versions) {
            match self.purge_some(things) {
                Ok(some) => {
                    freed(some.bytes);
                    purged.add(some);
                }
                // Nothing was done yet: it is not half-way.
                Err(error) if purged.entries == 0 && !matches!(error, Error::Partly { .. }) => {
                    return Err(error);
                }
                Err(error) => purged.stopped = Some(error.into_words().0),
            }
            if purged.stopped.is_some() {
                break;
            }
        }
        Ok(purged)
    }

    fn purge_some(&self, (entries, versions): PurgeItems) -> Result<PurgeResult> {
        let request = ControlRequest::Purge { entries, versions };
        match ask(self.store.state(), &request)? {
            ControlAnswer::Purged(some) => Ok(some),
            _ => Err(misunderstood_error(&request, "it answers another question")),
        }
    }
}
