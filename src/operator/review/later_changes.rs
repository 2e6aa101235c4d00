//! Decides the state of a hunk, by the changes that others have made to its lines since. Pure.
//!
//! Owns the states of hunks. Only the lines around it are merged, so a file in which each of a thousand hunks was
//! touched later does not cost a thousand merges of the whole.

use std::ops::Range;

use crate::operator::text::{Hunk, TextComparison, merge};

/// The state of a hunk in a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HunkState {
    /// The hunk is to be reviewed.
    Open,
    /// The hunk was accepted.
    Accepted,
    /// The hunk's lines are as they were before.
    Gone,
    /// The hunk's lines, or lines beside them, were changed later.
    Overtaken,
}

/// The changes of a file since its latest change under review.
pub(super) struct LaterChanges<'c> {
    reviewed: &'c TextComparison,
    later: TextComparison,
    /// The changed lines: as they were after that change, and as they are now.
    changes: Vec<(Range<usize>, Range<usize>)>,
}

impl LaterChanges<'_> {
    pub(super) fn of<'c>(reviewed: &'c TextComparison, now: &[u8]) -> LaterChanges<'c> {
        let later = TextComparison::new(reviewed.after().to_vec(), now.to_vec());
        LaterChanges {
            reviewed,
            changes: later.changed_lines(),
            later,
        }
    }

    /// Returns whether the comparison was given up.
    pub(super) fn is_rough(&self) -> bool {
        self.later.is_rough()
    }

    /// Returns the state of a hunk.
    pub(super) fn state(&self, hunk: &Hunk) -> HunkState {
        if !hunk
            .changed_lines()
            .any(|lines| !self.touching(&lines).is_empty())
        {
            return HunkState::Open;
        }
        let around = self.around(hunk.after());
        let now = self.now_of(&around);
        let (base, ours) = (
            self.reviewed.after_lines(&around),
            self.later.after_lines(&now),
        );
        match merge(base, ours, &self.reviewed.without_among(hunk, &around)) {
            None => HunkState::Overtaken,
            Some(merged) if merged == ours => HunkState::Gone,
            Some(_) => HunkState::Open,
        }
    }

    /// Returns the later changes of lines, or of lines beside them.
    fn touching(&self, lines: &Range<usize>) -> &[(Range<usize>, Range<usize>)] {
        let from = self
            .changes
            .partition_point(|(was, _)| was.end < lines.start);
        let to = self
            .changes
            .partition_point(|(was, _)| was.start <= lines.end);
        self.changes.get(from..to).unwrap_or_default()
    }

    /// Adds whole later changes to lines until none is beside them.
    fn around(&self, mut lines: Range<usize>) -> Range<usize> {
        loop {
            let touching = self.touching(&lines);
            let (Some((first, _)), Some((last, _))) = (touching.first(), touching.last()) else {
                return lines;
            };
            let wider = lines.start.min(first.start)..lines.end.max(last.end);
            if wider == lines {
                return lines;
            }
            lines = wider;
        }
    }

    /// Returns the present place of lines that no change touches.
    fn now_of(&self, lines: &Range<usize>) -> Range<usize> {
        let place = |before: usize, line: usize| {
            let change = before.checked_sub(1).and_then(|at| self.changes.get(at));
            let (was, is) = change.map_or((0, 0), |(was, is)| (was.end, is.end));
            is + line.saturating_sub(was)
        };
        let first = self
            .changes
            .partition_point(|(was, _)| was.end < lines.start);
        let behind = self
            .changes
            .partition_point(|(was, _)| was.start <= lines.end);
        place(first, lines.start)..place(behind, lines.end)
    }
}
