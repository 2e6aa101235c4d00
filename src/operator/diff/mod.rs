//! The differences between two points: names, kinds, contents, modes and owners.
//!
//! Owns what counts as one change. Only what records changed between the points is compared, so the cost is that of
//! the changes, not of the store. A node under another name is renamed, by its identity; a name with another node is
//! modified (editors save that way). A directory that was added or removed is listed with everything in it. The trash
//! is left out. Times alone are no difference.

mod compact_change_set;
mod compact_difference;
mod difference;
mod flagged;
mod folds;
mod git_ignore;
mod name_differ;
mod outward_links;
mod paths;

use std::collections::BTreeSet;

use super::Store;
use super::past::{ComparedFile, NodeId, Past, PastTree, ROOT, RecordEffect};
use super::point::Point;
use super::run::RunSummary;
use crate::error::{Error, Result};
use crate::journal::Record;
use crate::name::WorldPath;
use crate::world::store::layout::TRASH;
use crate::world::view::in_trash;
use compact_change_set::CompactChangeSet;
use compact_difference::{CompactDifference, PairDetails};
pub use difference::{ChangeStatus, DiffSide, NodeBytes, PathDifference, TextPair};
use difference::{InnerDifference, bytes};
pub use flagged::PathFlag;
pub use folds::{DiffFolds, FoldCount};
pub(in crate::operator) use git_ignore::GitIgnoreRules;
use name_differ::NameDiffer;
use paths::{PathTable, PlacedNode};

/// The differences between two points, sorted by path.
#[derive(Debug)]
pub struct Diff<'a> {
    before: PastTree<'a>,
    after: PastTree<'a>,
    /// True if all records were taken into account.
    of_all: bool,
    /// True if records outside the request changed some of the same names or nodes meanwhile.
    is_shared: bool,
    paths: PathTable,
    /// Sorted by path.
    found: Vec<CompactDifference>,
    both: PairDetails,
    unreadable: BTreeSet<WorldPath>,
}

