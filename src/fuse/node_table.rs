//! The nodes of the inode table, and their locations. Only `inodes.rs` uses this, under its lock.
//!
//! A node stays while the kernel knows it or another node's location goes through it: `hold` and `release` count
//! these.

use foldhash::HashMap;

use super::page_cache::CacheKnowledge;
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::Id;
use crate::world::store::layout::TRASH;
use crate::world::view::in_trash;

/// The number of the root (FUSE_ROOT_ID).
pub const ROOT: u64 = 1;

/// The parent number that stands for `.trash`, whether or not the kernel knows `.trash` itself.
pub(super) const IN_TRASH: u64 = 0;

/// The first of the assigned numbers; smaller ones are the store's own inode numbers.
pub(super) const FIRST_ASSIGNED_NUMBER: u64 = 1 << 63;

#[derive(Debug)]
pub(super) struct NodeTable {
    pub(super) root: Id,
    pub(super) nodes: HashMap<u64, Box<TableInode>>,
    /// Numbers of nodes on another device than the root, or whose inode number is taken.
    pub(super) given: HashMap<Id, u64>,
    /// Inodes that are about to take the place of a node's own.
    pub(super) expected: HashMap<Id, u64>,
    pub(super) next: u64,
    /// The number of `.trash`, if the kernel knows it.
    pub(super) trash: Option<u64>,
    /// The nodes with a location that is a trash entry, by entry: several for a directory that was found again after
    /// its removal.
    pub(super) trashed: HashMap<Box<[u8]>, Vec<u64>>,
}

#[derive(Debug)]
pub(super) struct TableInode {
    pub(super) id: Id,
    /// Its time of birth ([`crate::world::Meta::born`]).
    pub(super) born: u64,
    pub(super) place: NodePlace,
    /// Further locations of a file with several hard links.
    pub(super) others: Vec<NodePlace>,
    pub(super) lookups: u64,
    /// The number of other nodes' locations that go through this one.
    pub(super) children: u32,
    pub(super) removed: bool,
    /// True if it is dead to the kernel: a removed directory. A new lookup gets another number.
    pub(super) retired: bool,
    pub(super) watched: bool,
    /// Knowledge of the file's content in the page cache.
    pub(super) known: CacheKnowledge,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodePlace {
    pub(super) parent: u64,
    pub(super) name: Box<[u8]>,
}

impl TableInode {
    /// Creates a node that has not been reported to the kernel yet.
    pub(super) fn new(id: Id, born: u64, place: NodePlace) -> TableInode {
        TableInode {
            id,
            born,
            place,
            others: Vec::new(),
            lookups: 0,
            children: 0,
            removed: false,
            retired: false,
            watched: false,
            known: CacheKnowledge::Nothing,
        }
    }
}

impl NodeTable {
    /// Returns a node's number. It assigns one if the inode number will not do: for another device, or while the
    /// kernel still uses that number for a dead or earlier node.
    pub(super) fn number(&mut self, id: Id, born: u64) -> u64 {
        if id == self.root {
            return ROOT;
        }
        if let Some(number) = self.expected.get(&id) {
            return *number;
        }
        let own = id.0 == self.root.0 && id.1 > ROOT && id.1 < FIRST_ASSIGNED_NUMBER;
        let number = self.given.get(&id).copied().or(own.then_some(id.1));
        let stale = |inode: &TableInode| inode.retired || inode.born != born;
        match number.filter(|number| !self.nodes.get(number).is_some_and(|inode| stale(inode))) {
            Some(number) => number,
            None => {
                self.next += 1;
                self.given.insert(id, self.next);
                self.next
            }
        }
    }

    pub(super) fn number_of_id(&self, id: Id) -> Option<u64> {
        let number = if id == self.root {
            ROOT
        } else {
            self.given.get(&id).copied().unwrap_or(id.1)
        };
        let is = self.nodes.get(&number).is_some_and(|inode| inode.id == id);
        is.then_some(number)
    }

