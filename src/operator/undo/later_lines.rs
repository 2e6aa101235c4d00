//! Takes changes of a text back beside later changes of it: a merge by lines of what the record left, what it found,
//! and what is there.
//!
//! Owns when that is possible: all three are known whole, are text, and the lines do not touch. Everything else is a
//! conflict of the planner's.

use std::io::Read;

use rustix::fs::FileType;

use super::planner::{ChangeKey, OnConflict, TopLayer, UndoPlan, UndoPlanner, content_of};
use crate::error::{Error, Result};
use crate::operator::past::effect::SessionRecord;
use crate::operator::past::tree::layer::{ContentLayer, LayerKind, MergedText};
use crate::operator::past::{NodeId, PastContent, RecordId};
use crate::operator::text::{MAX_TEXT_BYTES, TextComparison, merge};

/// The lines of a file that were taken back beside later changes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MergedLines {
    /// The lines that go or come back.
    lines: u64,
    /// The later changes that stay.
    later: u64,
}

/// Later lines on their way from the file that has them to the one that comes back.
#[derive(Debug)]
pub(super) struct CarriedLines {
    from: NodeId,
    to: NodeId,
    /// The record that put another file in the place of the one that carries them.
    after: RecordId,
}

impl UndoPlanner<'_, '_> {
    /// Takes a record's change of a text back beside later changes. Returns whether that was possible; the target has
    /// the merged text then.
    ///
    /// # Errors
    /// Those of reading the disk, and of making a file in memory.
    pub(super) fn merge_lines(
        &mut self,
        node: NodeId,
        (after, there): (&TopLayer, &TopLayer),
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let before = content_of(self.past.tree(), node);
        self.merge_from((node, after), (node, there), (node, &before), node, record)
    }

    /// As [`UndoPlanner::merge_lines`], for a file that another one has replaced since: that one gets the merged text.
    ///
    /// # Errors
    /// As [`UndoPlanner::merge_lines`].
    pub(super) fn merge_into_successor(
        &mut self,
        (node, after, before): (NodeId, &TopLayer, &TopLayer),
        (successor, there): (NodeId, &TopLayer),
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let (left, found) = ((node, after), (node, before));
        self.merge_from(left, (successor, there), found, successor, record)
    }

    /// Gives a former text of one file to another one. Returns whether it is known whole, and a text.
    ///
    /// # Errors
    /// As [`UndoPlanner::merge_lines`].
    pub(super) fn give_text(
        &mut self,
        (node, before): (NodeId, &TopLayer),
        to: NodeId,
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let text = self.text(node, before)?;
        text.map_or(Ok(false), |text| {
            self.set_text(to, &text, record).map(|()| true)
        })
    }

    fn set_text(
        &mut self,
        node: NodeId,
        text: &[u8],
        (session, record): SessionRecord<'_>,
    ) -> Result<()> {
        let (size, content) = (text.len() as u64, MergedText::new(text)?);
        let of = ((session.clone(), record.seq), false);
        let layer = ContentLayer::lay_over(LayerKind::Merged(content), Some(size), of, None);
        self.target.difference_mut(node).content = Some(layer);
        Ok(())
    }

