//! A difference as it is kept until somebody wants it: there can be a million of them.

use std::collections::HashMap;

use super::Status;
use super::paths::Thing;

/// One difference, without what the disk says about it when it is asked. Most are of something on one side only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) status: Status,
    /// Whether the contents differ.
    pub(super) content: bool,
    /// Whether extended attributes differ.
    pub(super) xattrs: bool,
    /// What is there after; what was there before, of what was removed.
    pub(super) thing: Thing,
    /// The number in [`Both::was`] and one, of what is there on both sides; or 0.
    number: u32,
}

/// What else is known of things that are there on both sides.
#[derive(Debug, Default)]
pub(super) struct Both {
    /// What was there before.
    was: Vec<Thing>,
    /// Why not all is known, where looking inside has told; by the place in `was`.
    unknown: HashMap<usize, String>,
}

impl Found {
    pub(super) fn new(is: Thing) -> Found {
        Found {
            status: Status::Added,
            content: false,
            xattrs: false,
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
    /// Makes a difference of something that is there on both sides.
    pub(super) fn found(&mut self, mut found: Found, was: Thing, unknown: Option<String>) -> Found {
        let unknown = unknown.map(|why| (self.was.len(), why));
        self.unknown.extend(unknown);
        self.was.push(was);
        // Four thousand million differences do not fit into memory.
        found.number = u32::try_from(self.was.len()).unwrap_or(u32::MAX);
        found
    }

    /// Returns what there was before, and what there is after.
    pub(super) fn sides(&self, found: &Found) -> (Option<Thing>, Option<Thing>) {
        let was = found.at().and_then(|at| self.was.get(at)).copied();
        match found.status {
            Status::Removed => (Some(found.thing), None),
            _ => (was, Some(found.thing)),
        }
    }

    /// Returns why not all is known.
    pub(super) fn unknown(&self, found: &Found) -> Option<&String> {
        self.unknown.get(&found.at()?)
    }
}
