//! The names and nodes that records changed between two points.

use crate::operator::past::{NameSlot, NodeId, NodeSet, RecordEffect};

/// The number of the latest names that are checked for repetition: a file is mostly created, moved and removed in one
/// go.
const REPETITION_WINDOW: usize = 4;

/// The number of nodes that are followed as successors of one: a file that was saved more often is listed twice.
const MAX_SUCCESSORS: usize = 100;

/// A compact form of a [`ChangeSet`](crate::operator::past::ChangeSet).
#[derive(Debug, Default)]
pub(super) struct CompactChangeSet {
    /// The names, each with its directory; sorted once all are there.
    pub(super) places: Vec<NameSlot>,
    /// The nodes whose content or attributes changed.
    pub(super) nodes: NodeSet,
    /// The nodes that were created.
    born: NodeSet,
    /// The trash: its entries are not compared.
    trash: Option<NodeId>,
    /// The nodes that were replaced by another one at a name, each with that one, by node; only where a node that moved
    /// before it was replaced is paired with its successor.
    pub(super) replaced: Vec<(NodeId, NodeId)>,
}

impl CompactChangeSet {
    pub(super) fn new(trash: Option<NodeId>) -> CompactChangeSet {
        CompactChangeSet {
            trash,
            ..CompactChangeSet::default()
        }
    }

    /// Adds what an effect changes.
    pub(super) fn note(&mut self, effect: &RecordEffect) {
        if let RecordEffect::Name { dir, name, .. } = effect
            && Some(*dir) != self.trash
            && !self
                .places
                .iter()
                .rev()
                .take(REPETITION_WINDOW)
                .any(|place| *place == (*dir, *name))
        {
            // A file rewritten a thousand times is one name: deduplicate before growing.
            if self.places.len() == self.places.capacity() {
                self.sort();
                self.places.reserve_exact(self.places.len().max(1024));
            }
            self.places.push((*dir, *name));
        }
        self.nodes.extend(effect.changed_inside());
        if let RecordEffect::Born(node) = effect {
            self.born.insert(*node);
        }
    }

    /// Adds the names that other records gave to nodes which the noted effects created or changed, and the names that
    /// those nodes lost: by moving, or because another node took their place, as many editors save. Removals by other
    /// records are left out. `left`: whether another node took the name.
    pub(super) fn follow(
        &mut self,
        moved: &[(NodeId, NameSlot)],
        left: &[(NodeId, NameSlot, bool)],
    ) {
        let is_noted = |node: NodeId| self.nodes.contains(node) || self.born.contains(node);
        let moved = moved
            .iter()
            .filter(|(node, (dir, _))| is_noted(*node) && Some(*dir) != self.trash);
        let mut nodes = NodeSet::default();
        let mut places = Vec::new();
        for (node, place) in moved {
            nodes.insert(*node);
            places.push(*place);
        }
        let left = left.iter().filter(|(node, (dir, _), replaced)| {
            let is_meant = *replaced && self.nodes.contains(*node) || nodes.contains(*node);
            is_meant && Some(*dir) != self.trash
        });
        places.extend(left.map(|(_, place, _)| *place));
        self.places.extend(places);
    }

    /// Returns whether the two sets have a name or a node in common. `self` is sorted.
    pub(super) fn meets(&self, other: &CompactChangeSet) -> bool {
        let has = |place: &NameSlot| self.places.binary_search(place).is_ok();
        other.places.iter().any(has) || other.nodes.iter().any(|node| self.nodes.contains(node))
    }

    /// Returns the nodes that took the place of a node, and those that took theirs.
    pub(super) fn successors(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = vec![node];
        let mut next = 0;
        while let Some(node) = found.get(next).copied() {
            let from = self.replaced.partition_point(|(of, _)| *of < node);
            let of_node = self
                .replaced
                .iter()
                .skip(from)
                .take_while(|(of, _)| *of == node);
            for (_, successor) in of_node {
                if !found.contains(successor) && found.len() < MAX_SUCCESSORS {
                    found.push(*successor);
                }
            }
            next += 1;
        }
        found.split_off(1)
    }

    /// Sorts and deduplicates the names, so that those of one directory are looked up together.
    pub(super) fn sort(&mut self) {
        self.places.sort_unstable();
        self.places.dedup();
    }
}
