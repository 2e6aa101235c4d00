//! A difference as it is kept until somebody wants it: there can be a million of them.

use super::Status;
use super::paths::{Spot, Thing};

/// One difference, without what the disk says about it when it is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) status: Status,
    /// Whether the contents differ.
    pub(super) content: bool,
    /// Whether extended attributes differ.
    pub(super) xattrs: bool,
    /// Which of the reasons, and one, says why not all is known; 0 for none.
    pub(super) reason: u32,
    pub(super) was: Option<Thing>,
    pub(super) is: Option<Thing>,
}

impl Found {
    pub(super) fn new(is: Thing) -> Found {
        Found {
            was: None,
            ..Found::both(Status::Added, is, is)
        }
    }

    pub(super) fn gone(was: Thing) -> Found {
        Found {
            is: None,
            ..Found::both(Status::Removed, was, was)
        }
    }

    pub(super) fn both(status: Status, was: Thing, is: Thing) -> Found {
        Found {
            status,
            content: false,
            xattrs: false,
            reason: 0,
            was: Some(was),
            is: Some(is),
        }
    }

    /// The place that it is told by: after, or for what was removed, before.
    pub(super) fn spot(&self) -> Spot {
        let thing = self.is.or(self.was);
        thing.map_or(Spot::HOME, |thing| thing.spot)
    }

    pub(super) fn is_addition(&self) -> bool {
        self.status != Status::Removed
    }
}
