//! The sizes of nodes in the trash. A file with several names takes space there only when all of its names are there.

use std::collections::HashMap;

use super::Store;
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::store::state_files::is_git_ignore;
use crate::world::{Dir, Id, Meta};

/// The size of a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeSize {
    /// The total size of its files, in bytes.
    pub(super) bytes: u64,
    /// The space that it takes on disk, in bytes, without that of files with several names.
    pub(super) disk: u64,
    /// The number of names below it.
    pub(super) names: u64,
    /// The files with several names in it, once for each name.
    pub(super) linked: Vec<LinkedFile>,
}

/// A file with several names.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkedFile {
    id: Id,
    nlink: u64,
    /// The space that it takes on disk, in bytes.
    disk: u64,
}

impl TreeSize {
    fn add_disk(&mut self, meta: &Meta) {
        let disk = meta.blocks * 512;
        if meta.is_dir() || meta.nlink < 2 {
            self.disk += disk;
            return;
        }
        self.linked.push(LinkedFile {
            id: meta.id,
            nlink: u64::from(meta.nlink),
            disk,
        });
    }
}

/// Lists the entries of a directory of the trash.
///
/// # Errors
/// Any error from reading the directory.
pub(super) fn entries(store: &Store, dir: &Dir) -> Result<Vec<(Vec<u8>, Meta)>> {
    let fd = store.root.read_dir(dir)?;
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let bytes = entry.file_name().to_bytes();
        if let Ok(name) = Name::new(bytes)
            && !is_git_ignore(dir.path(), bytes)
            && let Ok(meta) = dir.stat(name)
        {
            entries.push((bytes.to_vec(), meta));
        }
    }
    Ok(entries)
}

/// Returns the space that files with several names add to entries: to each name an equal share, if all of them are in
/// the trash. The entries are numbered by the caller.
pub(super) fn shares(linked: &[(usize, LinkedFile)]) -> Vec<(usize, u64)> {
    let mut names: HashMap<Id, u64> = HashMap::new();
    for (_, file) in linked {
        *names.entry(file.id).or_default() += 1;
    }
    let all = |file: &LinkedFile| {
        names
            .get(&file.id)
            .is_some_and(|names| *names >= file.nlink)
    };
    let whole = linked.iter().filter(|(_, file)| all(file));
    whole
        .map(|(entry, file)| (*entry, file.disk / file.nlink))
        .collect()
}

/// Returns the size of a file or tree in the store. The space of files with several names is left to the caller.
pub(super) fn size_of(store: &Store, path: WorldPath, meta: &Meta) -> Result<TreeSize> {
    let mut size = TreeSize::default();
    size.add_disk(meta);
    if !meta.is_dir() {
        size.bytes = meta.size;
        return Ok(size);
    }
    let mut pending = vec![path];
    while let Some(path) = pending.pop() {
        let dir = match store.root.dir(&path) {
            // Restored or purged meanwhile.
            Err(Error::NotFound) => continue,
            dir => dir?,
        };
        for (name, meta) in entries(store, &dir)? {
            size.names += 1;
            size.add_disk(&meta);
            if meta.is_dir() {
                pending.push(path.join(Name::new(&name)?));
            } else {
                size.bytes += meta.size;
            }
        }
    }
    Ok(size)
}
