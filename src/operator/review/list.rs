//! The second pass of a review: the changed paths, each with its authors.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::other_changes::OtherChanges;
use super::scope::ReviewScope;
use super::scope_index::{ChangeAuthor, ScopeIndex, ScopeRecord};
use crate::error::Result;
use crate::journal::RunId;
use crate::name::{SubtreeSet, WorldPath};
use crate::operator::Store;
use crate::operator::diff::{ChangeStatus, Diff, PathDifference, PathFlag};
use crate::operator::past::{NodeId, PastTree, ROOT, RecordEffect};
use crate::operator::point::{Operation, Point};
use crate::world::view::in_trash;

/// The author of a change, and the command that the change belongs to.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChangeCause {
    /// The author.
    #[serde(flatten)]
    pub who: ChangeAuthor,
    /// The command of the run, escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A changed path of a review.
#[derive(Debug, serde::Serialize)]
pub struct ReviewedPath {
    /// The difference between the oldest change that is not accepted and the point that the review was made at.
    #[serde(flatten)]
    pub difference: PathDifference,
    /// Why its owner should look at it first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag: Option<PathFlag>,
    /// The authors of its changes, the latest first.
    pub by: Vec<ChangeCause>,
    /// The last of these changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The time of that change: UTC, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// True if all of these changes are accepted.
    pub accepted: bool,
}

/// The changes of a scope that are not accepted yet: the flagged ones, then the others, each sorted by path.
#[derive(Debug)]
pub struct Review<'a> {
    pub(super) store: &'a Store,
    scope: ReviewScope,
    pub(super) seen: ScopeIndex,
    pub(super) until: Point,
    /// `None` where nothing is to be reviewed.
    diff: Option<Diff<'a>>,
    /// The records that changed each node, by node; records by their place in [`ScopeIndex::records`].
    touched: Vec<(NodeId, u32)>,
    /// The nodes that records put in each other's place, both ways, by node.
    in_place: Vec<(NodeId, NodeId)>,
    pub(super) others: OtherChanges,
    /// The places in `diff` of the listed paths.
    listed: Vec<usize>,
    /// Flags by place in `diff`.
    flags: BTreeMap<usize, PathFlag>,
    /// The digests of the hunks that are split, by path.
    pub(super) splits: BTreeMap<WorldPath, Vec<String>>,
}

