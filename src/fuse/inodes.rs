//! The inode table: number ↔ (device, inode) ↔ (parent, name), and lookup counts.
//!
//! A known file costs no descriptor: the table has its last known location, and the user of a location verifies it by
//! device and inode. Paths are computed from the chain of parents, never stored, so renaming a directory updates
//! nothing. A node is dropped when the kernel has forgotten it *and* no other node's location goes through it.
//!
//! Lock: one mutex, never held over a system call. A path may be outdated by the time it is used because something
//! moved; [`InodeTable::moved_since`] tells, and the user tries again.

use std::sync::atomic::AtomicU64;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::Id;
use crate::world::store::layout::TRASH;
use crate::world::trash::trash_entries::GatherCandidate;

pub use super::node_table::ROOT;
use super::node_table::{FIRST_ASSIGNED_NUMBER, IN_TRASH, NodePlace, NodeTable, TableInode};
use super::page_cache::CacheKnowledge;

/// The location of a node.
#[derive(Debug, Clone)]
pub struct NodeLocation {
    /// Its path from the root of the store.
    pub path: WorldPath,
    /// The inode that must be there.
    pub id: Id,
    /// True if it was removed while the kernel still knew it.
    pub removed: bool,
    /// True if changes to it behind the mount are noticed (directories only).
    pub watched: bool,
}

/// The table.
#[derive(Debug)]
pub struct InodeTable {
    table: Mutex<NodeTable>,
    /// The number of things that may be moving now, and of those that have moved.
    pub(super) moving: AtomicU64,
    pub(super) moved: AtomicU64,
    /// The number of changes after which a directory that was found before has to be found again.
    pub(super) dir_changes: AtomicU64,
}

impl InodeTable {
    /// Creates a table that has only the root.
    pub fn new(root: Id) -> InodeTable {
        let mut inode = TableInode::new(
            root,
            0,
            NodePlace {
                parent: ROOT,
                name: Box::default(),
            },
        );
        inode.lookups = 1;
        InodeTable {
            table: Mutex::new(NodeTable {
                root,
                nodes: HashMap::from_iter([(ROOT, Box::new(inode))]),
                given: HashMap::default(),
                expected: HashMap::default(),
                next: FIRST_ASSIGNED_NUMBER,
                trash: None,
                trashed: HashMap::default(),
            }),
            moving: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            dir_changes: AtomicU64::new(0),
        }
    }

    /// Records a node's location, as reported to the kernel, and returns the node's number.
    pub fn record_lookup(&self, parent: u64, name: Name<'_>, id: Id, born: u64) -> u64 {
        let mut table = self.table.lock();
        let place = table.place_of((parent, name));
        let number = table.number(id, born);
        if parent == ROOT && name.bytes() == TRASH {
            table.trash = Some(number);
        }
        match table.nodes.get_mut(&number) {
            Some(inode) => {
                inode.lookups += 1;
                if inode.place != place {
                    table.seen_at(number, place);
                } else {
                    // What was removed has been looked up where it lies now: from here on it is an ordinary part of
                    // the trash.
                    inode.removed = false;
                }
            }
            None => {
                table.hold(number, &place);
                let mut inode = TableInode::new(id, born, place);
                inode.lookups = 1;
                table.nodes.insert(number, Box::new(inode));
            }
        }
        number
    }

    /// Subtracts lookups that the kernel has forgotten. Returns the location of a watched directory that the kernel no
    /// longer knows.
    pub fn forget(&self, number: u64, lookups: u64) -> Option<NodeLocation> {
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
        path.map(|path| NodeLocation {
            path,
            id,
            removed,
            watched: false,
        })
    }

    /// Returns all locations that the kernel knows: parent's number, name, node's number.
    pub fn entries(&self) -> Vec<(u64, Box<[u8]>, u64)> {
        let table = self.table.lock();
        let nodes = table.nodes.iter().filter(|(number, _)| **number != ROOT);
        nodes
            .filter_map(|(number, inode)| {
                let (parent, name) = table.known_as(&inode.place)?;
                Some((parent, name, *number))
            })
            .collect()
    }

    /// Returns the parents and names by which the kernel may know a node.
    pub fn names_of(&self, number: u64) -> Vec<(u64, Box<[u8]>)> {
        let table = self.table.lock();
        let inode = table.nodes.get(&number);
        let spots = inode.map(|inode| std::iter::once(&inode.place).chain(&inode.others));
        let spots = spots.into_iter().flatten();
        spots.filter_map(|place| table.known_as(place)).collect()
    }