    /// Returns the location of a name in a directory. That of a trash entry is the same before and after the kernel has
    /// looked it up.
    pub(super) fn place_of(&self, (parent, name): (u64, Name<'_>)) -> NodePlace {
        NodePlace {
            parent: if Some(parent) == self.trash {
                IN_TRASH
            } else {
                parent
            },
            name: name.bytes().into(),
        }
    }

    /// Returns a location as the kernel knows it: its directory's number, if it has one, and its name.
    pub(super) fn known_as(&self, place: &NodePlace) -> Option<(u64, Box<[u8]>)> {
        let parent = match place.parent {
            IN_TRASH => self.trash?,
            parent => parent,
        };
        Some((parent, place.name.clone()))
    }

    pub(super) fn path(&self, number: u64) -> Result<WorldPath> {
        let mut names = Vec::new();
        let mut at = number;
        while at != ROOT {
            if at == IN_TRASH {
                names.push(TRASH);
                break;
            }
            let inode = self.nodes.get(&at).ok_or(Error::NotFound)?;
            names.push(&inode.place.name);
            at = inode.place.parent;
        }
        let mut path = WorldPath::root();
        for name in names.iter().rev() {
            path.push(Name::new(name)?);
        }
        Ok(path)
    }

    /// Records another location of a known node: another hard link, or a move behind the mount.
    pub(super) fn seen_at(&mut self, number: u64, place: NodePlace) {
        /// The number of further locations kept for a file; the latest are as good as any.
        const MAX_EXTRA_PLACES: usize = 8;
        self.hold(number, &place);
        // A location in the trash is used only if the file has no other: a file cannot be changed through it.
        let worse = self.in_trash(&place)
            && self
                .nodes
                .get(&number)
                .is_some_and(|inode| !inode.removed && !self.in_trash(&inode.place));
        let Some(inode) = self.nodes.get_mut(&number) else {
            return;
        };
        let mut dropped = Vec::new();
        if let Some(at) = inode.others.iter().position(|other| *other == place) {
            dropped.push(inode.others.swap_remove(at));
        }
        if worse {
            inode.others.insert(0, place);
        } else {
            inode.removed = false;
            // What is found in the trash may be gathered at this moment, which nobody tells of a name that was not
            // known: then the file is found where it was known to be.
            let old = std::mem::replace(&mut inode.place, place);
            inode.others.push(old);
        }
        if inode.others.len() > MAX_EXTRA_PLACES {
            dropped.push(inode.others.remove(0));
        }
        for place in dropped {
            self.release(number, &place);
        }
    }

    pub(super) fn in_trash(&self, place: &NodePlace) -> bool {
        place.parent == IN_TRASH || self.path(place.parent).is_ok_and(|path| in_trash(&path))
    }

    pub(super) fn replace_spot(&mut self, number: u64, old: &NodePlace, new: NodePlace) {
        self.hold(number, &new);
        let Some(inode) = self.nodes.get_mut(&number) else {
            return;
        };
        let was = match inode.others.iter_mut().find(|other| *other == old) {
            Some(other) => std::mem::replace(other, new),
            None => std::mem::replace(&mut inode.place, new),
        };
        self.release(number, &was);
    }

    /// Notes a location of a node where it leads through: at the directory, or at the trash entry.
    pub(super) fn hold(&mut self, number: u64, place: &NodePlace) {
        if place.parent == IN_TRASH {
            let entry = self.trashed.entry(place.name.clone());
            entry.or_default().push(number);
        } else if let Some(inode) = self.nodes.get_mut(&place.parent) {
            inode.children += 1;
        }
    }

    /// Takes back what [`NodeTable::hold`] noted.
    pub(super) fn release(&mut self, number: u64, place: &NodePlace) {
        self.unnote(number, place);
        self.drop_if_unused(place.parent);
    }

    fn unnote(&mut self, number: u64, place: &NodePlace) {
        if place.parent != IN_TRASH {
            if let Some(inode) = self.nodes.get_mut(&place.parent) {
                inode.children = inode.children.saturating_sub(1);
            }
        } else if let Some(numbers) = self.trashed.get_mut(&place.name) {
            if let Some(at) = numbers.iter().position(|n| *n == number) {
                numbers.swap_remove(at);
            }
            if numbers.is_empty() {
                self.trashed.remove(&place.name);
            }
        }
    }

    /// Drops a node that is no longer needed, and the ancestors that it alone kept. A loop, not a recursion: a tree
    /// may be deeper than the stack.
    pub(super) fn drop_if_unused(&mut self, number: u64) {
        let mut pending = vec![number];
        while let Some(number) = pending.pop() {
            let unused = |inode: &TableInode| inode.lookups == 0 && inode.children == 0;
            if number == ROOT || !self.nodes.get(&number).is_some_and(|inode| unused(inode)) {
                continue;
            }
            let Some(inode) = self.nodes.remove(&number) else {
                continue;
            };
            if self.given.get(&inode.id) == Some(&number) {
                self.given.remove(&inode.id);
            }
            if self.trash == Some(number) {
                self.trash = None;
            }
            for place in std::iter::once(&inode.place).chain(&inode.others) {
                self.unnote(number, place);
                pending.push(place.parent);
            }
        }
    }
}