impl<'a> Review<'a> {
    /// Finds the changes to be reviewed, of all changes up to a point; with `all`, the accepted ones as well.
    ///
    /// # Errors
    /// As [`Diff::between`].
    pub fn read(
        store: &'a Store,
        scope: ReviewScope,
        until: &Point,
        all: bool,
    ) -> Result<Review<'a>> {
        let seen = ScopeIndex::read(store, &scope, until)?;
        let until = match &seen.newest {
            Some(newest) => Point::After(newest.clone()),
            None => until.clone(),
        };
        let (mut touched, mut in_place) = (Vec::new(), Vec::new());
        let mut others = OtherChanges::default();
        let diff = seen.start(all).map(|from| {
            Diff::of_wanted(store, (&from, &until), |session, record, effect| {
                let found = seen.find(session, record.seq);
                let found = found.and_then(|number| Some((number, seen.record(number)?)));
                match found.filter(|(_, seen)| all || !seen.accepted) {
                    Some((number, _)) => {
                        let nodes = nodes(effect);
                        let each = nodes.into_iter().flatten();
                        touched.extend(each.map(|node| (node, number)));
                        if let [Some(one), Some(two)] = nodes {
                            in_place.extend([(one, two), (two, one)]);
                        }
                        true
                    }
                    None => {
                        others.note((session, record.seq), effect);
                        false
                    }
                }
            })
        });
        let diff = diff.transpose()?;
        touched.sort_unstable();
        touched.dedup();
        touched.shrink_to_fit();
        in_place.sort_unstable();
        in_place.dedup();
        let listed = (0..diff.as_ref().map_or(0, Diff::len)).collect();
        let mut review = Review {
            store,
            scope,
            seen,
            until,
            diff,
            touched,
            in_place,
            others,
            listed,
            flags: BTreeMap::new(),
            splits: BTreeMap::new(),
        };
        if !all {
            review.leave_out_accepted()?;
        }
        if let Some(diff) = &review.diff {
            review.flags = diff.flags()?;
            let flags = &review.flags;
            review
                .listed
                .sort_by_key(|place| !flags.contains_key(place));
        }
        Ok(review)
    }

    /// Splits a hunk of a path, by its digest: its parts are hunks from now on.
    pub fn split_hunk(&mut self, path: &WorldPath, digest: String) {
        self.splits.entry(path.clone()).or_default().push(digest);
    }

    /// Splits what is split in another review.
    pub fn split_as(&mut self, other: &Review<'_>) {
        self.splits.clone_from(&other.splits);
    }

    /// Returns the scope.
    pub fn scope(&self) -> &ReviewScope {
        &self.scope
    }

    /// Returns the point up to which records were read.
    pub fn until(&self) -> &Point {
        &self.until
    }

    /// Returns the differences; `None` where nothing is to be reviewed.
    pub fn diff(&self) -> Option<&Diff<'a>> {
        self.diff.as_ref()
    }

    /// Returns whether some changes of the scope were accepted before.
    pub fn has_accepted(&self) -> bool {
        self.seen.records.iter().any(|record| record.accepted)
    }

    /// Returns the number of changed paths.
    pub fn len(&self) -> usize {
        self.listed.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a changed path, by its place in the order.
    pub fn path(&self, number: usize) -> Option<(ChangeStatus, WorldPath)> {
        self.diff.as_ref()?.nth_path(self.place(number)?)
    }

    /// Returns a change, by its place in the order. Its attributes are read from the disk now.
    ///
    /// # Errors
    /// As [`Diff::nth`].
    pub fn change(&self, number: usize) -> Result<Option<ReviewedPath>> {
        let Some(difference) = self.difference(number)? else {
            return Ok(None);
        };
        let records: Vec<&ScopeRecord> = self.records_at(number).collect();
        let newest = records.first();
        let mut by: Vec<ChangeCause> = Vec::new();
        for who in records.iter().filter_map(|record| self.author_of(record)) {
            if !by.iter().any(|by| by.who == *who) {
                let command = who.run.and_then(|run| self.command(run));
                by.push(ChangeCause {
                    who: who.clone(),
                    command: command.map(str::to_owned),
                });
            }
        }
        Ok(Some(ReviewedPath {
            difference,
            flag: self.flag(number),
            by,
            operation: newest.map(|record| self.seen.operation(record)),
            time: newest.and_then(|record| time(record.time)),
            accepted: !records.is_empty() && records.iter().all(|record| record.accepted),
        }))
    }

    /// Returns the flag of a path, by its place in the order.
    pub fn flag(&self, number: usize) -> Option<PathFlag> {
        self.flags.get(&self.place(number)?).copied()
    }

    /// Returns the author and the time of a path's last change, in microseconds since 1970.
    pub fn last(&self, number: usize) -> Option<(&ChangeAuthor, i64)> {
        let record = self.records_at(number).next()?;
        Some((self.author_of(record)?, record.time))
    }

    /// Returns the command of a run, escaped.
    pub fn command(&self, run: RunId) -> Option<&str> {
        self.seen.commands.get(&run).map(String::as_str)
    }

    /// Returns the records that changed paths and everything below them, oldest first. Where a path is in a removed
    /// directory, the removal of the directory is among them: the path has no place otherwise.
    pub fn operations(&self, paths: &[WorldPath]) -> Vec<Operation> {
        let mut found: BTreeSet<u32> = BTreeSet::new();
        let meant = SubtreeSet::of(paths);
        for number in 0..self.len() {
            let Some(difference) = self.names(number) else {
                continue;
            };
            if !difference.iter().flatten().any(|at| meant.contains(at)) {
                continue;
            }
            found.extend(self.records_of(number));
            found.extend(self.removals_above(number));
        }
        let records = found.into_iter().rev();
        let records = records.filter_map(|number| self.seen.record(number));
        records.map(|record| self.seen.operation(record)).collect()
    }

    /// As [`Review::operations`], without the flagged paths that are not named themselves. Returns as well how many
    /// paths are meant, and how many of them are left out.
    pub fn unflagged_operations(&self, paths: &[WorldPath]) -> (Vec<Operation>, u64, u64) {
        let meant = SubtreeSet::of(paths);
        let mut found: BTreeSet<u32> = BTreeSet::new();
        let mut of_flagged: BTreeSet<u32> = BTreeSet::new();
        let (mut taken, mut left) = (0, 0);
        for number in 0..self.len() {
            let Some((_, path)) = self.path(number).filter(|(_, path)| meant.contains(path)) else {
                continue;
            };
            if self.flag(number).is_some() && !paths.contains(&path) {
                of_flagged.extend(self.records_of(number));
                left += 1;
            } else {
                found.extend(self.records_of(number));
                found.extend(self.removals_above(number));
                taken += 1;
            }
        }
        found.retain(|record| !of_flagged.contains(record));
        let records = found.into_iter().rev();
        let records = records.filter_map(|number| self.seen.record(number));
        let operations = records.map(|record| self.seen.operation(record));
        (operations.collect(), taken, left)
    }

    /// Returns the records of the scope as ranges: all of them, since those of others lie between.
    pub fn ranges(&self) -> Vec<(String, u64, u64)> {
        let mut ranges: Vec<(String, u64, u64)> = Vec::new();
        for record in self.seen.records.iter().rev() {
            let Operation { session, seq } = self.seen.operation(record);
            match ranges.last_mut() {
                Some(last) if last.0 == session => last.2 = seq,
                _ => ranges.push((session, seq, seq)),
            }
        }
        ranges
    }

    /// Returns the place in the differences of a listed path.
    fn place(&self, number: usize) -> Option<usize> {
        self.listed.get(number).copied()
    }

    /// Leaves out of the list the paths for which a rule holds.
    pub(super) fn leave_out(
        &mut self,
        mut is_out: impl FnMut(&Review<'a>, usize) -> Result<bool>,
    ) -> Result<()> {
        let mut out = Vec::new();
        for number in 0..self.len() {
            if is_out(self, number)? {
                out.extend(self.place(number));
            }
        }
        // Both are in order.
        self.listed
            .retain(|place| out.binary_search(place).is_err());
        Ok(())
    }

    /// Returns the difference at a path, by its place in the order.
    pub(super) fn difference(&self, number: usize) -> Result<Option<PathDifference>> {
        let diff = self.diff.as_ref().zip(self.place(number));
        diff.map_or(Ok(None), |(diff, place)| diff.nth(place))
    }

    /// Returns the nodes at a path, before and after, by its place in the order.
    pub(super) fn nodes(&self, number: usize) -> [Option<NodeId>; 2] {
        let diff = self.diff.as_ref().zip(self.place(number));
        diff.map_or([None, None], |(diff, place)| diff.nth_nodes(place))
    }

    fn names(&self, number: usize) -> Option<[Option<WorldPath>; 2]> {
        let diff = self.diff.as_ref()?;
        let (from, path) = diff.nth_names(self.place(number)?)?;
        Some([from, Some(path)])
    }

    fn author_of(&self, record: &ScopeRecord) -> Option<&ChangeAuthor> {
        usize::try_from(record.who)
            .ok()
            .and_then(|at| self.seen.who.get(at))
    }

    /// Returns the records that changed a path, the newest first. For a path that came or went with its directory,
    /// returns the records of the directory.
    pub(super) fn records_at(&self, number: usize) -> impl Iterator<Item = &ScopeRecord> {
        let records = self.records_of(number);
        records.into_iter().filter_map(|at| self.seen.record(at))
    }

    fn records_of(&self, number: usize) -> Vec<u32> {
        let Some(diff) = &self.diff else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (tree, node) in <[_; 2]>::from(diff.trees())
            .into_iter()
            .zip(self.nodes(number))
        {
            let mut at = node;
            while let Some(node) = at {
                let of_node = self.touching(node);
                found.extend_from_slice(of_node);
                at = if of_node.is_empty() && node != ROOT {
                    tree.place_of(node).map(|(dir, _)| dir)
                } else {
                    None
                };
            }
        }
        for node in self.nodes_between(number) {
            found.extend_from_slice(self.touching(node));
        }
        let mut numbers: Vec<u32> = found.into_iter().map(|(_, record)| record).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Returns the nodes that stood at a path between the one before and the one after, and are at no path of the list: a
    /// program that saves a file twice makes two, and has replaced one of them.
    fn nodes_between(&self, number: usize) -> Vec<NodeId> {
        let Some((before, after)) = self.diff.as_ref().map(Diff::trees) else {
            return Vec::new();
        };
        let is_seen = |tree: &PastTree<'_>, node| tree.path(node).is_some_and(|at| !in_trash(&at));
        let mut found: Vec<NodeId> = self.nodes(number).into_iter().flatten().collect();
        let ends = found.len();
        let mut known: HashSet<NodeId> = found.iter().copied().collect();
        let mut next = 0;
        while let Some(node) = found.get(next).copied() {
            let from = self.in_place.partition_point(|(of, _)| *of < node);
            let pairs = self.in_place.iter().skip(from);
            for (_, other) in pairs.take_while(|(of, _)| *of == node) {
                if known.insert(*other) && !is_seen(before, *other) && !is_seen(after, *other) {
                    found.push(*other);
                }
            }
            next += 1;
        }
        found.split_off(ends)
    }

    /// Returns the removals of directories above a path.
    fn removals_above(&self, number: usize) -> Vec<u32> {
        let mut found = Vec::new();
        let (Some(diff), [Some(node), _]) = (&self.diff, self.nodes(number)) else {
            return found;
        };
        let (before, _) = diff.trees();
        let mut at = before.place_of(node).map(|(dir, _)| dir);
        while let Some(dir) = at.filter(|dir| *dir != ROOT) {
            let removals = self.touching(dir).iter().map(|(_, record)| *record);
            found.extend(removals.filter(|record| {
                self.seen
                    .record(*record)
                    .is_some_and(|record| record.is_rmdir)
            }));
            at = before.place_of(dir).map(|(dir, _)| dir);
        }
        found
    }

    pub(super) fn touching(&self, node: NodeId) -> &[(NodeId, u32)] {
        let from = self.touched.partition_point(|(of, _)| *of < node);
        let to = self.touched.partition_point(|(of, _)| *of <= node);
        self.touched.get(from..to).unwrap_or_default()
    }
}

/// Returns the nodes that an effect is about. The time of a directory changes with everything in it.
fn nodes(effect: &RecordEffect) -> [Option<NodeId>; 2] {
    match effect {
        RecordEffect::Time(..) => [None, None],
        RecordEffect::Name { before, after, .. } => [*before, *after],
        RecordEffect::Born(node) => [Some(*node), None],
        effect => [effect.changed_inside(), None],
    }
}

fn time(micros: i64) -> Option<String> {
    let time = chrono::DateTime::from_timestamp_micros(micros)?;
    Some(time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true))
}
