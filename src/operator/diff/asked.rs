//! What records have touched between two points.

use crate::operator::past::{Effect, NameSlot, NodeId, NodeSet};

/// So many of the names noted last are not noted again: what is made, moved and removed is so at one go, mostly.
const LATELY: usize = 4;

/// A bit of [`Touched`](crate::operator::past::Touched), and small.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Names, each with its directory; sorted, when all are there.
    pub(super) places: Vec<NameSlot>,
    /// Things whose content or attributes were.
    pub(super) nodes: NodeSet,
    /// The trash: what is in it is not compared.
    trash: Option<NodeId>,
}

impl Asked {
    pub(super) fn new(trash: Option<NodeId>) -> Asked {
        Asked {
            trash,
            ..Asked::default()
        }
    }

    /// Notes what an effect touches.
    pub(super) fn note(&mut self, effect: &Effect) {
        if let Effect::Name { dir, name, .. } = effect
            && Some(*dir) != self.trash
            && !self
                .places
                .iter()
                .rev()
                .take(LATELY)
                .any(|place| *place == (*dir, *name))
        {
            // A file that is written anew a thousand times is one name: room is made for new ones only.
            if self.places.len() == self.places.capacity() {
                self.sort();
                self.places.reserve_exact(self.places.len().max(1024));
            }
            self.places.push((*dir, *name));
        }
        self.nodes.extend(effect.within());
    }

    /// Sorts the names, and leaves each there once. So names of one directory are asked for one after the other.
    pub(super) fn sort(&mut self) {
        self.places.sort_unstable();
        self.places.dedup();
    }
}