    /// Takes a new file away that a program had put in the place of an older one, and gives its later changes to the
    /// older one, which comes back: so editors, `sed -i` and git write files. Returns whether that was possible.
    ///
    /// # Errors
    /// As [`UndoPlanner::merge_lines`].
    pub(super) fn merge_into_former(
        &mut self,
        node: NodeId,
        (after, there): (&TopLayer, &TopLayer),
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let disk = self.target.disk().clone();
        let mut formers = Vec::new();
        for (dir, name) in disk.every_place(node) {
            formers.extend(self.target.lookup_id(dir, name)?);
        }
        formers.extend(self.carried_lines(node).map(|carried| carried.to));
        if !self.is_seen(node) {
            let replaced = self.replaced.iter().filter(|pair| pair.left == node);
            formers.extend(replaced.map(|pair| pair.former));
        }
        for former in formers {
            let is_file = disk.kind(former) == FileType::RegularFile;
            if former == node || !is_file || self.target.is_lost(former) {
                continue;
            }
            let before = content_of(&self.target, former);
            let (left, now) = ((node, after), (node, there));
            if self.merge_from(left, now, (former, &before), former, record)? {
                self.hand_on_lines(node, former, after);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns what a file hands on that has later lines for the moment only: a selected record put it in the place of
    /// one file, and another one in its place, as a program does that saves twice.
    pub(super) fn carried_lines(&self, node: NodeId) -> Option<CarriedLines> {
        if !self.merged.contains_key(&node) {
            return None;
        }
        let to = self.replaced.iter().find(|pair| pair.left == node)?.former;
        let (mut from, mut after) = (node, None);
        for _ in 0..self.replaced.len() {
            let Some(pair) = self.replaced.iter().find(|pair| pair.former == from) else {
                break;
            };
            // A selected undo had put that in its place before: it ends where it began.
            if pair.left == node {
                return None;
            }
            from = pair.left;
            after = after.or_else(|| Some(pair.of.clone()));
        }
        let after = after.filter(|_| from != node)?;
        Some(CarriedLines { from, to, after })
    }

    /// Notes a conflict with later lines that a file cannot hand on. To keep both, they stay where they are.
    pub(super) fn carried_conflict(&mut self, node: NodeId, carried: CarriedLines, of: &RecordId) {
        let CarriedLines { from, to, after } = carried;
        let what = format!("{} was written to later", self.name_of(to));
        let by = self.later_changes.get(&ChangeKey::Content(from)).cloned();
        let is_outside = by.is_none() && self.past.tree().is_changed_outside(from);
        self.forcible_conflict(of, what, by);
        if is_outside {
            self.name_outsider(&after);
        }
        self.name_unknown_writer(from);
        self.merged.remove(&node);
        self.target.difference_mut(node).content = None;
        if self.choice == OnConflict::KeepBoth {
            self.kept.push(from);
        }
    }

    /// Counts the lines that were taken back in a file which goes with the ones in the file that has its later lines now.
    fn hand_on_lines(&mut self, node: NodeId, former: NodeId, after: &TopLayer) {
        let Some(earlier) = self.merged.remove(&node) else {
            return;
        };
        self.target.difference_mut(node).content = after.clone();
        let known = self.merged.entry(former).or_default();
        known.lines += earlier.lines;
        known.later = earlier.later;
    }

    /// Merges what was left by a record and what is there now with what the record found, and gives that to a node; not
    /// where an unknown writer has changed it since, whose lines are not to be taken for the owner's.
    fn merge_from(
        &mut self,
        left: (NodeId, &TopLayer),
        now: (NodeId, &TopLayer),
        found: (NodeId, &TopLayer),
        to: NodeId,
        record: SessionRecord<'_>,
    ) -> Result<bool> {
        let tree = self.past.tree();
        if [left.0, now.0]
            .iter()
            .any(|node| tree.unknown_writer(*node).is_some())
        {
            return Ok(false);
        }
        let texts = (self.text(found.0, found.1)?, self.text(left.0, left.1)?);
        let ((Some(found), Some(left)), Some(now)) = (texts, self.text(now.0, now.1)?) else {
            return Ok(false);
        };
        let Some(merged) = merge(&left, &now, &found) else {
            return Ok(false);
        };
        self.set_text(to, &merged, record)?;
        let known = self.merged.entry(to).or_default();
        if known.later == 0 {
            let changes = TextComparison::new(left.clone(), now);
            known.later = changes.changed_lines().len() as u64;
        }
        let (gone, back) = TextComparison::new(left, found).counts();
        known.lines += gone.max(back);
        Ok(true)
    }

    /// Returns a content as text; `None` where it is not known whole, or cannot be merged.
    fn text(&self, node: NodeId, layer: &TopLayer) -> Result<Option<Vec<u8>>> {
        let store = self.target.disk().store();
        let opened = PastContent::open(store, layer.as_ref(), || self.target.open_now(node));
        let content = match opened {
            Ok(content) => content,
            Err(Error::Missing { .. } | Error::Damaged(_)) => return Ok(None),
            Err(error) if error.is_denial() => return Ok(None),
            Err(error) => return Err(error),
        };
        if content.missing_part().is_some() || content.size() > MAX_TEXT_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = content.reader().read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", &error))?;
        Ok(Some(bytes))
    }
}

/// Describes the merged files of a plan, a line each.
pub(super) fn describe_merged(plan: &UndoPlan<'_>) -> Vec<String> {
    let mut lines: Vec<String> = plan
        .merged
        .iter()
        .filter_map(|(node, merged)| {
            let path = plan.target.path(*node)?;
            let MergedLines { lines, later } = merged;
            let (s, es) = (plural(*lines), plural(*later));
            Some(format!(
                "took back {lines} line{s} of {path}; kept {later} later change{es}"
            ))
        })
        .collect();
    lines.sort_unstable();
    lines
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
