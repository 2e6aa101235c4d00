//! The inode table: number ↔ (device, inode) ↔ (parent, name), and lookup counts.
//!
//! A known file costs no descriptor: it is the place where it was last seen, and whoever uses the place verifies what is
//! there by device and inode. Paths are computed from the chain of parents, never stored, so a renamed directory needs
//! no care. A node leaves when the kernel has forgotten it *and* no other node's place goes through it.
//!
//! Lock: one mutex, never held over a system call. A path may be outdated by the time it is used when a directory moves;
//! [`Inodes::moved_since`] tells whether one did, and the user tries again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::{Id, trash::Removal};

pub use super::table::ROOT;
use super::table::{GIVEN, IN_TRASH, Inode, Spot, Table, spot};

/// Where a node is.
#[derive(Debug, Clone)]
pub struct Location {
    /// The path from the root of the store.
    pub path: WorldPath,
    /// Which inode must be there.
    pub id: Id,
    /// Whether it was removed while the kernel still knew it.
    pub removed: bool,
    /// Whether changes made to it behind the mount are noticed (directories).
    pub watched: bool,
}

/// The table.
#[derive(Debug)]
pub struct Inodes {
    table: Mutex<Table>,
    /// How many directories may be moving at this moment, and how many have moved.
    moving: AtomicU64,
    moved: AtomicU64,
}

