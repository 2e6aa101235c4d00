//! Times that tell of changes outside the home, of what has no stamp: directories, and files that only moved.
//!
//! A record is written just before its act, which sets times. So what a record has touched was changed by somebody else
//! only if its times are later than the next record of anything.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use rustix::fs::FileType;

use super::planner::{UndoPlanner, content_of};
use crate::error::{Error, Result};
use crate::journal::Record;
use crate::operator::past::{NodeId, NumberHash, RecordEffect};
use crate::world::Time;

/// The time that an act may take if no record follows.
const ACT_TIME: chrono::TimeDelta = chrono::TimeDelta::seconds(1);

/// The nodes that records have touched, on the way back from the newest.
#[derive(Debug, Default)]
pub(super) struct TouchTimes {
    /// The time by which each node's last act was over. `None`: the home may write to the file without a record.
    over: HashMap<NodeId, Option<DateTime<Utc>>, NumberHash>,
    /// The time of the record that was met last.
    newer: Option<DateTime<Utc>>,
}

impl TouchTimes {
    /// Notes the nodes of a record, each with whether it may be open for writing after it.
    pub(super) fn note(&mut self, nodes: Vec<(NodeId, bool)>, record: &Record) {
        let time = DateTime::parse_from_rfc3339(&record.time).ok();
        let time = time.map(|time| time.to_utc());
        let over = self.newer.or_else(|| time?.checked_add_signed(ACT_TIME));
        for (node, is_written) in nodes {
            let over = over.filter(|_| !is_written);
            let known = self.over.entry(node).or_insert(over);
            if is_written {
                *known = None;
            }
        }
        self.newer = time.or(self.newer);
    }

    /// Returns the time after which a change of a node is not the home's, given that of a record. `None`: no time tells.
    fn over(&self, node: NodeId, since: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.over.get(&node).copied().unwrap_or(Some(since))
    }
}

/// Returns the nodes that an effect touches, each with whether it may be open for writing afterwards.
pub(super) fn touched_nodes(effect: &RecordEffect) -> impl Iterator<Item = (NodeId, bool)> + use<> {
    let is_written = matches!(effect, RecordEffect::Content { .. } | RecordEffect::Born(_));
    effect.nodes().map(move |node| (node, is_written))
}

impl UndoPlanner<'_, '_> {
    /// Returns whether a stamp that followed the records so far says that only the home has changed a file, or that git
    /// has refreshed an index.
    fn is_as_stamped(&self, node: NodeId) -> Result<bool> {
        let tree = self.past.tree();
        if !tree.ids(node).is_some_and(|ids| tree.is_settled(ids)) {
            return Ok(false);
        }
        if !tree.is_changed_outside(node) {
            return Ok(true);
        }
        let (after, there) = (content_of(tree, node), content_of(&self.target, node));
        self.is_equal_content(node, &after, &there)
    }

    /// Returns a node in a directory, or the node itself, that was changed after a record took that out of the trash, and
    /// not by the home: a file sooner than its directory.
    pub(super) fn changed_below(&self, moved: NodeId, record: &Record) -> Result<Option<NodeId>> {
        let Ok(since) = DateTime::parse_from_rfc3339(&record.time) else {
            return Ok(None);
        };
        let since = since.to_utc();
        let is_later = |node: NodeId| {
            let Some(over) = self.touched.over(node, since) else {
                return false;
            };
            let over = (over.timestamp(), over.timestamp_subsec_nanos());
            let is_since = |time: Time| (time.sec, time.nsec) > over;
            // A time of modification may have been set to one to come.
            let there = self.target.disk().stat(node);
            there.is_ok_and(|there| is_since(there.mtime) && is_since(there.ctime))
        };
        let kind = self.past.tree().kind(moved);
        let mut changed = None;
        let mut waiting = vec![(moved, kind)];
        while let Some((node, kind)) = waiting.pop() {
            match kind {
                FileType::RegularFile if is_later(node) && !self.is_as_stamped(node)? => {
                    return Ok(Some(node));
                }
                FileType::Directory if changed.is_none() && is_later(node) => changed = Some(node),
                _ => {}
            }
            if kind != FileType::Directory {
                continue;
            }
            // A program may be removing it at this moment.
            let children = match self.target.children(node) {
                Err(Error::NotFound | Error::Missing { .. }) => continue,
                children => children?,
            };
            let inner = children.into_values();
            waiting.extend(inner.map(|node| (node, self.target.kind(node))));
        }
        Ok(changed)
    }
}