    /// Returns the location of a node.
    ///
    /// # Errors
    /// `ENOENT` if the number is unknown.
    pub fn location(&self, number: u64) -> Result<NodeLocation> {
        let table = self.table.lock();
        let inode = table.nodes.get(&number).ok_or(Error::NotFound)?;
        Ok(NodeLocation {
            path: table.path(number)?,
            id: inode.id,
            removed: inode.removed,
            watched: inode.watched,
        })
    }

    /// Replaces a file's lost location by another known one. Returns whether there was another. One in the trash is
    /// where the file was removed to: whoever reaches it by a name looks that up, each time.
    pub fn next_place(&self, number: u64) -> bool {
        let mut table = self.table.lock();
        let Some(place) = table
            .nodes
            .get_mut(&number)
            .and_then(|inode| inode.others.pop())
        else {
            return false;
        };
        let removed = table.in_trash(&place);
        let Some(inode) = table.nodes.get_mut(&number) else {
            return false;
        };
        inode.removed = removed;
        let old = std::mem::replace(&mut inode.place, place);
        table.release(number, &old);
        true
    }

    /// Returns a node's number, if the kernel knows it.
    pub fn number_of(&self, id: Id) -> Option<u64> {
        let table = self.table.lock();
        table.number_of_id(id)
    }

    /// Returns the number that a node has or would get, which listings show as `d_ino`.
    pub fn peek_or_reserve(&self, id: Id) -> u64 {
        let table = self.table.lock();
        match table.given.get(&id) {
            Some(number) => *number,
            None if id == table.root => ROOT,
            None => id.1,
        }
    }

    /// Records the move of a node.
    pub fn record_move(&self, from: (u64, Name<'_>), to: (u64, Name<'_>), id: Id) {
        let mut table = self.table.lock();
        let Some(number) = table.number_of_id(id) else {
            return;
        };
        let (from, to) = (table.place_of(from), table.place_of(to));
        table.replace_spot(number, &from, to);
        if let Some(inode) = table.nodes.get_mut(&number) {
            inode.removed = false;
        }
    }

