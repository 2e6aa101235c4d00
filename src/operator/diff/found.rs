//! The compact form of a difference until it is printed: there can be a million of them.

use std::collections::HashMap;

use super::difference::Status;
use super::paths::Thing;

/// A difference, without the attributes that are read from the disk when it is printed. Most are on one side only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) status: Status,
    /// Whether the contents differ.
    pub(super) content: bool,
    /// Whether extended attributes differ.
    pub(super) xattrs: bool,
    /// Whether only the sizes were compared, which differ; the rest is compared when it is told.
    pub(super) later: bool,
    /// The file after; for a removed one, the file before.
    pub(super) thing: Thing,
    /// For a file on both sides, its index in [`Both::was`] plus one; otherwise 0.
    number: u32,
}

/// Further facts on files that exist on both sides.
#[derive(Debug, Default)]
pub(super) struct Both {
    /// The file before.
    was: Vec<Thing>,
    /// Why a comparison of contents is incomplete, by the index in `was`.
    unknown: HashMap<usize, String>,
}

impl Found {
    pub(super) fn new(is: Thing) -> Found {
        Found {
            status: Status::Added,
            content: false,
            xattrs: false,
            later: false,
            thing: is,
            number: 0,
        }
    }

    pub(super) fn gone(was: Thing) -> Found {
        Found {
            status: Status::Removed,
            ..Found::new(was)
        }
    }

    fn at(&self) -> Option<usize> {
        usize::try_from(self.number).ok()?.checked_sub(1)
    }

    pub(super) fn is_addition(&self) -> bool {
        self.status != Status::Removed
    }
}

impl Both {
    /// Makes a difference of a file that exists on both sides.
    pub(super) fn found(&mut self, mut found: Found, was: Thing, unknown: Option<String>) -> Found {
        let unknown = unknown.map(|why| (self.was.len(), why));
        self.unknown.extend(unknown);
        self.was.push(was);
        // Four billion differences do not fit into memory.
        found.number = u32::try_from(self.was.len()).unwrap_or(u32::MAX);
        found
    }

    /// Returns the file before and after.
    pub(super) fn sides(&self, found: &Found) -> (Option<Thing>, Option<Thing>) {
        let was = found.at().and_then(|at| self.was.get(at)).copied();
        match found.status {
            Status::Removed => (Some(found.thing), None),
            _ => (was, Some(found.thing)),
        }
    }

    /// Returns why the comparison is incomplete.
    pub(super) fn unknown(&self, found: &Found) -> Option<&String> {
        self.unknown.get(&found.at()?)
    }
}
