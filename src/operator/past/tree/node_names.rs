//! Names in a tree of the past: the node that a name means, and the places of a node.
//!
//! Owns both directions. A name that no record changed means what it means on the disk. The names given to a node are
//! remembered, and each counts only while it still means that node.

use crate::operator::past::disk::node_id::{NameSlot, NodeId};

/// The names given to nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeNames {
    /// Each name, with the entry before it for the same node, numbered as in `last`.
    all: Vec<(NameSlot, u32)>,
    /// The last entry of each node: its index plus one; 0 for none; `DISK` where the only name is the one on the
    /// disk, which is not stored twice.
    last: Vec<u32>,
}

pub(super) const ON_DISK: u32 = u32::MAX;

impl NodeNames {
    pub(super) fn last_name(&self, node: NodeId) -> u32 {
        self.last.get(node.index()).copied().unwrap_or(0)
    }

    fn get(&self, number: u32) -> Option<(NameSlot, u32)> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.all.get(at).copied()
    }

    /// Iterates over a node's names except the one on the disk, the latest first.
    pub(super) fn names_of(&self, node: NodeId) -> impl Iterator<Item = NameSlot> {
        let mut next = self.last_name(node);
        std::iter::from_fn(move || {
            let (place, before) = self.get(next)?;
            next = before;
            Some(place)
        })
    }

    pub(super) fn add(&mut self, node: NodeId, place: NameSlot, is_on_disk: bool) {
        let last = self.last_name(node);
        let mut at = last;
        while let Some((known, before)) = self.get(at) {
            if known == place {
                return;
            }
            at = before;
        }
        if at == ON_DISK && is_on_disk {
            return;
        }
        let number = if last == 0 && is_on_disk {
            ON_DISK
        } else {
            self.all.push((place, last));
            // Four billion entries do not fit into memory.
            u32::try_from(self.all.len()).unwrap_or(u32::MAX)
        };
        if self.last.len() <= node.index() {
            self.last.resize(node.index() + 1, 0);
        }
        if let Some(last) = self.last.get_mut(node.index()) {
            *last = number;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operator::past::NameInterner;
    use crate::operator::past::ROOT;

    #[test]
    fn latest_name_of_a_node_comes_first() {
        let mut interner = NameInterner::default();
        let places: Vec<NameSlot> = (0..5)
            .map(|number: u32| (ROOT, interner.name_id(number.to_string().as_bytes())))
            .collect();
        let node = |number| NodeId::numbered(number).unwrap();
        let mut random = crate::random::Random(7);
        let mut throw = |sides: usize| random.index(sides);
        for _ in 0..500 {
            let mut parents = NodeNames::default();
            // Each node is at one of the places, or at none.
            let disk: Vec<Option<NameSlot>> =
                (0..3).map(|_| places.get(throw(6)).copied()).collect();
            let mut plain: Vec<Vec<NameSlot>> = vec![Vec::new(); 3];
            for _ in 0..throw(12) {
                let (at, place) = (throw(3), *places.get(throw(5)).unwrap());
                let on_disk = *disk.get(at).unwrap();
                parents.add(node(at), place, on_disk == Some(place));
                let known = plain.get_mut(at).unwrap();
                if !known.contains(&place) {
                    known.insert(0, place);
                }
            }
            for (at, (plain, disk)) in plain.into_iter().zip(disk).enumerate() {
                let first = |all: Vec<NameSlot>| {
                    let mut seen = Vec::new();
                    for place in all.into_iter().chain(disk) {
                        if !seen.contains(&place) {
                            seen.push(place);
                        }
                    }
                    seen
                };
                assert_eq!(first(parents.names_of(node(at)).collect()), first(plain));
            }
        }
    }
}
