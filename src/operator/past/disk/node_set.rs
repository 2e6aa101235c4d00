//! Sets of nodes as bitmaps: nodes are numbered consecutively, so a set of a million takes 128 KiB.

use crate::operator::past::disk::node_id::NodeId;

/// A set of nodes.
#[derive(Debug, Clone, Default)]
pub struct NodeSet(Vec<u64>);

impl NodeSet {
    /// Adds a node.
    pub fn insert(&mut self, node: NodeId) {
        let (word, bit) = place(node);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// Returns whether the set has a node.
    pub fn contains(&self, node: NodeId) -> bool {
        let (word, bit) = place(node);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Iterates over the nodes in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        let words = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 != 0);
            bits.filter_map(move |bit| NodeId::numbered(at * 64 + bit))
        })
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<T: IntoIterator<Item = NodeId>>(&mut self, nodes: T) {
        for node in nodes {
            self.insert(node);
        }
    }
}

fn place(node: NodeId) -> (usize, u64) {
    (node.index() / 64, 1 << (node.index() % 64))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn node_set_has_the_nodes_inserted() {
        let node = |number| NodeId::numbered(number).unwrap();
        let numbers = [0, 1, 63, 64, 65, 1000];
        let mut set = NodeSet::default();
        set.extend(numbers.iter().rev().map(|number| node(*number)));
        set.insert(node(64));
        let there: Vec<NodeId> = set.iter().collect();
        assert_eq!(there, numbers.map(node));
        for number in 0..2000 {
            assert_eq!(set.contains(node(number)), numbers.contains(&number));
        }
    }
}
