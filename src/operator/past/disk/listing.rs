//! Listing a directory in one pass where many of its names are looked up: a tenth of the cost of a `statx` for each.
//!
//! Owns a short-lived cache of listings. A listed entry becomes a node only when its name is looked up, as if it had
//! been looked up alone. Names are compared by a keyed 64-bit hash.

use std::hash::BuildHasher;
use std::os::fd::AsFd;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::name::Name;
use crate::operator::past::disk::disk_tree::DiskTree;
use crate::operator::past::disk::interner::NameId;
use crate::operator::past::disk::listings::{DirListing, ListedInode, ListingCache};
use crate::operator::past::disk::node_id::NodeId;
use crate::operator::past::disk::node_index::NodeIndex;
use crate::world::{Dir, root};

/// After this many lookups a directory is listed,
const MIN_LOOKUPS: u32 = 64;

/// if it has at most this many entries for each lookup,
const MAX_ENTRIES_PER_LOOKUP: u64 = 8;

/// where an entry takes at least this many bytes of the directory's size on existing file systems.
const MIN_ENTRY_BYTES: u64 = 20;

/// The number of listings that are cached.
const MAX_CACHED_LISTINGS: usize = 8;

impl DiskTree<'_> {
    /// Returns the entry of a name, if the directory is listed or worth listing; `None` where the name must be looked
    /// up.
    pub(in crate::operator::past) fn listed_entry(
        &self,
        dir: NodeId,
        opened: &Dir,
        name_id: NameId,
    ) -> Result<Option<Option<ListedInode>>> {
        if !self.index.borrow().listings.has(dir) {
            let count = self.index.borrow_mut().listings.count(dir);
            let is_worth_it = |count: u32| -> Result<bool> {
                let entries = root::stat_fd(opened.as_fd())?.size / MIN_ENTRY_BYTES;
                Ok(entries <= u64::from(count) * MAX_ENTRIES_PER_LOOKUP)
            };
            match count {
                Some(count)
                    if count >= MIN_LOOKUPS && count.is_power_of_two() && is_worth_it(count)? =>
                {
                    self.read(dir, opened)?;
                }
                _ => return Ok(None),
            }
        }
        let index = self.index.borrow();
        let Some(listing) = index.listings.get(dir) else {
            return Ok(None);
        };
        let hash = index.listings.hasher.hash_one(index.interner.text(name_id));
        Ok(match listing.get(hash) {
            None => Some(None),
            Some((_, FileType::Unknown)) => None,
            Some((inode, kind)) => Some(Some(([opened.id().0, inode], kind))),
        })
    }

    /// Drops the cache.
    pub(in crate::operator::past) fn forget_listings(&self) {
        self.index.borrow_mut().listings = ListingCache::default();
    }

    fn read(&self, dir: NodeId, opened: &Dir) -> Result<()> {
        let fd = self.store().root().read_dir(opened)?;
        let mut index = self.index.borrow_mut();
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let hash = index.listings.hasher.hash_one(entry.file_name().to_bytes());
            let kind = match entry.file_type() {
                // It may be a mount point.
                FileType::Directory => FileType::Unknown,
                kind => kind,
            };
            entries.push((hash, entry.ino(), kind));
        }
        if let Some(name) = self.store().root().unlisted_name(opened) {
            let hash = index.listings.hasher.hash_one(name);
            let ino = opened.stat(Name::new(name)?).map(|meta| meta.id.1);
            entries.retain(|(known, ..)| *known != hash);
            entries.extend(ino.map(|ino| (hash, ino, FileType::Unknown)));
        }
        entries.sort_unstable_by_key(|(hash, ..)| *hash);
        let listing = DirListing {
            hashes: entries.iter().map(|(hash, ..)| *hash).collect(),
            inodes: entries.iter().map(|(_, inode, _)| *inode).collect(),
            kinds: entries.iter().map(|(.., kind)| *kind).collect(),
        };
        let agrees = index.agrees(dir, &listing);
        let listings = &mut index.listings;
        listings.asked.insert(dir, None);
        if agrees {
            if listings.read.len() >= MAX_CACHED_LISTINGS {
                listings.read.remove(0);
            }
            listings.read.push((dir, listing));
        }
        Ok(())
    }
}

