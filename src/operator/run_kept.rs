//! The space of what is kept because of one run, and how much of that lies in directories of what can be made again.
//!
//! Reads the records from the newest back to the beginning of the run, and looks at what they name.

use std::collections::{BTreeMap, HashMap};

use super::Store;
use super::kept_versions::{VersionDir, on_disk};
use super::made_again::made_again;
use super::past::ReverseRecords;
use super::trash_size::size_of;
use crate::error::{Error, Result};
use crate::journal::{Op, RunId};
use crate::name::{Name, WorldPath};
use crate::world::store::layout::TRASH;

/// The space of what is kept because of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunKept {
    /// The space that it takes on disk, in bytes.
    pub disk: u64,
    /// The part of it in directories that have the name of such as can be made again, by that name, in bytes.
    pub made_again: BTreeMap<String, u64>,
}

/// Finds out what is kept because of a run.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read; those of reading the directories.
pub fn run_kept(store: &Store, id: RunId) -> Result<RunKept> {
    let mut kept = RunKept::default();
    let mut versions: HashMap<String, VersionDir> = HashMap::new();
    let trash = WorldPath::parse(TRASH)?;
    let dir = match store.root.dir(&trash) {
        Err(Error::NotFound) => return Ok(kept),
        dir => dir?,
    };
    let mut records = ReverseRecords::open_unchecked(store)?;
    while let Some((session, record)) =
        records.next_where(|header| header.origin().run == Some(id))?
    {
        if matches!(record.op, Op::Run { .. }) {
            break;
        }
        if let Some(trashed) = record.op.trashed() {
            let name = Name::new(&trashed.entry.0)?;
            // One that was gathered lies in the entry of its directory.
            if let Ok(meta) = dir.stat(name) {
                let size = size_of(store, trash.join(name), &meta)?;
                kept.add(trashed.path, size.disk);
            }
        }
        if let (Some((version, _)), Some(path)) = (record.op.kept(), record.op.path()) {
            if !versions.contains_key(&*session) {
                let dir = on_disk(store, &session)?;
                versions.insert(session.to_string(), dir);
            }
            let there = versions.get(&*session);
            let files = there.and_then(|dir| dir.versions.get(&version.n));
            kept.add(path, files.map_or(0, |files| files.disk));
        }
    }
    Ok(kept)
}

impl RunKept {
    fn add(&mut self, path: &WorldPath, disk: u64) {
        self.disk += disk;
        if let Some(name) = made_again(path) {
            *self.made_again.entry(name.to_owned()).or_default() += disk;
        }
    }
}
