//! The lines of a path of a review: hunk by hunk, the changes, and whether they can still be taken back.
//!
//! Owns what a hunk of a review is. It goes from before the path's oldest change that is not accepted to after its
//! latest one of the scope, so later changes of others are not part of it, and its lines are compared with the file as
//! it is now.

use super::hunks::{PathHunks, SplitHunks, states};
use super::list::Review;
use super::other_changes::content_nodes;
use super::scope_index::ScopeRecord;
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::diff::{DiffSide, NodeBytes, PathDifference, TextPair};
use crate::operator::past::{NodeId, Past, PastTree, RecordId, UnknownWriterOf};
use crate::operator::point::Point;
use crate::operator::text::TextComparison;

const TAKES_LONG: &str = "takes longer than two seconds to compare line by line";

const OUTSIDE: &str = "was changed outside the home later, and what the run left was not kept";
/// As [`OUTSIDE`], where it is recorded that it was no owner's change.
const UNKNOWN: &str = "was changed later by an unknown writer, while a run worked in the project's place, and what the run left was not kept";

/// The contents of a path at the points that matter.
struct PathContents {
    texts: TextPair,
    now: Option<Vec<u8>>,
    /// A change of another author between the first two points.
    between: Option<RecordId>,
    /// The record that somebody outside the home changed it after, between the first two points.
    outside: Option<RecordId>,
    /// The unknown writer who changed it after the second point.
    unknown: Option<UnknownWriterOf>,
}

impl PathContents {
    fn of(texts: TextPair) -> PathContents {
        PathContents {
            texts,
            now: None,
            between: None,
            outside: None,
            unknown: None,
        }
    }
}

impl Review<'_> {
    /// Compares the lines of a listed path, by its place in the order.
    ///
    /// # Errors
    /// As [`Diff::contents`](crate::operator::diff::Diff::contents).
    pub fn lines(&self, number: usize) -> Result<Option<PathHunks>> {
        let (Some(change), Some(diff)) = (self.difference(number)?, self.diff()) else {
            return Ok(None);
        };
        let nodes = self.nodes(number);
        let mut others = nodes.into_iter().flatten();
        let by = others.find_map(|node| self.others.latest(node).cloned());
        let mut whole = no_hunks_reason(&change);
        // Somebody outside the home put it there, beside the file that the run left.
        let [was, is] = nodes;
        let earlier = diff.trees().0;
        let mut both = nodes.into_iter().flatten();
        let unknown = both.any(|node| earlier.unknown_writer(node).is_some());
        let lost = if unknown { UNKNOWN } else { OUTSIDE };
        let is_alien = is.is_some_and(|is| was != Some(is) && self.touching(is).is_empty());
        if is_alien && by.is_none() {
            whole = whole.or(Some(lost));
        }
        let mut both = nodes.into_iter().flatten();
        let outside = unknown || both.any(|node| earlier.is_changed_outside(node));
        let contents = match (by.is_some() || outside) && whole.is_none() {
            true => match self.contents(number, &change) {
                Err(Error::Missing { .. }) if outside => {
                    whole = Some(lost);
                    PathContents::of(TextPair::Binary)
                }
                contents => contents?,
            },
            false => PathContents::of(diff.texts(&change)?),
        };
        let comparison = match contents.texts {
            TextPair::Text(before, after) => TextComparison::new(before, after),
            TextPair::Binary => {
                whole = whole.or(Some("is no text, or a very long one"));
                TextComparison::default()
            }
        };
        // The numbers of its hunks could mean other hunks in the next comparison.
        if comparison.is_rough() {
            whole = whole.or(Some(TAKES_LONG));
        }
        let is_mixed = contents.between.is_some() || contents.outside.is_some();
        let now = contents.now.as_deref().filter(|_| whole.is_none());
        let accepted = self.seen.accepted_hunks(&change.path);
        let split = SplitHunks {
            accepted,
            asked: self.splits.get(&change.path).map_or(&[][..], Vec::as_slice),
        };
        let hunks = states(&comparison, now, is_mixed, &split).or_else(|| {
            whole = Some(TAKES_LONG);
            states(&comparison, None, is_mixed, &split)
        });
        let mut lines = PathHunks {
            hunks: hunks.unwrap_or_default(),
            comparison,
            now: contents.now,
            ids: nodes[1].and_then(|node| diff.trees().1.ids(node)),
            whole,
            is_all: is_of_lines(&change),
            last: self
                .records_at(number)
                .next()
                .map(|record| self.seen.operation(record)),
            by: contents.between.or(by),
            outside: contents.outside,
            unknown: contents.unknown,
            path: change.path,
        };
        lines.accept(self.seen.accepted_hunks(&lines.path));
        Ok(Some(lines))
    }

    /// Leaves out the paths with accepted hunks only.
    pub(super) fn leave_out_accepted(&mut self) -> Result<()> {
        if !self.seen.has_accepted_hunks() {
            return Ok(());
        }
        self.leave_out(|review, number| {
            let known = review.path(number);
            if known.is_none_or(|(_, path)| review.seen.accepted_hunks(&path).is_empty()) {
                return Ok(false);
            }
            let lines = review.lines(number).ok().flatten();
            Ok(lines.is_some_and(|lines| lines.is_all() && lines.is_decided()))
        })
    }

    /// Reads a file at the points between which it is reviewed.
    fn contents(&self, number: usize, change: &PathDifference) -> Result<PathContents> {
        let records: Vec<&ScopeRecord> = self.records_at(number).collect();
        let open = records.iter().rev().find(|record| !record.accepted);
        let (Some(first), Some(last)) = (open.or(records.last()), records.first()) else {
            return Err(Error::NotFound);
        };
        let mut start = self.seen.operation(first);
        start.seq = start.seq.saturating_sub(1);
        let [was, is] = self.nodes(number);
        let mut past = Past::now(self.store)?;
        past.back_to(&self.until)?;
        let is_node = past.tree().resolve(&change.path)?;
        let end = Point::After(self.seen.operation(last));
        past.back_to(&end)?;
        let meant = node(past.tree(), is_node, &change.path)?;
        if let Some(path) = meant.and_then(|meant| past.tree().path(meant)) {
            past.compare_with_home(&path, &end)?;
        }
        let later = content(past.tree(), meant)?;
        let unknown = meant.and_then(|meant| past.tree().unknown_writer(meant));
        let since = meant.and_then(|meant| past.tree().outside_after(meant).cloned());
        let mut between = None;
        past.back_noting(&Point::After(start), |session, record, effect| {
            let is_it = content_nodes(effect)
                .into_iter()
                .flatten()
                .any(|node| Some(node) == meant);
            if is_it && !record.origin.is_undo() && self.seen.find(session, record.seq).is_none() {
                between = between
                    .take()
                    .or_else(|| Some((session.into(), record.seq)));
            }
        })?;
        let from = change.from.as_ref().unwrap_or(&change.path);
        let same = is_node.filter(|_| was == is);
        let found = node(past.tree(), same, from)?;
        let earlier = content(past.tree(), found)?;
        // One of the two, where a program of the run's saved it anew.
        let mut both = [meant, found].into_iter().flatten();
        let outside = both.find_map(|node| {
            let oldest = past.tree().outside_after(node);
            oldest
                .filter(|oldest| since.as_ref() != Some(oldest))
                .cloned()
        });
        let now = match self.diff().map(|diff| diff.texts(change)).transpose()? {
            Some(TextPair::Text(_, now)) => now,
            _ => {
                return Ok(PathContents {
                    between,
                    outside,
                    unknown,
                    ..PathContents::of(TextPair::Binary)
                });
            }
        };
        let texts = TextPair::read(earlier, later)?;
        let is_same = matches!(&texts, TextPair::Text(_, later) if *later == now);
        Ok(PathContents {
            texts,
            now: (!is_same).then_some(now),
            between,
            outside,
            unknown,
        })
    }
}

