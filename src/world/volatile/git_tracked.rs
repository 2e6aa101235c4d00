//! The files that git tracks, as far as the indexes of the repositories in the store say. What cannot be read counts as
//! tracked.
//!
//! Lock: one mutex over what was read last, never held over a system call.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::git_index::tracked_files;
use crate::world::root::Root;
use trumanfs_types::meta::{Id, Time};

/// The largest index that is read.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The time for which it is believed that a directory is no repository's top.
const BELIEVED: Duration = Duration::from_secs(1);

/// The number of directories about which this is remembered.
const MAX_DIRS: usize = 1 << 14;

/// The state of an index when it was read.
type ReadIndexState = (Id, u64, Time, Time);

/// The list of an index.
#[derive(Debug, Clone)]
struct ReadIndex {
    state: ReadIndexState,
    /// The paths from the repository's top; `None` if it cannot be read.
    paths: Option<Arc<HashSet<Vec<u8>>>>,
}

/// The indexes that were read, and the directories that have none.
#[derive(Debug, Default)]
pub(in crate::world) struct TrackedFiles(Mutex<TrackedKnowledge>);

#[derive(Debug, Default)]
struct TrackedKnowledge {
    indexes: HashMap<WorldPath, ReadIndex>,
    plain: HashMap<WorldPath, Instant>,
}

impl TrackedFiles {
    /// Returns whether git tracks a path, in a repository at or above the path's directory.
    pub(in crate::world) fn is_tracked(&self, root: &Root, path: &WorldPath) -> bool {
        let mut top = path.parent();
        while let Some(dir) = top {
            match self.is_tracked_in(root, &dir, path) {
                Ok(false) => {}
                Ok(true) => return true,
                Err(error) => {
                    log::debug!("{dir}: what git tracks is not known: {error}");
                    return true;
                }
            }
            top = dir.parent();
        }
        false
    }

    fn is_tracked_in(&self, root: &Root, top: &WorldPath, path: &WorldPath) -> Result<bool> {
        let is_plain = |known: &TrackedKnowledge| {
            let since = known.plain.get(top);
            since.is_some_and(|since| since.elapsed() < BELIEVED)
        };
        if is_plain(&self.0.lock()) {
            return Ok(false);
        }
        let git = top.join(Name::new(b".git")?);
        match root.node(&git) {
            Ok(node) if node.meta().is_dir() => {}
            // A linked worktree's or a submodule's, whose index lies elsewhere.
            Ok(node) if node.meta().kind == FileType::RegularFile => return Ok(true),
            Ok(_) | Err(Error::NotFound | Error::NotDirectory) => {
                let mut known = self.0.lock();
                if known.plain.len() >= MAX_DIRS {
                    known.plain.clear();
                }
                known.plain.insert(top.clone(), Instant::now());
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let Some(paths) = self.paths_of(root, &git.join(Name::new(b"index")?))? else {
            return Ok(true);
        };
        let prefix = if top.is_root() {
            0
        } else {
            top.bytes().len() + 1
        };
        Ok(path
            .bytes()
            .get(prefix..)
            .is_none_or(|below| paths.contains(below)))
    }

    /// Returns what an index lists, read anew if it has changed; nothing if there is none, `None` if it is unreadable.
    fn paths_of(&self, root: &Root, index: &WorldPath) -> Result<Option<Arc<HashSet<Vec<u8>>>>> {
        let node = match root.node(index) {
            Err(Error::NotFound) => return Ok(Some(Arc::default())),
            node => node?,
        };
        let meta = *node.meta();
        let state = (meta.id, meta.size, meta.mtime, meta.ctime);
        let read = self.0.lock().indexes.get(index).cloned();
        if let Some(read) = read.filter(|read| read.state == state) {
            return Ok(read.paths);
        }
        let paths = if meta.size > MAX_INDEX_BYTES {
            None
        } else {
            let mut bytes = Vec::new();
            let mut file = std::fs::File::from(root.reopen_quietly(&node)?);
            file.read_to_end(&mut bytes)
                .map_err(|error| Error::io("read", &error))?;
            tracked_files(&bytes)
                .map(|tracked| Arc::new(tracked.into_iter().map(|(path, _)| path).collect()))
        };
        let read = ReadIndex {
            state,
            paths: paths.clone(),
        };
        self.0.lock().indexes.insert(index.clone(), read);
        Ok(paths)
    }
}