    /// Records the return of a node from the trash.
    pub fn record_restore(&self, to: (u64, Name<'_>), id: Id) {
        let mut table = self.table.lock();
        if let Some(number) = table.number_of_id(id) {
            let to = table.place_of(to);
            table.seen_at(number, to);
        }
    }

    /// Records the removal of a node, which now lies in the trash.
    pub fn record_removal(&self, from: (u64, Name<'_>), id: Id, entry: &[u8]) {
        let mut table = self.table.lock();
        let Some(number) = table.number_of_id(id) else {
            return;
        };
        let from = table.place_of(from);
        // A file whose other names are all in the trash is removed, and stays writable for whoever has it open.
        let elsewhere = table.nodes.get(&number).and_then(|inode| {
            let mut others = inode.others.iter();
            others.rposition(|other| !table.in_trash(other))
        });
        let Some(inode) = table.nodes.get_mut(&number) else {
            return;
        };
        if let Some(at) = inode.others.iter().position(|other| *other == from) {
            inode.others.swap_remove(at);
            table.release(number, &from);
        } else if let Some(at) = elsewhere {
            let other = inode.others.remove(at);
            let old = std::mem::replace(&mut inode.place, other);
            table.release(number, &old);
        } else {
            inode.removed = true;
            table.replace_spot(
                number,
                &from,
                NodePlace {
                    parent: IN_TRASH,
                    name: entry.into(),
                },
            );
        }
    }

    /// Announces that another inode is about to take a file's place: a lookup of either finds the same node.
    pub fn expect_replacement(&self, number: u64, new: Id) {
        self.table.lock().expected.insert(new, number);
    }

    /// Records that an expected inode has taken a file's place (with its time of birth), or that it has not.
    pub fn record_replacement(&self, number: u64, new: Id, born: Option<u64>) {
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

    /// Marks a directory as dead to the kernel: it was removed or replaced.
    pub fn mark_dead(&self, id: Id) {
        let mut table = self.table.lock();
        if let Some(inode) = table
            .number_of_id(id)
            .and_then(|number| table.nodes.get_mut(&number))
        {
            inode.retired = true;
        }
    }

    /// Returns whether the kernel knows a trash entry, from before its removal or from a look into the trash.
    pub fn knows_entry(&self, entry: &[u8]) -> bool {
        self.table.lock().trashed.contains_key(entry)
    }

    /// Records that trash entries were gathered under a removed directory.
    pub fn record_gathering(&self, dir: Id, removals: &[GatherCandidate]) {
        let mut table = self.table.lock();
        let Some(parent) = table.number_of_id(dir) else {
            return;
        };
        for removal in removals {
            if table.trashed.is_empty() {
                return;
            }
            let old = NodePlace {
                parent: IN_TRASH,
                name: removal.entry.bytes().into(),
            };
            for number in table.trashed.get(&old.name).cloned().unwrap_or_default() {
                let new = NodePlace {
                    parent,
                    name: removal.name.as_slice().into(),
                };
                table.replace_spot(number, &old, new);
            }
        }
    }

    /// Records whether changes to a directory behind the mount are noticed.
    pub fn set_watched(&self, number: u64, watched: bool) {
        if let Some(inode) = self.table.lock().nodes.get_mut(&number) {
            inode.watched = watched;
        }
    }

    /// Returns what is known of a file's content.
    pub fn cache_knowledge(&self, number: u64) -> CacheKnowledge {
        let table = self.table.lock();
        let inode = table.nodes.get(&number);
        inode.map_or(CacheKnowledge::Nothing, |inode| inode.known)
    }

    /// Notes what is known of a file's content.
    pub fn set_cache_knowledge(&self, number: u64, known: CacheKnowledge) {
        if let Some(inode) = self.table.lock().nodes.get_mut(&number) {
            inode.known = known;
        }
    }

    /// Returns whether changes to a directory and to its entries behind the mount are noticed.
    pub fn is_watched(&self, number: u64) -> bool {
        let table = self.table.lock();
        table.nodes.get(&number).is_some_and(|inode| inode.watched)
    }

    /// Returns whether changes to a node behind the mount are noticed by its directory's mark. Those to a directory's
    /// own attributes are not.
    pub fn is_noticed(&self, number: u64) -> bool {
        let table = self.table.lock();
        let Some(inode) = table.nodes.get(&number) else {
            return false;
        };
        match inode.place.parent {
            // Only the daemon changes what lies in the trash.
            IN_TRASH => true,
            parent => table.nodes.get(&parent).is_some_and(|dir| dir.watched),
        }
    }

    /// Returns the number of known nodes.
    pub fn len(&self) -> usize {
        self.table.lock().nodes.len()
    }

    /// Returns whether the table has only the root.
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

    fn path_of(inodes: &InodeTable, number: u64) -> String {
        inodes
            .location(number)
            .map_or("?".into(), |place| place.path.to_string())
    }

    fn entry(text: &str, id: Id) -> GatherCandidate {
        let trash = crate::world::trash::trash_entries::Trash::default();
        GatherCandidate {
            entry: trash.new_entry_name(name(text)),
            name: text.into(),
            id,
        }
    }

    /// sandboxfs #98: a cached path died with the directory's renaming.
    #[test]
    fn a_renamed_directory_takes_its_entries_along() {
        let inodes = InodeTable::new(Id(1, 2));
        let dir = inodes.record_lookup(ROOT, name("a"), Id(1, 10), 0);
        let file = inodes.record_lookup(dir, name("f"), Id(1, 11), 0);
        inodes.record_move((ROOT, name("a")), (ROOT, name("b")), Id(1, 10));
        assert_eq!(path_of(&inodes, file), "/b/f");
    }

    #[test]
    fn a_node_lives_until_the_kernel_and_its_children_let_go() {
        let inodes = InodeTable::new(Id(1, 2));
        let dir = inodes.record_lookup(ROOT, name("a"), Id(1, 10), 0);
        let file = inodes.record_lookup(dir, name("f"), Id(1, 11), 0);
        inodes.record_lookup(ROOT, name("a"), Id(1, 10), 0);
        inodes.forget(dir, 2);
        assert_eq!(path_of(&inodes, file), "/a/f");
        inodes.forget(file, 1);
        assert!(inodes.is_empty());
    }

    #[test]
    fn a_removed_file_is_found_in_the_trash_and_under_its_directory() {
        let inodes = InodeTable::new(Id(1, 2));
        let dir = inodes.record_lookup(ROOT, name("d"), Id(1, 10), 0);
        let file = inodes.record_lookup(dir, name("f"), Id(1, 11), 0);
        let removal = entry("f", Id(1, 11));
        inodes.record_removal((dir, name("f")), Id(1, 11), removal.entry.bytes());
        assert!(path_of(&inodes, file).starts_with("/.trash/2"));
        assert!(inodes.location(file).unwrap().removed);
        inodes.record_removal((ROOT, name("d")), Id(1, 10), b"T_d");
        inodes.record_gathering(Id(1, 10), &[removal]);
        assert_eq!(path_of(&inodes, file), "/.trash/T_d/f");
    }

    /// A file removed while open, and looked up in the trash: what was done to it through the open file after its
    /// directory was removed too answered ENOENT.
    #[test]
    fn what_was_looked_up_in_the_trash_is_found_where_it_was_gathered() {
        let inodes = InodeTable::new(Id(1, 2));
        let trash = inodes.record_lookup(ROOT, name(".trash"), Id(1, 3), 0);
        let dir = inodes.record_lookup(ROOT, name("d"), Id(1, 10), 0);
        let sub = inodes.record_lookup(dir, name("sub"), Id(1, 12), 0);
        let file = inodes.record_lookup(sub, name("f"), Id(1, 11), 0);
        let removal = entry("f", Id(1, 11));
        let entry_of =
            |removal: &GatherCandidate| String::from_utf8(removal.entry.bytes().to_vec());
        inodes.record_removal((sub, name("f")), Id(1, 11), removal.entry.bytes());
        let seen = entry_of(&removal).unwrap();
        assert_eq!(inodes.record_lookup(trash, name(&seen), Id(1, 11), 0), file);
        assert!(!inodes.location(file).unwrap().removed);
        assert!(inodes.knows_entry(removal.entry.bytes()));

        // The directory is found in the trash under a number of its own; both go along.
        let removed = entry("sub", Id(1, 12));
        inodes.record_removal((dir, name("sub")), Id(1, 12), removed.entry.bytes());
        inodes.record_gathering(Id(1, 12), &[removal]);
        inodes.mark_dead(Id(1, 12));
        let seen = entry_of(&removed).unwrap();
        let known_again = inodes.record_lookup(trash, name(&seen), Id(1, 12), 0);
        assert_ne!(known_again, sub);
        inodes.record_removal((ROOT, name("d")), Id(1, 10), b"T_d");
        inodes.record_gathering(Id(1, 10), &[removed]);
        assert_eq!(path_of(&inodes, file), "/.trash/T_d/sub/f");
        assert_eq!(path_of(&inodes, sub), "/.trash/T_d/sub");
        assert_eq!(path_of(&inodes, known_again), "/.trash/T_d/sub");

        // The kernel is told of locations in `.trash` as it knows them, and everything is let go of.
        assert_eq!(inodes.names_of(dir), [(trash, b"T_d".as_slice().into())]);
        for number in [trash, file, sub, known_again, dir] {
            inodes.forget(number, 2);
        }
        assert!(inodes.is_empty() && !inodes.knows_entry(b"T_d"));
    }

    /// A listing of the trash finds one of its names while that is being gathered: what was done to it through the open
    /// file answered ENOENT from then on.
    #[test]
    fn a_removed_file_keeps_its_place_beside_one_that_it_is_found_at() {
        let inodes = InodeTable::new(Id(1, 2));
        let trash = inodes.record_lookup(ROOT, name(".trash"), Id(1, 3), 0);
        let dir = inodes.record_lookup(ROOT, name("d"), Id(1, 10), 0);
        let file = inodes.record_lookup(dir, name("f"), Id(1, 11), 0);
        assert_eq!(inodes.record_lookup(dir, name("l"), Id(1, 11), 0), file);
        let removals = ["f", "l"].map(|name| entry(name, Id(1, 11)));
        let [f, l] = &removals;
        inodes.record_removal((dir, name("f")), Id(1, 11), f.entry.bytes());
        inodes.record_removal((dir, name("l")), Id(1, 11), l.entry.bytes());
        assert!(!inodes.knows_entry(f.entry.bytes()) && inodes.knows_entry(l.entry.bytes()));
        inodes.record_removal((ROOT, name("d")), Id(1, 10), b"T_d");
        inodes.record_gathering(Id(1, 10), &removals[1..]);
        // This has been gathered by now, and nobody has said so.
        let seen = std::str::from_utf8(f.entry.bytes()).unwrap();
        assert_eq!(inodes.record_lookup(trash, name(seen), Id(1, 11), 0), file);
        assert!(!inodes.location(file).unwrap().removed);
        assert!(inodes.next_place(file));
        assert_eq!(path_of(&inodes, file), "/.trash/T_d/l");
        assert!(inodes.location(file).unwrap().removed);
        for number in [file, dir, trash] {
            inodes.forget(number, 3);
        }
        assert!(inodes.is_empty() && !inodes.knows_entry(f.entry.bytes()));
    }

    /// `echo > f` while another program removed `f` was told EROFS: the name had been looked up just before the
    /// removal.
    #[test]
    fn what_was_looked_up_while_it_was_removed_is_removed() {
        let inodes = InodeTable::new(Id(1, 2));
        let file = inodes.record_lookup(ROOT, name("f"), Id(1, 11), 0);
        inodes.record_removal((ROOT, name("f")), Id(1, 11), b"T_f");
        assert_eq!(inodes.record_lookup(ROOT, name("f"), Id(1, 11), 0), file);
        assert_eq!(path_of(&inodes, file), "/f");
        // Something else is there, or nothing.
        assert!(inodes.next_place(file));
        assert_eq!(path_of(&inodes, file), "/.trash/T_f");
        assert!(inodes.location(file).unwrap().removed);
    }

    #[test]
    fn a_removed_name_of_several_leaves_the_others() {
        let inodes = InodeTable::new(Id(1, 2));
        let number = inodes.record_lookup(ROOT, name("a"), Id(1, 11), 0);
        assert_eq!(inodes.record_lookup(ROOT, name("b"), Id(1, 11), 0), number);
        inodes.record_removal((ROOT, name("b")), Id(1, 11), b"T_b");
        assert_eq!(path_of(&inodes, number), "/a");
        assert!(!inodes.location(number).unwrap().removed);
    }

    /// The kernel writes a removed file's times back. It was told EROFS where the file had been seen in the trash under
    /// another name before, and the next `close` of it, back in the home, answered EIO.
    #[test]
    fn a_file_whose_other_names_are_in_the_trash_is_removed_with_its_last() {
        let inodes = InodeTable::new(Id(1, 2));
        let trash = inodes.record_lookup(ROOT, name(".trash"), Id(1, 3), 0);
        let file = inodes.record_lookup(ROOT, name("a"), Id(1, 11), 0);
        assert_eq!(inodes.record_lookup(trash, name("T_b"), Id(1, 11), 0), file);
        assert_eq!(path_of(&inodes, file), "/a");
        inodes.record_removal((ROOT, name("a")), Id(1, 11), b"T_a");
        assert_eq!(path_of(&inodes, file), "/.trash/T_a");
        assert!(inodes.location(file).unwrap().removed);
    }

    /// The kernel makes nothing in a directory that it saw removed, even when it is back.
    #[test]
    fn a_dead_directory_and_a_reused_number_are_other_things() {
        let inodes = InodeTable::new(Id(1, 2));
        let dir = inodes.record_lookup(ROOT, name("d"), Id(1, 10), 0);
        inodes.record_removal((ROOT, name("d")), Id(1, 10), b"T_d");
        inodes.mark_dead(Id(1, 10));
        let back = inodes.record_lookup(ROOT, name("d"), Id(1, 10), 0);
        assert_ne!(dir, back);
        inodes.forget(back, 1);
        assert_ne!(inodes.record_lookup(ROOT, name("d"), Id(1, 10), 0), dir);
        let file = inodes.record_lookup(ROOT, name("f"), Id(1, 11), 5);
        assert_eq!(inodes.record_lookup(ROOT, name("f"), Id(1, 11), 5), file);
        assert_ne!(inodes.record_lookup(ROOT, name("f"), Id(1, 11), 6), file);
    }

    #[test]
    fn other_devices_and_taken_numbers_get_numbers_of_their_own() {
        let inodes = InodeTable::new(Id(1, 2));
        let own = inodes.record_lookup(ROOT, name("a"), Id(1, 11), 0);
        let other = inodes.record_lookup(ROOT, name("b"), Id(9, 11), 0);
        let first = inodes.record_lookup(ROOT, name("c"), Id(1, 1), 0);
        assert_eq!(own, 11);
        assert!(other >= FIRST_ASSIGNED_NUMBER && first >= FIRST_ASSIGNED_NUMBER && other != first);
        assert_eq!(inodes.number_of(Id(9, 11)), Some(other));
    }
}
