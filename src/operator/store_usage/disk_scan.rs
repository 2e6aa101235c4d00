//! The files of a store, measured as `du` does: allocated blocks, each inode once, in the order live files, trash,
//! state.
//!
//! Owns which part of the store a file belongs to. Keeps the space of each entry of the trash and each version by a
//! keyed hash of its name, for the journals to say what it was.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;

use super::super::Store;
use super::{FileUsage, ProblemList};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::root::stat_fd;
use crate::world::store::layout::{
    JOURNAL, SESSIONS, STATE, TRASH, VERSIONS, VersionFile, is_own_name, version_file,
};
use crate::world::{Dir, Id, Meta};

/// The space of kept things that no record has been found for yet, in bytes.
#[derive(Debug, Default)]
pub(super) struct KeptFiles {
    hasher: RandomState,
    entries: HashMap<u64, u64>,
    versions: HashMap<u64, u64>,
}

impl KeptFiles {
    fn add_entry(&mut self, entry: &[u8], disk: u64) {
        let key = self.hasher.hash_one(entry);
        *self.entries.entry(key).or_default() += disk;
    }

    fn add_version(&mut self, session: &[u8], n: u64, disk: u64) {
        let key = self.hasher.hash_one((session, n));
        *self.versions.entry(key).or_default() += disk;
    }

    /// Returns the space of an entry of the trash, once.
    pub(super) fn take_entry(&mut self, entry: &[u8]) -> Option<u64> {
        self.entries.remove(&self.hasher.hash_one(entry))
    }

    /// Returns the space of a version, once.
    pub(super) fn take_version(&mut self, session: &str, n: u64) -> Option<u64> {
        let key = self.hasher.hash_one((session.as_bytes(), n));
        self.versions.remove(&key)
    }
}

/// The parts of a store.
#[derive(Debug, Default)]
pub(super) struct StoreScan {
    pub(super) live: FileUsage,
    pub(super) trash: FileUsage,
    pub(super) versions: FileUsage,
    pub(super) journals: FileUsage,
    pub(super) other: FileUsage,
    pub(super) kept: KeptFiles,
}

/// A node found on the way, with what it adds.
struct ScannedNode<'a> {
    /// The path of its directory.
    dir: &'a WorldPath,
    name: &'a [u8],
    /// Nothing for another name of an inode that was counted.
    usage: FileUsage,
}

/// A walk over directories of a store. Each inode counts once.
struct TreeScan<'a> {
    store: &'a Store,
    linked: HashSet<Id>,
    problems: &'a mut ProblemList,
}

impl StoreScan {
    /// Walks over the whole store.
    ///
    /// # Errors
    /// Any error from opening the store's directory.
    pub(super) fn read(store: &Store, problems: &mut ProblemList) -> Result<StoreScan> {
        let mut walk = TreeScan {
            store,
            linked: HashSet::new(),
            problems,
        };
        let mut scan = StoreScan::default();
        scan.live.add(usage_of(&stat_fd(store.root().as_fd())?));
        let live = &mut scan.live;
        walk.visit_below(WorldPath::root(), &mut |node| live.add(node.usage));
        let trash = WorldPath::parse(TRASH)?;
        scan.trash.add(walk.usage_of_top(&trash));
        walk.visit_below(trash, &mut |node| {
            scan.trash.add(node.usage);
            let entry = match node.dir.components().nth(1) {
                Some(entry) => entry.bytes(),
                None => node.name,
            };
            scan.kept.add_entry(entry, node.usage.disk);
        });
        let state = WorldPath::parse(STATE)?;
        scan.other.add(walk.usage_of_top(&state));
        walk.visit_below(state, &mut |node| scan.add_state(&node));
        Ok(scan)
    }

    /// Adds a node of the state directory to its part.
    fn add_state(&mut self, node: &ScannedNode<'_>) {
        let mut parts = node.dir.components().skip(1).map(Name::bytes);
        let session = match parts.next() {
            Some(dir) if dir == SESSIONS.as_bytes() => parts.next(),
            _ => None,
        };
        let (Some(session), below) = (session, parts.next()) else {
            return self.other.add(node.usage);
        };
        let (versions, journal) = (VERSIONS.as_bytes(), JOURNAL.as_bytes());
        match below {
            None if node.name == journal => self.journals.add(node.usage),
            None if node.name == versions => self.versions.add(node.usage),
            Some(dir) if dir == versions => {
                self.versions.add(node.usage);
                let is_top = parts.next().is_none();
                if let (true, Some(VersionFile::Version(n) | VersionFile::Map(n))) =
                    (is_top, version_file(node.name))
                {
                    self.kept.add_version(session, n, node.usage.disk);
                }
            }
            _ => self.other.add(node.usage),
        }
    }
}

impl TreeScan<'_> {
    /// Visits everything below a directory; below the store's root, all but the store's own directories. Other file
    /// systems mounted there are left out.
    fn visit_below(&mut self, top: WorldPath, visit: &mut impl FnMut(ScannedNode<'_>)) {
        let mut pending = vec![top];
        while let Some(path) = pending.pop() {
            let listed = self.list(&path, &mut pending, visit);
            if let Err(error) = listed {
                self.problems
                    .add(|| format!("what is in {path} is not counted: {error}"));
            }
        }
    }

    fn list(
        &mut self,
        path: &WorldPath,
        pending: &mut Vec<WorldPath>,
        visit: &mut impl FnMut(ScannedNode<'_>),
    ) -> Result<()> {
        let dir = match self.store.root().dir(path) {
            // Moved or deleted meanwhile, or another file system.
            Err(Error::NotFound | Error::NotDirectory) => return Ok(()),
            dir => dir?,
        };
        let fd = self.store.root().read_dir(&dir)?;
        for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let bytes = entry.file_name().to_bytes();
            let Ok(name) = Name::new(bytes) else {
                continue; // `.` and `..`
            };
            if path.is_root() && is_own_name(bytes) {
                continue;
            }
            let Some(meta) = stat(&dir, name)? else {
                continue;
            };
            if meta.is_dir() {
                pending.push(path.join(name));
            }
            visit(ScannedNode {
                dir: path,
                name: bytes,
                usage: self.first_usage(&meta),
            });
        }
        Ok(())
    }

    /// Returns what a directory takes by itself; nothing if it is absent.
    fn usage_of_top(&mut self, path: &WorldPath) -> FileUsage {
        let dir = self.store.root().dir(path);
        match dir.and_then(|dir| stat_fd(dir.as_fd())) {
            Ok(meta) => usage_of(&meta),
            Err(_) => FileUsage::default(),
        }
    }

    /// Returns what a node adds: nothing if another of its names was met before.
    fn first_usage(&mut self, meta: &Meta) -> FileUsage {
        match meta.is_dir() || meta.nlink < 2 || self.linked.insert(meta.id) {
            true => usage_of(meta),
            false => FileUsage::default(),
        }
    }
}

/// Returns the attributes of an entry; `None` if it is gone, or is where another file system is mounted.
fn stat(dir: &Dir, name: Name<'_>) -> Result<Option<Meta>> {
    match dir.stat(name) {
        Ok(meta) => Ok(Some(meta).filter(|meta| !meta.mount_root)),
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn usage_of(meta: &Meta) -> FileUsage {
    let (files, size) = match meta.is_dir() {
        true => (0, 0),
        false => (1, meta.size),
    };
    FileUsage {
        files,
        size,
        disk: meta.blocks * 512,
    }
}
