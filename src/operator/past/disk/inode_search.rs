//! Searches the whole store for inodes whose names are unknown. Rare: a file whose other link no recent record names,
//! or a directory that moved while a change below it was recorded.

use std::collections::HashSet;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::InodeNumbers;
use crate::name::{Name, WorldPath};
use crate::operator::past::disk::disk_tree::DiskTree;
use crate::operator::past::disk::node_id::ROOT;
use crate::world::store::layout::STATE;

impl DiskTree<'_> {
    /// Searches the whole store for further names of some inodes, including the trash, since a directory may come
    /// back from there. Memory does not grow with the store.
    ///
    /// # Errors
    /// Those of reading the directories.
    pub fn search(&self, wanted: &HashSet<InodeNumbers>) -> Result<()> {
        let fresh: Vec<bool> = {
            let mut index = self.index.borrow_mut();
            wanted
                .iter()
                .map(|ids| index.searched.insert(*ids))
                .collect()
        };
        if !fresh.contains(&true) {
            return Ok(());
        }
        let mut pending = vec![WorldPath::root()];
        while let Some(path) = pending.pop() {
            let dir = match self.store().root().dir(&path) {
                Err(Error::NotFound | Error::NotDirectory) => continue,
                // Another user's directory: nodes in it are not found, the rest is.
                Err(error) if error.is_denial() => continue,
                dir => dir?,
            };
            let fd = match self.store().root().read_dir(&dir) {
                Err(error) if error.is_denial() => continue,
                fd => fd?,
            };
            for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
                let entry = entry.map_err(Error::os("getdents64"))?;
                let bytes = entry.file_name().to_bytes();
                let Ok(name) = Name::new(bytes) else {
                    continue; // `.` and `..`
                };
                if path.is_root() && bytes == STATE {
                    continue;
                }
                if wanted.contains(&[dir.id().0, entry.ino()]) {
                    let mut at = Some(ROOT);
                    for name in path.join(name).components() {
                        at = match at {
                            Some(dir) => self.lookup(dir, name.bytes())?,
                            None => None,
                        };
                    }
                }
                let is_dir = match entry.file_type() {
                    FileType::Unknown => dir.stat(name).is_ok_and(|meta| meta.is_dir()),
                    kind => kind == FileType::Directory,
                };
                if is_dir {
                    pending.push(path.join(name));
                }
            }
            if let Some(name) = self.store().root().unlisted_name(&dir) {
                pending.push(path.join(Name::new(name)?));
            }
        }
        Ok(())
    }
}