impl NodeIndex {
    /// Returns whether a listing agrees with earlier lookups. Some file systems list other inode numbers than `statx`
    /// reports; and a listing does not show what is mounted on a file.
    fn agrees(&self, dir: NodeId, listing: &DirListing) -> bool {
        let known = self.entries.get(&dir).into_iter();
        let mut known = known.flat_map(|entries| &entries.known);
        known.all(|(name_id, node)| {
            let hash = self.listings.hasher.hash_one(self.interner.text(*name_id));
            let base = node.and_then(|node| self.nodes.get(node.index()));
            let inode = base.and_then(|base| self.devices.ids(base.inode?));
            match (inode, listing.get(hash)) {
                (_, Some((_, FileType::Unknown))) | (None, None) => true,
                (Some(ids), Some((inode, _))) => ids[1] == inode,
                _ => false,
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operator::Store;
    use crate::operator::past::ROOT;
    use crate::world::{World, WorldOptions, new_session_id};

    /// Makes a store with many files in a directory, some of them linked twice.
    fn store(dir: &std::path::Path) -> Store {
        let options = WorldOptions {
            session: new_session_id(),
            ..WorldOptions::default()
        };
        drop(World::open(dir, options).unwrap());
        std::fs::create_dir_all(dir.join("d/sub")).unwrap();
        for number in 0..200 {
            std::fs::write(dir.join(format!("d/f{number}")), "").unwrap();
        }
        for number in 0..20 {
            let (from, to) = (format!("d/f{number}"), format!("d/l{number}"));
            std::fs::hard_link(dir.join(from), dir.join(to)).unwrap();
        }
        std::os::unix::fs::symlink("f1", dir.join("d/s")).unwrap();
        Store::open(dir).unwrap()
    }

    fn names() -> Vec<String> {
        let some = |kind: &'static str| (0..250).map(move |number| format!("{kind}{number}"));
        let others = ["sub", "s", "none"].map(str::to_owned);
        some("f").chain(some("l")).chain(others).collect()
    }

    #[test]
    fn listing_agrees_with_single_lookups() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        // Both ways must find the same node for each name.
        let (read, asked) = (DiskTree::new(&store), DiskTree::new(&store));
        let top = |disk: &DiskTree<'_>| disk.lookup(ROOT, b"d").unwrap().unwrap();
        let (one, other) = (top(&read), top(&asked));
        let never = |disk: &DiskTree<'_>| {
            disk.index.borrow_mut().listings.asked.insert(other, None);
        };
        never(&asked);
        for name in names() {
            let is = read.lookup(one, name.as_bytes()).unwrap();
            assert_eq!(is, asked.lookup(other, name.as_bytes()).unwrap(), "{name}");
            let what = |disk: &DiskTree<'_>| {
                is.map(|node| (disk.ids(node), disk.kind(node), disk.places(node).len()))
            };
            assert_eq!(what(&read), what(&asked), "{name}");
        }
        assert!(read.index.borrow().listings.has(one));
        assert!(!asked.index.borrow().listings.has(other));
        read.forget_listings();
        assert!(!read.index.borrow().listings.has(one));
    }

    #[test]
    fn changing_directory_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let disk = DiskTree::new(&store);
        let top = disk.lookup(ROOT, b"d").unwrap().unwrap();
        for name in names() {
            assert!(disk.lookup(top, b"f0").unwrap().is_some());
            if name == "f10" {
                std::fs::remove_file(dir.path().join("d/f0")).unwrap();
            }
            let is = disk.lookup(top, name.as_bytes()).unwrap();
            let there = dir.path().join("d").join(&name).symlink_metadata();
            assert!(name == "f0" || is.is_some() == there.is_ok(), "{name}");
        }
        assert!(!disk.index.borrow().listings.has(top));
    }
}