impl<'a> Diff<'a> {
    /// Compares two points, at and below a path.
    ///
    /// # Errors
    /// [`Error::Damaged`] where a journal cannot be read; those of reading the disk.
    pub fn between(
        store: &'a Store,
        from: &Point,
        to: &Point,
        below: &WorldPath,
    ) -> Result<Diff<'a>> {
        let past = Past::about_path(store, below, Some(from))?;
        let diff = Diff::of_past(past, (from, to), below)?;
        // For a directory all records are needed; only now is it known that there was one.
        let was_dir = |tree: &PastTree<'_>| {
            let there = tree.resolve(below)?;
            Ok(there.is_some_and(|node| tree.kind(node).is_dir()))
        };
        if diff.of_all || !(was_dir(&diff.before)? || was_dir(&diff.after)?) {
            Ok(diff)
        } else {
            Diff::of_past(Past::now(store)?, (from, to), below)
        }
    }

    /// Compares two points on the way back, whose files are compared with what the home left there first.
    fn of_past(
        past: Past<'a>,
        (from, to): (&Point, &Point),
        below: &WorldPath,
    ) -> Result<Diff<'a>> {
        let of_all = past.looks_at_all();
        let mut past = past.without_actors();
        let (mut after, asked, is_shared) = Diff::back(&mut past, (from, to), |_, _, _| true)?;
        let files = compared_files((past.tree(), &after), &asked, below)?;
        let later = compared_files((&after, past.tree()), &asked, below)?;
        past.tree_mut().compare_with_home(files, from)?;
        after.compare_with_home(later, to)?;
        Diff::of_trees((past.into_tree(), after), (asked, is_shared), below, of_all)
    }

    /// Compares the changes of a run, at and below a path, as it was before the run's first change and just after its
    /// last one. Changes that others made meanwhile show only at paths that the run changed, too.
    ///
    /// # Errors
    /// As [`Diff::between`].
    pub fn of_run(store: &'a Store, run: &RunSummary, below: &WorldPath) -> Result<Diff<'a>> {
        let points = (&run.start(), &run.end());
        Diff::starting(Past::now(store)?, points, below, |_, record, _| {
            record.origin.run == Some(run.id)
        })
    }

    /// As [`Diff::of_run`], for several runs on one way back, as long as `act` asks for the next one. That is as long
    /// as the way to the oldest one where each ended before the one that is before it in the list began.
    ///
    /// # Errors
    /// As [`Diff::between`]; those of `act`.
    pub fn of_runs(
        store: &'a Store,
        runs: &[RunSummary],
        mut act: impl FnMut(&RunSummary, Diff<'a>) -> Result<bool>,
    ) -> Result<()> {
        let mut past = Past::now(store)?.without_actors();
        let mut reached = Point::Now;
        for run in runs {
            if !reached.includes(&run.last.session, run.last.seq) {
                past = Past::now(store)?.without_actors();
            }
            let (from, to) = (run.start(), run.end());
            let (after, asked, is_shared) = Diff::back(&mut past, (&from, &to), |_, record, _| {
                record.origin.run == Some(run.id)
            })?;
            let trees = (past.tree().clone(), after);
            let diff = Diff::of_trees(trees, (asked, is_shared), &WorldPath::root(), true)?;
            reached = from;
            if !act(run, diff)? {
                break;
            }
        }
        Ok(())
    }

    /// Compares the names and nodes that wanted records changed between two points. `wanted` is asked for each effect
    /// of each record, by session, the newest first. A file that was moved and then saved anew, so that another node is
    /// at its new name, is one renamed path.
    ///
    /// # Errors
    /// As [`Diff::between`].
    pub(in crate::operator) fn of_wanted(
        store: &'a Store,
        points: (&Point, &Point),
        mut wanted: impl FnMut(&str, &Record, &RecordEffect) -> bool,
    ) -> Result<Diff<'a>> {
        let mut past = Past::now(store)?.without_actors();
        let mut replaced = Vec::new();
        let (after, mut asked, is_shared) =
            Diff::back(&mut past, points, |session, record, effect| {
                let is_wanted = wanted(session, record, effect);
                if let RecordEffect::Name {
                    before: Some(before),
                    after: Some(after),
                    ..
                } = effect
                    && is_wanted
                {
                    replaced.push((*before, *after));
                }
                is_wanted
            })?;
        replaced.sort_unstable();
        asked.replaced = replaced;
        let trees = (past.into_tree(), after);
        Diff::of_trees(trees, (asked, is_shared), &WorldPath::root(), true)
    }

    /// Goes back to the later point and from there to the earlier one, and compares the names and nodes that the wanted
    /// records touched.
    fn starting(
        mut past: Past<'a>,
        points: (&Point, &Point),
        below: &WorldPath,
        wanted: impl FnMut(&str, &Record, &RecordEffect) -> bool,
    ) -> Result<Diff<'a>> {
        let of_all = past.looks_at_all();
        past = past.without_actors();
        let (after, asked, is_shared) = Diff::back(&mut past, points, wanted)?;
        Diff::of_trees((past.into_tree(), after), (asked, is_shared), below, of_all)
    }

    /// Goes back to the later point and from there to the earlier one. Returns the tree at the later point, the changes
    /// of the wanted records, and whether other records touched some of the same names or nodes.
    fn back(
        past: &mut Past<'a>,
        (from, to): (&Point, &Point),
        mut wanted: impl FnMut(&str, &Record, &RecordEffect) -> bool,
    ) -> Result<(PastTree<'a>, CompactChangeSet, bool)> {
        past.back_noting(to, |_, _, _| {})?;
        let after = past.tree().clone();
        let trash = after.lookup(ROOT, TRASH)?;
        let (mut asked, mut others) = (CompactChangeSet::new(trash), CompactChangeSet::new(trash));
        // The names to which, and from which, others moved nodes that the wanted records touched.
        let (mut moved, mut left) = (Vec::new(), Vec::new());
        past.back_noting(from, |session, record, effect| {
            if wanted(session, record, effect) {
                return asked.note(effect);
            }
            // The time of a directory changes with everything in it.
            if !matches!(effect, RecordEffect::Time(..)) {
                others.note(effect);
            }
            if let RecordEffect::Name {
                dir,
                name,
                before,
                after,
            } = effect
            {
                let place = (*dir, *name);
                moved.extend(after.map(|node| (node, place)));
                left.extend(before.map(|node| (node, place, after.is_some())));
            }
        })?;
        asked.follow(&moved, &left);
        asked.sort();
        let is_shared = asked.meets(&others);
        Ok((after, asked, is_shared))
    }

    /// Compares two trees where records touched them.
    fn of_trees(
        (before, after): (PastTree<'a>, PastTree<'a>),
        (asked, is_shared): (CompactChangeSet, bool),
        below: &WorldPath,
        of_all: bool,
    ) -> Result<Diff<'a>> {
        let mut names = NameDiffer::new(&before, &after, asked, below);
        names.compare()?;
        names.find()?;
        let NameDiffer {
            paths,
            found,
            both,
            unreadable,
            ..
        } = names;
        Ok(Diff {
            before,
            after,
            of_all,
            is_shared,
            paths,
            found,
            both,
            unreadable,
        })
    }

    /// Describes, a line each, the directories that this user may not read: differences in them are not known.
    pub fn unreadable(&self) -> impl Iterator<Item = String> {
        let why = difference::unreadable();
        self.unreadable
            .iter()
            .map(move |path| format!("{path}: {why}"))
    }

    /// Returns whether other records changed some of the same names or nodes between the points; their changes are
    /// among the differences.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the trees at the earlier and the later point.
    pub(in crate::operator) fn trees(&self) -> (&PastTree<'a>, &PastTree<'a>) {
        (&self.before, &self.after)
    }

    /// Returns the number of differences.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Iterates over the change of each path, in order.
    pub fn statuses(&self) -> impl Iterator<Item = ChangeStatus> {
        self.found.iter().map(|found| found.status)
    }

    /// Iterates over the differing paths, in order, each with the path before if it was renamed.
    pub fn paths(&self) -> impl Iterator<Item = (Option<WorldPath>, WorldPath)> {
        self.found.iter().map(|found| self.path(found))
    }

    /// Iterates over the differences, sorted by path. Each is completed only when it is reached: sizes and other
    /// attributes are read from the disk then, so memory does not grow with the output.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn changes(&self) -> impl Iterator<Item = Result<PathDifference>> {
        self.found.iter().map(|found| self.change(found))
    }

    /// Returns a difference by its place in the order; `None` behind the last.
    ///
    /// # Errors
    /// As [`Diff::changes`].
    pub fn nth(&self, number: usize) -> Result<Option<PathDifference>> {
        let found = self.found.get(number);
        found.map(|found| self.change(found)).transpose()
    }

    /// Returns a path by its place in the order, with the change of it.
    pub fn nth_path(&self, number: usize) -> Option<(ChangeStatus, WorldPath)> {
        let found = self.found.get(number)?;
        Some((found.status, self.path(found).1))
    }

    /// Returns a path by its place in the order, and the path before if it was renamed.
    pub fn nth_names(&self, number: usize) -> Option<(Option<WorldPath>, WorldPath)> {
        self.found.get(number).map(|found| self.path(found))
    }

    /// Returns the nodes that a difference is about, before and after.
    pub(in crate::operator) fn nth_nodes(&self, number: usize) -> [Option<NodeId>; 2] {
        let sides = self.found.get(number).map(|found| self.both.sides(found));
        let (was, is) = sides.unwrap_or_default();
        [was, is].map(|thing| thing.map(|thing| thing.node))
    }

    fn path(&self, found: &CompactDifference) -> (Option<WorldPath>, WorldPath) {
        let texts = self.before.disk().texts();
        let (was, _) = self.both.sides(found);
        let from = was.filter(|_| found.status == ChangeStatus::Renamed);
        let from = from.map(|was| self.paths.path(&texts, was.spot));
        (from, self.paths.path(&texts, found.thing.spot))
    }

    fn change(&self, found: &CompactDifference) -> Result<PathDifference> {
        let mut unknown = None;
        let mut side = |tree: &PastTree<'a>, thing: Option<PlacedNode>| match thing {
            None => Ok(None),
            Some(PlacedNode { node, .. }) => match tree.meta(node) {
                Ok(meta) => Ok(Some(DiffSide::new(node, &meta))),
                Err(Error::Missing { what, .. }) => {
                    unknown = Some(what);
                    Ok(None)
                }
                Err(error) if error.is_denial() => {
                    unknown = Some(difference::unreadable());
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        };
        let (was, is) = self.both.sides(found);
        let before = side(&self.before, was)?;
        let after = side(&self.after, is)?;
        let (from, path) = self.path(found);
        let mut inside = InnerDifference {
            content: found.content,
            xattrs: found.xattrs,
            unknown: self.both.unknown(found).cloned().or(unknown),
        };
        if found.later
            && let Some((before, after)) = before.zip(after)
        {
            inside = InnerDifference::compare((&self.before, before), (&self.after, after))?;
        }
        if inside.unknown.is_none() {
            let alone = match (before, after) {
                (Some(before), None) => Some((&self.before, before)),
                (None, Some(after)) => Some((&self.after, after)),
                _ => None,
            };
            inside.unknown = alone.and_then(|(tree, side)| difference::unknown_content(tree, side));
        }
        Ok(PathDifference {
            status: found.status,
            path,
            from,
            before,
            after,
            content: inside.content,
            xattrs: inside.xattrs,
            unknown: inside.unknown,
        })
    }

    /// Opens a difference's contents, before and after, where they exist.
    ///
    /// # Errors
    /// As [`PastTree::content`].
    pub fn contents(
        &self,
        change: &PathDifference,
    ) -> Result<(Option<NodeBytes>, Option<NodeBytes>)> {
        Ok((
            bytes(&self.before, change.before)?,
            bytes(&self.after, change.after)?,
        ))
    }

    /// Reads a difference's contents, if they are text.
    ///
    /// # Errors
    /// As [`Diff::contents`].
    pub fn texts(&self, change: &PathDifference) -> Result<TextPair> {
        let (before, after) = self.contents(change)?;
        TextPair::read(before, after)
    }
}

/// Returns the files of a tree whose contents are compared with those of another one: those that records changed, and the
/// files below directories that are in one of the two alone.
fn compared_files(
    (tree, other): (&PastTree<'_>, &PastTree<'_>),
    asked: &CompactChangeSet,
    below: &WorldPath,
) -> Result<Vec<ComparedFile>> {
    let shown = |tree: &PastTree<'_>, node| tree.path(node).filter(|path| !in_trash(path));
    let mut nodes: Vec<NodeId> = asked.nodes.iter().collect();
    for (dir, name) in &asked.places {
        match tree.lookup_id(*dir, *name) {
            Err(error) if error.is_denial() => {}
            node => nodes.extend(node?),
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    let mut files = Vec::new();
    for node in nodes {
        let Some(path) = shown(tree, node) else {
            continue;
        };
        let there = shown(other, node);
        if tree.kind(node).is_dir() {
            if there.is_none() {
                tree.add_files(node, &path, &mut files)?;
            }
        } else if below.contains(&path) || there.is_some_and(|there| below.contains(&there)) {
            files.push((node, None));
        }
    }
    Ok(files)
}
