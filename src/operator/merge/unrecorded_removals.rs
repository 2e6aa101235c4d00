//! Plans what a program removed that worked in a fork without a home: no record names a removal there.
//!
//! What the origin has as it was when the fork was made goes. What has changed there since, or is new in a directory
//! that would go, is a conflict and stays.

use super::plan::MergePlanner;
use super::unrecorded::EditBase;
use crate::error::Result;
use crate::name::WorldPath;

impl MergePlanner<'_, '_, '_, '_> {
    /// Plans the removal of something that the origin had at a path when the fork was made, with all that was below it.
    /// Returns whether all of it goes.
    pub(super) fn plan_unrecorded_removal(&mut self, was: &WorldPath) -> Result<bool> {
        let Some(origin) = self.origin else {
            return Ok(false);
        };
        let EditBase::There { at, is_same, .. } = origin.side_of(was)? else {
            return Ok(true);
        };
        let Some(here) = self.ours.stays_at(&at)? else {
            return Ok(true);
        };
        if !self.ours.tree.kind(here).is_dir() {
            if !is_same {
                let what = "was changed here, and removed in the fork";
                self.add_conflict(&at, what, None, false);
                return Ok(false);
            }
            let seen = self.fingerprint(here)?;
            self.ours.leaving.insert(at.clone());
            self.plan.removals.push((at, seen));
            return Ok(true);
        }
        let mut goes = true;
        for inner in origin.entries_at_fork(was)? {
            goes &= self.plan_unrecorded_removal(&inner)?;
        }
        if let Some(inner) = self.ours.remaining_entry(here, &at)? {
            if goes {
                let what = format!("was removed in the fork, and {inner} is new here");
                self.add_conflict(&at, &what, None, false);
            }
            return Ok(false);
        }
        self.ours.leaving.insert(at.clone());
        self.plan.dirs.push(at);
        Ok(true)
    }
}