/// Returns the node if the tree has it, otherwise the node at the path there: an editor may have put another file at a
/// path.
fn node(tree: &PastTree<'_>, same: Option<NodeId>, path: &WorldPath) -> Result<Option<NodeId>> {
    match same.filter(|node| tree.slot(*node).is_some()) {
        Some(node) => Ok(Some(node)),
        None => tree.resolve(path),
    }
}

fn content(tree: &PastTree<'_>, node: Option<NodeId>) -> Result<Option<NodeBytes>> {
    let open = |node| {
        let content = tree.content(node)?;
        match content.missing_part().filter(|part| part.is_outside()) {
            Some(part) => Err(Error::Missing {
                what: part.to_string(),
                remedy: String::new(),
            }),
            None => Ok(NodeBytes::File(content)),
        }
    };
    node.map(open).transpose()
}

/// Returns the reason why a change has no hunks, if it has none.
fn no_hunks_reason(change: &PathDifference) -> Option<&'static str> {
    let is_file = |side: &Option<_>| {
        side.as_ref()
            .is_none_or(|side: &DiffSide| side.kind == "file")
    };
    match (&change.before, &change.after) {
        _ if !is_file(&change.before) || !is_file(&change.after) => Some("is no file"),
        (None, _) => Some("was made as a whole"),
        (_, None) => Some("was removed as a whole"),
        _ => None,
    }
}

/// Returns whether a change is one of lines only.
fn is_of_lines(change: &PathDifference) -> bool {
    let attributes = |side: &Option<DiffSide>| side.as_ref().map(|side| side.attributes());
    change.from.is_none()
        && !change.xattrs
        && attributes(&change.before) == attributes(&change.after)
}
