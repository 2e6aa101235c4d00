//! Retention: the oldest part of the history goes.

use super::connect::{ask, misunderstood_error};
use super::purge::FreedCallback;
use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::Result;
use crate::operator::expire::{self, ExpirePlan, ExpireRules};
use crate::operator::purge::{PurgePlan, purge_items};
use crate::world::{Caller, ExpireResult, PurgeResult};

impl Client {
    /// Finds out what goes by rules of what is kept.
    ///
    /// # Errors
    /// As [`expire::expire_plan`].
    pub fn expire_plan(&self, rules: &ExpireRules) -> Result<ExpirePlan> {
        self.seal();
        let status = self.status()?;
        let runs = status.as_ref().map(|status| status.runs.as_slice());
        expire::expire_plan(&self.store, rules, runs)
    }

    /// Deletes for good what goes: first what is kept, then the journals. If the first is stopped, no journal goes.
    ///
    /// # Errors
    /// As [`Client::purge`] and [`World::expire`](crate::world::World::expire).
    pub fn expire(
        &self,
        plan: ExpirePlan,
        freed: FreedCallback<'_>,
    ) -> Result<(PurgeResult, ExpireResult)> {
        let before = plan.before.map(|before| (before.session, before.seq));
        if self.store.served_by()?.is_none() {
            let entries: Vec<_> = plan.entries.into_iter().map(|entry| entry.entry).collect();
            let versions: Vec<_> = plan
                .versions
                .into_iter()
                .map(|v| (v.session, v.n))
                .collect();
            return self.in_process(|world| {
                let caller = Caller::myself();
                let purged = purge_items(world, &entries, &versions, caller, freed)?;
                let expired = match (before, &purged.stopped) {
                    (Some(before), None) => world.expire(before, caller)?,
                    _ => ExpireResult::default(),
                };
                Ok((purged, expired))
            });
        }
        let items = PurgePlan {
            entries: plan.entries,
            versions: plan.versions,
            ..PurgePlan::default()
        };
        let purged = self.purge(&items, freed)?;
        let (Some(before), None) = (before, &purged.stopped) else {
            return Ok((purged, ExpireResult::default()));
        };
        let request = ControlRequest::Expire { before };
        match ask(self.store.state(), &request)? {
            ControlAnswer::Expired(expired) => Ok((purged, expired)),
            _ => Err(misunderstood_error(&request, "it answers another question")),
        }
    }
}