/// Announces that a directory may be moving, until dropped.
#[derive(Debug)]
#[must_use = "the move lasts as long as this"]
pub struct Moving<'a>(&'a Inodes);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.moved.fetch_add(1, Ordering::SeqCst);
        self.0.moving.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inodes {
    /// Makes a table that knows only the root.
    pub fn new(root: Id) -> Inodes {
        let mut inode = Inode::new(
            root,
            0,
            Spot {
                parent: ROOT,
                name: Box::default(),
            },
        );
        inode.lookups = 1;
        Inodes {
            table: Mutex::new(Table {
                root,
                nodes: HashMap::from([(ROOT, Box::new(inode))]),
                given: HashMap::new(),
                expected: HashMap::new(),
                next: GIVEN,
                removed: HashMap::new(),
            }),
            moving: AtomicU64::new(0),
            moved: AtomicU64::new(0),
        }
    }

    /// Notes that the kernel has been told of a thing at a place, and returns the thing's number.
    pub fn found(&self, parent: u64, name: Name<'_>, id: Id, born: u64) -> u64 {
        let mut table = self.table.lock();
        let spot = Spot {
            parent,
            name: name.bytes().into(),
        };
        let number = table.number(id, born);
        match table.nodes.get_mut(&number) {
            Some(inode) => {
                inode.lookups += 1;
                if inode.spot != spot {
                    table.seen_at(number, spot);
                } else {
                    // Gathered, and now seen where it lies: from here on it is an entry of the trash.
                    inode.removed = false;
                }
            }
            None => {
                let mut inode = Inode::new(id, born, spot);
                inode.lookups = 1;
                table.nodes.insert(number, Box::new(inode));
                table.hold(parent);
            }
        }
        number
    }

    /// Takes back lookups that the kernel has forgotten. Returns where a watched directory is that the kernel knows no
    /// longer.
    pub fn forget(&self, number: u64, lookups: u64) -> Option<Location> {
        let mut table = self.table.lock();
        let inode = table.nodes.get_mut(&number).filter(|_| number != ROOT)?;
        inode.lookups = inode.lookups.saturating_sub(lookups);
        let unwatched = inode.watched && inode.lookups == 0;
        inode.watched &= !unwatched;
        let (id, removed) = (inode.id, inode.removed);
        let path = if unwatched {
            table.path(number).ok()
        } else {
            None
        };
        table.drop_if_unused(number);
        path.map(|path| Location {
            path,
            id,
            removed,
            watched: false,
        })
    }

    /// Returns the places of all nodes as the kernel knows them: the number of the directory, the name, the number.
    pub fn entries(&self) -> Vec<(u64, Box<[u8]>, u64)> {
        let table = self.table.lock();
        let nodes = table.nodes.iter().filter(|(number, _)| **number != ROOT);
        nodes
            .map(|(number, inode)| (inode.spot.parent, inode.spot.name.clone(), *number))
            .collect()
    }

    /// Returns the names by which the kernel may know a thing: directory and name.
    pub fn names_of(&self, number: u64) -> Vec<(u64, Box<[u8]>)> {
        let table = self.table.lock();
        let inode = table.nodes.get(&number);
        let spots = inode.map(|inode| std::iter::once(&inode.spot).chain(&inode.others));
        let spots = spots.into_iter().flatten();
        spots.map(|spot| (spot.parent, spot.name.clone())).collect()
    }

    /// Returns where a node is.
    ///
    /// # Errors
    /// `ENOENT` for a number that is not known.
    pub fn place(&self, number: u64) -> Result<Location> {
        let table = self.table.lock();
        let inode = table.nodes.get(&number).ok_or(Error::NotFound)?;
        Ok(Location {
            path: table.path(number)?,
            id: inode.id,
            removed: inode.removed,
            watched: inode.watched,
        })
    }

    /// Forgets the place a file was last seen at, for another one that is known of it.
    ///
    /// Returns whether there is another.
    pub fn next_place(&self, number: u64) -> bool {
        let mut table = self.table.lock();
        let Some(inode) = table.nodes.get_mut(&number) else {
            return false;
        };
        let Some(spot) = inode.others.pop() else {
            return false;
        };
        let old = std::mem::replace(&mut inode.spot, spot);
        table.release(old.parent);
        true
    }

    /// Returns the number of a thing, if the kernel knows it.
    pub fn number_of(&self, id: Id) -> Option<u64> {
        let table = self.table.lock();
        table.known(id)
    }

    /// Returns the inode number that a node has or would get, and `d_ino` reports.
    pub fn peek_or_reserve(&self, id: Id) -> u64 {
        let table = self.table.lock();
        match table.given.get(&id) {
            Some(number) => *number,
            None if id == table.root => ROOT,
            None => id.1,
        }
    }

    /// Notes that a thing moved.
    pub fn moved(&self, from: (u64, Name<'_>), to: (u64, Name<'_>), id: Id) {
        let mut table = self.table.lock();
        let Some(number) = table.known(id) else {
            return;
        };
        table.replace_spot(number, &spot(from), spot(to));
        if let Some(inode) = table.nodes.get_mut(&number) {
            inode.removed = false;
        }
    }

    /// Notes that something has come back from the trash to a place.
    pub fn restored(&self, to: (u64, Name<'_>), id: Id) {
        let mut table = self.table.lock();
        if let Some(number) = table.known(id) {
            table.seen_at(number, spot(to));
        }
    }

    /// Notes that a thing was removed and lies in the trash.
    pub fn removed(&self, from: (u64, Name<'_>), id: Id, entry: &[u8]) {
        let mut table = self.table.lock();
        let Some(number) = table.known(id) else {
            return;
        };
        let from = spot(from);
        let Some(inode) = table.nodes.get_mut(&number) else {
            return;
        };
        if let Some(at) = inode.others.iter().position(|other| *other == from) {
            inode.others.swap_remove(at);
            table.release(from.parent);
        } else if let Some(other) = inode.others.pop() {
            let old = std::mem::replace(&mut inode.spot, other);
            table.release(old.parent);
        } else {
            inode.removed = true;
            table.replace_spot(
                number,
                &from,
                Spot {
                    parent: IN_TRASH,
                    name: entry.into(),
                },
            );
            table.removed.insert(entry.into(), number);
        }
    }

    /// Announces that another inode is about to take a file's place: whoever finds it there finds the same file.
    pub fn expect(&self, number: u64, new: Id) {
        self.table.lock().expected.insert(new, number);
    }

    /// Notes that an expected inode has taken a file's place (when it was born), or that it has not.
    pub fn replaced(&self, number: u64, new: Id, born: Option<u64>) {
        let mut table = self.table.lock();
        table.expected.remove(&new);
        let Some(born) = born else {
            return;
        };
        // A file that the kernel does not know keeps no number.
        let Some(inode) = table.nodes.get_mut(&number) else {
            return;
        };
        let old = std::mem::replace(&mut inode.id, new);
        inode.born = born;
        if table.given.get(&old) == Some(&number) {
            table.given.remove(&old);
        }
        table.given.insert(new, number);
    }

    /// Notes that the kernel holds a directory for dead: it was removed, or replaced.
    pub fn retire(&self, id: Id) {
        let mut table = self.table.lock();
        if let Some(inode) = table
            .known(id)
            .and_then(|number| table.nodes.get_mut(&number))
        {
            inode.retired = true;
        }
    }

    /// Notes that entries of the trash were gathered under a removed directory.
    pub fn gathered(&self, dir: Id, removals: &[Removal]) {
        let mut table = self.table.lock();
        let Some(parent) = table.known(dir) else {
            return;
        };
        for removal in removals {
            if table.removed.is_empty() {
                return;
            }
            if let Some(number) = table.removed.remove(removal.entry.bytes()) {
                let old = Spot {
                    parent: IN_TRASH,
                    name: removal.entry.bytes().into(),
                };
                table.replace_spot(
                    number,
                    &old,
                    Spot {
                        parent,
                        name: removal.name.as_slice().into(),
                    },
                );
            }
        }
    }

    /// Notes that changes to a directory behind the mount are noticed from now on.
    pub fn set_watched(&self, number: u64, watched: bool) {
        if let Some(inode) = self.table.lock().nodes.get_mut(&number) {
            inode.watched = watched;
        }
    }

    /// Returns whether changes to a thing's attributes behind the mount are noticed: its directory is watched.
    pub fn is_noticed(&self, number: u64) -> bool {
        let table = self.table.lock();
        let Some(inode) = table.nodes.get(&number) else {
            return false;
        };
        match inode.spot.parent {
            // What lies in the trash is changed by nobody but the daemon.
            IN_TRASH => true,
            parent => table.nodes.get(&parent).is_some_and(|dir| dir.watched),
        }
    }

    /// Announces that a directory may be about to move; until the guard is dropped, paths may be wrong.
    pub fn moving(&self) -> Moving<'_> {
        self.moving.fetch_add(1, Ordering::SeqCst);
        Moving(self)
    }

    /// Returns a number to give to [`Inodes::moved_since`].
    pub fn moves(&self) -> u64 {
        self.moved.load(Ordering::SeqCst)
    }

    /// Returns whether a directory is moving, or has moved since.
    pub fn moved_since(&self, before: u64) -> bool {
        self.moving.load(Ordering::SeqCst) > 0 || self.moves() != before
    }

    /// Returns how many nodes are known.
    pub fn len(&self) -> usize {
        self.table.lock().nodes.len()
    }

    /// Returns whether only the root is known.
    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name<'_> {
        Name::new(text.as_bytes()).unwrap()
    }

    fn path_of(inodes: &Inodes, number: u64) -> String {
        inodes
            .place(number)
            .map_or("?".into(), |place| place.path.to_string())
    }

    fn entry(text: &str, id: Id) -> Removal {
        let trash = crate::world::trash::Trash::default();
        Removal {
            entry: trash.reserve(name(text)),
            name: text.into(),
            id,
        }
    }

    /// sandboxfs #98: a cached path died with the directory's renaming.
    #[test]
    fn a_renamed_directory_takes_its_entries_along() {
        let inodes = Inodes::new(Id(1, 2));
        let dir = inodes.found(ROOT, name("a"), Id(1, 10), 0);
        let file = inodes.found(dir, name("f"), Id(1, 11), 0);
        inodes.moved((ROOT, name("a")), (ROOT, name("b")), Id(1, 10));
        assert_eq!(path_of(&inodes, file), "/b/f");
    }

    #[test]
    fn a_node_lives_until_the_kernel_and_its_children_let_go() {
        let inodes = Inodes::new(Id(1, 2));
        let dir = inodes.found(ROOT, name("a"), Id(1, 10), 0);
        let file = inodes.found(dir, name("f"), Id(1, 11), 0);
        inodes.found(ROOT, name("a"), Id(1, 10), 0);
        inodes.forget(dir, 2);
        assert_eq!(path_of(&inodes, file), "/a/f");
        inodes.forget(file, 1);
        assert!(inodes.is_empty());
    }

    #[test]
    fn a_removed_file_is_found_in_the_trash_and_under_its_directory() {
        let inodes = Inodes::new(Id(1, 2));
        let dir = inodes.found(ROOT, name("d"), Id(1, 10), 0);
        let file = inodes.found(dir, name("f"), Id(1, 11), 0);
        let removal = entry("f", Id(1, 11));
        inodes.removed((dir, name("f")), Id(1, 11), removal.entry.bytes());
        assert!(path_of(&inodes, file).starts_with("/.trash/2"));
        assert!(inodes.place(file).unwrap().removed);
        inodes.removed((ROOT, name("d")), Id(1, 10), b"T_d");
        inodes.gathered(Id(1, 10), &[removal]);
        assert_eq!(path_of(&inodes, file), "/.trash/T_d/f");
    }

    #[test]
    fn a_removed_name_of_several_leaves_the_others() {
        let inodes = Inodes::new(Id(1, 2));
        let number = inodes.found(ROOT, name("a"), Id(1, 11), 0);
        assert_eq!(inodes.found(ROOT, name("b"), Id(1, 11), 0), number);
        inodes.removed((ROOT, name("b")), Id(1, 11), b"T_b");
        assert_eq!(path_of(&inodes, number), "/a");
        assert!(!inodes.place(number).unwrap().removed);
    }

    /// The kernel makes nothing in a directory that it saw removed, even when it is back.
    #[test]
    fn a_dead_directory_and_a_reused_number_are_other_things() {
        let inodes = Inodes::new(Id(1, 2));
        let dir = inodes.found(ROOT, name("d"), Id(1, 10), 0);
        inodes.removed((ROOT, name("d")), Id(1, 10), b"T_d");
        inodes.retire(Id(1, 10));
        let back = inodes.found(ROOT, name("d"), Id(1, 10), 0);
        assert_ne!(dir, back);
        inodes.forget(back, 1);
        assert_ne!(inodes.found(ROOT, name("d"), Id(1, 10), 0), dir);
        let file = inodes.found(ROOT, name("f"), Id(1, 11), 5);
        assert_eq!(inodes.found(ROOT, name("f"), Id(1, 11), 5), file);
        assert_ne!(inodes.found(ROOT, name("f"), Id(1, 11), 6), file);
    }

    #[test]
    fn other_devices_and_taken_numbers_get_numbers_of_their_own() {
        let inodes = Inodes::new(Id(1, 2));
        let own = inodes.found(ROOT, name("a"), Id(1, 11), 0);
        let other = inodes.found(ROOT, name("b"), Id(9, 11), 0);
        let first = inodes.found(ROOT, name("c"), Id(1, 1), 0);
        assert_eq!(own, 11);
        assert!(other >= GIVEN && first >= GIVEN && other != first);
        assert_eq!(inodes.number_of(Id(9, 11)), Some(other));
    }
}
