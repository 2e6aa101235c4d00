//! Compares two trees name by name, and pairs the differences into changes.
//!
//! Owns the pairing: the same node at another name, another node at the same name, and the rest. Starts from the
//! names that records changed; a directory that is in the home on one side only brings all its entries.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use rustix::fs::FileType;

use super::compact_change_set::CompactChangeSet;
use super::compact_difference::{CompactDifference, PairDetails};
use super::difference::{ChangeStatus, DiffSide, InnerDifference};
use super::paths::{CompactPath, PathTable, PlacedNode};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::past::{NameSlot, NodeId, NodeSet, NumberHash, PastTree};

/// The difference of two nodes, apart from their places.
#[derive(Default)]
struct NodeDifference {
    differs: bool,
    inside: InnerDifference,
    /// True if the insides are compared only when the difference is reported: the sizes differ already.
    later: bool,
}

/// The two trees, and the results so far.
pub(super) struct NameDiffer<'t, 'a> {
    before: &'t PastTree<'a>,
    after: &'t PastTree<'a>,
    asked: CompactChangeSet,
    below: &'t WorldPath,
    done: HashSet<NameSlot, NumberHash>,
    /// The nodes that have left a name, and those that have come to one.
    gone: Vec<PlacedNode>,
    come: Vec<PlacedNode>,
    /// The places of changed nodes that have the same name before and after.
    stayed: HashMap<NodeId, NameSlot, NumberHash>,
    pub(super) paths: PathTable,
    pub(super) found: Vec<CompactDifference>,
    pub(super) both: PairDetails,
    /// The directories that this user may not read.
    pub(super) unreadable: BTreeSet<WorldPath>,
}

