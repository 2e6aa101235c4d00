//! The git indexes that the home has put into their place, and the stamps that say what they list.
//!
//! `git status` in the store writes an index anew, and the one that the home left is gone then. A digest of its entries
//! tells later whether the two list the same. It is taken before a seal, once for all indexes that came since the last
//! one, as git writes one for nearly every command.

use std::collections::HashMap;
use std::io::Read;

use parking_lot::Mutex;

use super::World;
use super::git_index::entries_digest;
use super::rename::RenameResult;
use super::root::{Dir, stat_fd};
use crate::error::{Error, Result};
use crate::journal::LeftState;
use crate::name::{Name, WorldPath};
use std::os::fd::AsFd;
use trumanfs_types::meta::Id;

/// The largest index that is read: some half a million entries.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The number of indexes that may wait; any more are left out.
const MAX_WAITING: usize = 256;

/// The indexes that came since the last seal.
#[derive(Debug, Default)]
pub(super) struct LeftIndexes(Mutex<HashMap<WorldPath, Id>>);

impl LeftIndexes {
    /// Notes a rename, if an index may have come into its place by it.
    pub(super) fn note_rename(&self, dir: &Dir, name: Name<'_>, moved: &RenameResult) {
        if name.bytes() != b"index" || moved.directory {
            return;
        }
        let mut waiting = self.0.lock();
        if waiting.len() < MAX_WAITING {
            waiting.insert(dir.path().join(name), moved.id);
        }
    }
}

impl World {
    /// Takes the stamps of the indexes that came since the last seal, of those that are still there.
    pub fn stamp_indexes(&self) {
        let waiting = std::mem::take(&mut *self.left_indexes.0.lock());
        for (path, id) in waiting {
            match self.index_stamp(&path, id) {
                Ok(stamp) => self.journal.add_stamps(stamp),
                Err(Error::NotFound) => {}
                Err(error) => log::debug!("{path}: an index has no stamp: {error}"),
            }
        }
    }

    fn index_stamp(&self, path: &WorldPath, id: Id) -> Result<Option<LeftState>> {
        let node = self.root.node_expecting(path, id)?;
        let mut file = std::fs::File::from(self.root.reopen_quietly(&node)?);
        let meta = stat_fd(file.as_fd())?;
        if meta.size > MAX_INDEX_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", &error))?;
        let entries = entries_digest(&bytes);
        Ok(entries.map(|entries| LeftState {
            // Beside the stamps of the file itself, which are in order of records.
            session: Some(self.session.clone()),
            seq: 0,
            ids: self.journal.ids(id),
            born: meta.born,
            size: meta.size,
            mtime: (meta.mtime.sec, meta.mtime.nsec),
            mode: None,
            ctime: (meta.ctime.sec, meta.ctime.nsec),
            made: false,
            mapped: false,
            by: None,
            sha256: None,
            n: None,
            entries: Some(entries),
        }))
    }
}
