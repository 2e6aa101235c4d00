//! Records that were selected for an undo, as ranges of their numbers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::journal::{InodeNumbers, UndoId};

/// The selected records.
#[derive(Debug, Default, Clone)]
pub struct RecordSelection {
    /// Ranges of record numbers by session, ascending.
    ranges: BTreeMap<Arc<str>, Vec<(u64, u64)>>,
    /// The oldest selected record.
    pub oldest: Option<(Arc<str>, u64)>,
    /// The number of selected records.
    pub count: u64,
    /// True for a redo.
    pub redo: bool,
    /// The undos that were selected by number.
    undos: Vec<(String, u64, u64)>,
    /// Undos that are not selected and were taken back since, and the undos that took them back, each with the number
    /// of its pair.
    cancelled: HashMap<(Arc<str>, UndoId), CancelledUndo>,
    /// The files that each pair changed.
    files_of_pairs: HashMap<usize, HashSet<InodeNumbers>>,
}

/// An undo that cancels another one: together they changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CancelledUndo {
    /// The number of the pair.
    pub(super) pair: usize,
    /// True for the older undo of the pair, which the other took back.
    pub(super) is_older: bool,
}

/// The greatest number of ranges that an undo's record lists. More would make a line of megabytes; they only serve to
/// recognize an earlier undo.
const MAX_NAMED_RANGES: usize = 2000;

impl RecordSelection {
    /// Returns whether a record is selected.
    pub fn has(&self, session: &str, seq: u64) -> bool {
        let Some(ranges) = self.ranges.get(session) else {
            return false;
        };
        let next = ranges.partition_point(|(_, to)| *to < seq);
        ranges.get(next).is_some_and(|(from, _)| *from <= seq)
    }

    /// Returns the ranges that the undo's record lists.
    pub fn named_ranges(&self) -> Vec<(String, u64, u64)> {
        self.named_up_to(MAX_NAMED_RANGES)
    }

    pub(super) fn named_up_to(&self, limit: usize) -> Vec<(String, u64, u64)> {
        let all = self.ranges.iter().flat_map(|(session, ranges)| {
            let of = move |(from, to): &(u64, u64)| (session.to_string(), *from, *to);
            ranges.iter().map(of)
        });
        let named: Vec<_> = all.take(limit + 1).collect();
        if named.len() > limit {
            // An undo is also recognized by its own number, so that a redo does not select it again and again.
            self.undos.clone()
        } else {
            named
        }
    }

    pub(super) fn covers(&self, of: &[(String, u64, u64)]) -> bool {
        let inside = |(session, from, to): &(String, u64, u64)| {
            let Some(ranges) = self.ranges.get(session.as_str()) else {
                return false;
            };
            let next = ranges.partition_point(|(_, end)| *end < *from);
            ranges
                .get(next)
                .is_some_and(|(start, end)| start <= from && to <= end)
        };
        !of.is_empty() && of.iter().all(inside)
    }

    pub(super) fn add(&mut self, numbers: BTreeMap<Arc<str>, Vec<u64>>) {
        for (session, numbers) in numbers {
            let ranges = self.ranges.entry(session.clone()).or_default();
            for number in numbers {
                self.count += 1;
                ranges.push((number, number));
                let this = (session.clone(), number);
                if self.oldest.as_ref().is_none_or(|oldest| this < *oldest) {
                    self.oldest = Some(this);
                }
            }
            ranges.sort_unstable();
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for (from, to) in ranges.drain(..) {
                match merged.last_mut() {
                    Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
                    _ => merged.push((from, to)),
                }
            }
            *ranges = merged;
        }
    }

    /// Adds records that change nothing and lie between selected ones, so that these are one range; they do not count.
    pub(super) fn add_between(&mut self, numbers: BTreeMap<Arc<str>, Vec<u64>>) {
        let count = self.count;
        self.add(numbers);
        self.count = count;
    }

    /// Returns the pair of undos that cancel each other to which an undo belongs; `None` if it belongs to no such pair.
    pub(super) fn cancelling_pair(&self, undo: &(Arc<str>, UndoId)) -> Option<CancelledUndo> {
        self.cancelled.get(undo).copied()
    }

    /// Returns the files that a pair of undos changed.
    pub(super) fn files_of(&self, pair: usize) -> impl Iterator<Item = InodeNumbers> {
        self.files_of_pairs
            .get(&pair)
            .into_iter()
            .flatten()
            .copied()
    }

    /// Notes an undo and the one that took it back, the older one first, and the files that they changed.
    pub(super) fn add_cancelling_pair(
        &mut self,
        pair: [(Arc<str>, UndoId); 2],
        files: HashSet<InodeNumbers>,
    ) {
        let pair_number = self.cancelled.len();
        self.files_of_pairs.insert(pair_number, files);
        for (undo, is_older) in pair.into_iter().zip([true, false]) {
            let pair = pair_number;
            self.cancelled
                .insert(undo, CancelledUndo { pair, is_older });
        }
    }

    /// Adds an undo that was selected by number.
    pub(super) fn add_undo(&mut self, session: &str, seq: u64, redo: bool) {
        self.redo |= !redo;
        self.undos.push((session.to_owned(), seq, seq));
    }
}
