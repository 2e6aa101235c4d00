//! The compact form of a difference until it is printed: there can be a million of them.

use std::collections::HashMap;

use super::difference::ChangeStatus;
use super::paths::PlacedNode;

/// A difference without the attributes, which are read from the disk when it is printed. Most differences have one side
/// only.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompactDifference {
    pub(super) status: ChangeStatus,
    /// True if the contents differ.
    pub(super) content: bool,
    /// True if extended attributes differ.
    pub(super) xattrs: bool,
    /// True if only the sizes were compared, which differ; the rest is compared when the difference is reported.
    pub(super) later: bool,
    /// The file after; for a removed one, the file before.
    pub(super) thing: PlacedNode,
    /// For a file on both sides, its index in [`PairDetails::was`] plus one; otherwise 0.
    number: u32,
}

/// Further facts about files that exist on both sides.
#[derive(Debug, Default)]
pub(super) struct PairDetails {
    /// The file before.
    was: Vec<PlacedNode>,
    /// The reasons why comparisons of contents are incomplete, by the index in `was`.
    unknown: HashMap<usize, String>,
}

impl CompactDifference {
    pub(super) fn new(is: PlacedNode) -> CompactDifference {
        CompactDifference {
            status: ChangeStatus::Added,
            content: false,
            xattrs: false,
            later: false,
            thing: is,
            number: 0,
        }
    }

    pub(super) fn removal(was: PlacedNode) -> CompactDifference {
        CompactDifference {
            status: ChangeStatus::Removed,
            ..CompactDifference::new(was)
        }
    }

    fn pair_index(&self) -> Option<usize> {
        usize::try_from(self.number).ok()?.checked_sub(1)
    }

    pub(super) fn is_addition(&self) -> bool {
        self.status != ChangeStatus::Removed
    }
}

impl PairDetails {
    /// Makes a difference of a file that exists on both sides.
    pub(super) fn found(
        &mut self,
        mut found: CompactDifference,
        was: PlacedNode,
        unknown: Option<String>,
    ) -> CompactDifference {
        let unknown = unknown.map(|why| (self.was.len(), why));
        self.unknown.extend(unknown);
        self.was.push(was);
        // Four billion differences do not fit into memory.
        found.number = u32::try_from(self.was.len()).unwrap_or(u32::MAX);
        found
    }

    /// Returns the file before and after.
    pub(super) fn sides(
        &self,
        found: &CompactDifference,
    ) -> (Option<PlacedNode>, Option<PlacedNode>) {
        let was = found.pair_index().and_then(|at| self.was.get(at)).copied();
        match found.status {
            ChangeStatus::Removed => (Some(found.thing), None),
            _ => (was, Some(found.thing)),
        }
    }

    /// Returns why the comparison is incomplete.
    pub(super) fn unknown(&self, found: &CompactDifference) -> Option<&String> {
        self.unknown.get(&found.pair_index()?)
    }
}