impl<'t, 'a> NameDiffer<'t, 'a> {
    /// Starts a comparison. The names of `asked` must be sorted.
    pub(super) fn new(
        before: &'t PastTree<'a>,
        after: &'t PastTree<'a>,
        asked: CompactChangeSet,
        below: &'t WorldPath,
    ) -> NameDiffer<'t, 'a> {
        NameDiffer {
            before,
            after,
            asked,
            below,
            done: HashSet::default(),
            gone: Vec::new(),
            come: Vec::new(),
            stayed: HashMap::default(),
            paths: PathTable::new(before.disk()),
            found: Vec::new(),
            both: PairDetails::default(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Compares all names of `asked`, and drops the list.
    pub(super) fn compare(&mut self) -> Result<()> {
        let places = std::mem::take(&mut self.asked.places);
        let mut asked = places.iter();
        let mut pending: Vec<NameSlot> = Vec::new();
        loop {
            let place = match pending.pop() {
                Some(place) if places.binary_search(&place).is_ok() => continue,
                Some(place) if !self.done.insert(place) => continue,
                Some(place) => place,
                None => match asked.next() {
                    Some(place) => *place,
                    None => return Ok(()),
                },
            };
            let was = self.entry(false, place)?;
            let is = self.entry(true, place)?;
            let (was_node, is_node) = (was.map(|was| was.node), is.map(|is| is.node));
            if was_node == is_node {
                if let Some(node) = was_node.filter(|node| self.asked.nodes.contains(*node)) {
                    self.stayed.insert(node, place);
                }
                continue;
            }
            // The entries of a directory come and go with it.
            for (tree, other_is_after, node) in
                [(self.before, true, was_node), (self.after, false, is_node)]
            {
                if let Some(node) = node
                    && tree.kind(node) == FileType::Directory
                    && !self.is_shown(other_is_after, node)
                {
                    match tree.name_ids(node) {
                        Ok(name_ids) => pending.extend(name_ids.map(|name_id| (node, name_id))),
                        Err(Error::NotFound | Error::Missing { .. }) => {}
                        Err(error) if error.is_denial() => {
                            self.unreadable.extend(tree.path(node));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            self.gone.extend(was);
            self.come.extend(is);
        }
    }

    fn tree(&self, is_after: bool) -> &'t PastTree<'a> {
        if is_after { self.after } else { self.before }
    }

    /// Returns the node that a name means, if its directory is in the home.
    fn entry(&mut self, is_after: bool, place: NameSlot) -> Result<Option<PlacedNode>> {
        let tree = self.tree(is_after);
        let Some(spot) = self.paths.spot(is_after, tree, place) else {
            return Ok(None);
        };
        match tree.lookup_id(place.0, place.1) {
            Err(error) if error.is_denial() => {
                self.unreadable.extend(tree.path(place.0));
                Ok(None)
            }
            node => Ok(node?.map(|node| PlacedNode { node, spot })),
        }
    }

    /// Returns whether a directory is in the home and not in the trash.
    fn is_shown(&mut self, is_after: bool, dir: NodeId) -> bool {
        self.paths.dir(is_after, self.tree(is_after), dir).is_some()
    }

    fn order(&self, one: CompactPath, other: CompactPath) -> Ordering {
        let texts = self.before.disk().texts();
        self.paths.order(&texts, one, other)
    }

    /// Returns whether a path is at or below the requested one.
    fn is_below(&self, spot: CompactPath) -> bool {
        let path = || self.paths.path(&self.before.disk().texts(), spot);
        self.below.is_root() || self.below.contains(&path())
    }

    /// Pairs nodes that left with those that came, and finds the other changes. Sorted by path.
    pub(super) fn find(&mut self) -> Result<()> {
        let (mut gone, come) = (
            std::mem::take(&mut self.gone),
            std::mem::take(&mut self.come),
        );
        gone.sort_unstable_by(|a, b| self.order(a.spot, b.spot));
        let mut gone_nodes = NodeSet::default();
        gone_nodes.extend(gone.iter().map(|thing| thing.node));
        // The new names of nodes that left another, and the nodes now at the names of those that left.
        let mut moved: HashMap<NodeId, Vec<usize>, NumberHash> = HashMap::default();
        let mut instead: HashMap<usize, usize> = HashMap::new();
        for (number, is) in come.iter().enumerate().filter(|_| !gone.is_empty()) {
            if gone_nodes.contains(is.node) {
                moved.entry(is.node).or_default().push(number);
            }
            if let Ok(was) = gone.binary_search_by(|was| self.order(was.spot, is.spot)) {
                instead.insert(was, number);
            }
        }
        for numbers in moved.values_mut() {
            let spot = |number: &usize| come.get(*number).map(|thing| thing.spot);
            numbers.sort_by(|a, b| match spot(b).zip(spot(a)) {
                Some((b, a)) => self.order(b, a),
                None => Ordering::Equal,
            });
        }
        // The nodes that have left a name or come to one, and those of them that are reported with both.
        let (mut paired, mut moved_on) = (NodeSet::default(), NodeSet::default());
        let mut taken: HashSet<usize> = HashSet::new();
        let mut lost = Vec::new();
        // First the same node at another name,
        for (number, was) in gone.into_iter().enumerate() {
            let to = moved.get_mut(&was.node).and_then(Vec::pop);
            let Some((to, is)) = to.and_then(|to| Some((to, *come.get(to)?))) else {
                lost.push((number, was));
                continue;
            };
            taken.insert(to);
            moved_on.insert(was.node);
            if self.is_below(was.spot) || self.is_below(is.spot) {
                self.pair(was, is, self.asked.nodes.contains(was.node))?;
            }
        }
        // then another node at the same name,
        let mut left = Vec::new();
        for (number, was) in lost {
            paired.insert(was.node);
            let is = instead.get(&number).copied();
            let is = is.filter(|number| !taken.contains(number));
            let is = is.and_then(|number| Some((number, *come.get(number)?)));
            let same_kind = |is: NodeId| self.before.kind(was.node) == self.after.kind(is);
            let is = is.filter(|(_, is)| same_kind(is.node));
            taken.extend(is.map(|(number, _)| number));
            if self.is_below(was.spot) {
                match is {
                    Some((_, is)) => self.pair(was, is, true)?,
                    None => left.push(was),
                }
            }
        }
        self.pair_with_successors(left, &come, &mut taken, &mut paired)?;
        // then new names,
        for (number, is) in come.into_iter().enumerate() {
            if !taken.contains(&number) {
                paired.insert(is.node);
                if self.is_below(is.spot) {
                    self.found.push(CompactDifference::new(is));
                }
            }
        }
        self.find_unmoved(&paired, &moved_on)?;
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by(|a, b| {
            let order = self.order(a.thing.spot, b.thing.spot);
            order.then_with(|| a.is_addition().cmp(&b.is_addition()))
        });
        self.found = found;
        Ok(())
    }

    /// Pairs files that were moved and then replaced with the file that has come to the new name; the others are
    /// removals.
    fn pair_with_successors(
        &mut self,
        left: Vec<PlacedNode>,
        come: &[PlacedNode],
        taken: &mut HashSet<usize>,
        paired: &mut NodeSet,
    ) -> Result<()> {
        let mut places: HashMap<NodeId, usize, NumberHash> = HashMap::default();
        if !self.asked.replaced.is_empty() && !left.is_empty() {
            let free = come
                .iter()
                .enumerate()
                .filter(|(at, _)| !taken.contains(at));
            places.extend(free.map(|(at, thing)| (thing.node, at)));
        }
        for was in left {
            let successors = match places.is_empty() {
                true => Vec::new(),
                false => self.asked.successors(was.node),
            };
            let is_file = |node: NodeId| self.after.kind(node).is_file();
            let mut found = successors.into_iter().filter(|node| is_file(*node));
            let found = found.find_map(|node| places.remove(&node));
            match found.and_then(|at| Some((at, *come.get(at)?))) {
                Some((at, is)) if self.before.kind(was.node).is_file() => {
                    taken.insert(at);
                    paired.insert(is.node);
                    self.pair(was, is, true)?;
                }
                _ => self.found.push(CompactDifference::removal(was)),
            }
        }
        Ok(())
    }

    /// Finds nodes that changed in place.
    fn find_unmoved(&mut self, paired: &NodeSet, moved_on: &NodeSet) -> Result<()> {
        let asked = std::mem::take(&mut self.asked.nodes);
        for node in asked.iter().filter(|node| !moved_on.contains(*node)) {
            let (from, to) = if paired.contains(node) {
                // The difference of another name does not report the change of the node.
                self.kept_name(node)?
            } else {
                self.name_on_both_sides(node)
            };
            let Some((from, to)) = from.zip(to).filter(|(_, to)| self.is_below(*to)) else {
                continue;
            };
            let (was, is) = (
                PlacedNode { node, spot: from },
                PlacedNode { node, spot: to },
            );
            // At another path because a directory above it was renamed: the directory is listed instead.
            let look = self.compare_nodes(was, is, true)?;
            if look.differs {
                self.add(ChangeStatus::Modified, was, is, look);
            }
        }
        Ok(())
    }

    /// Returns the places of a node before and after.
    fn name_on_both_sides(&mut self, node: NodeId) -> (Option<CompactPath>, Option<CompactPath>) {
        let (before, after) = (self.before, self.after);
        let from = self.paths.spot_of(false, before, node);
        let to = self.paths.spot_of(true, after, node);
        if from.is_some() && to.is_some() {
            return (from, to);
        }
        // It has several names, and the one asked for is in the trash.
        let Some(place) = self.stayed.get(&node).copied() else {
            return (None, None);
        };
        let from = self.paths.spot(false, before, place);
        (from, self.paths.spot(true, after, place))
    }

    /// Returns a name that a node has before and after, while others came or went.
    fn kept_name(&mut self, node: NodeId) -> Result<(Option<CompactPath>, Option<CompactPath>)> {
        let (before, after) = (self.before, self.after);
        for place in before.every_place(node) {
            if after.lookup_id(place.0, place.1)? == Some(node)
                && let Some(from) = self.paths.spot(false, before, place)
                && let Some(to) = self.paths.spot(true, after, place)
            {
                return Ok((Some(from), Some(to)));
            }
        }
        Ok((None, None))
    }

    /// Adds a change if the two sides differ.
    fn pair(&mut self, was: PlacedNode, is: PlacedNode, look_inside: bool) -> Result<()> {
        let status = match self.order(was.spot, is.spot) {
            Ordering::Equal => ChangeStatus::Modified,
            _ => ChangeStatus::Renamed,
        };
        let look = match status {
            ChangeStatus::Renamed if !look_inside => NodeDifference::default(),
            _ => self.compare_nodes(was, is, look_inside)?,
        };
        if look.differs || status == ChangeStatus::Renamed {
            self.add(status, was, is, look);
        }
        Ok(())
    }

    fn add(&mut self, status: ChangeStatus, was: PlacedNode, is: PlacedNode, look: NodeDifference) {
        let mut found = CompactDifference::new(is);
        found.status = status;
        (found.content, found.xattrs) = (look.inside.content, look.inside.xattrs);
        found.later = look.later;
        self.found
            .push(self.both.found(found, was, look.inside.unknown));
    }

    /// Compares the two sides.
    fn compare_nodes(
        &self,
        was: PlacedNode,
        is: PlacedNode,
        inside: bool,
    ) -> Result<NodeDifference> {
        let side = |tree: &PastTree<'a>, node: NodeId| match tree.meta(node) {
            Ok(meta) => Ok(Some(DiffSide::new(node, &meta))),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) if error.is_denial() => Ok(None),
            Err(error) => Err(error),
        };
        let (before, after) = (side(self.before, was.node)?, side(self.after, is.node)?);
        let mut look = NodeDifference::default();
        let Some((before, after)) = before.zip(after) else {
            // Whatever is missing is reported when the difference is printed.
            look.differs = true;
            return Ok(look);
        };
        // There can be many of them, and to open a content costs more than everything else about it.
        if inside && before.is_content() && before.kind == after.kind && before.size != after.size {
            (look.inside.content, look.later) = (true, true);
        } else if inside {
            look.inside = InnerDifference::compare((self.before, before), (self.after, after))?;
        }
        let differs = look.inside.content || look.inside.xattrs;
        look.differs = differs || before.attributes() != after.attributes();
        Ok(look)
    }
}
