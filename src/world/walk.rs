//! Walks through the store's own entries, hidden ones too: those of one directory, or all below it.

use rustix::fs::FileType;

use super::World;
use super::list::{DirEntry, list_raw};
use super::root::{Dir, Root};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use trumanfs_types::meta::Id;

/// A node found on a walk.
#[derive(Debug)]
pub(super) struct WalkEntry<'a> {
    /// The directory it is in.
    pub(super) dir: &'a Dir,
    /// The node's name there.
    pub(super) name: Name<'a>,
    /// Its path.
    pub(super) path: &'a WorldPath,
    /// True if the node is a directory.
    pub(super) is_dir: bool,
    /// The inode.
    pub(super) id: Id,
}

impl World {
    /// Passes the visible entries from a position on to `visit`, until it returns false.
    ///
    /// # Errors
    /// As [`StoreView::list`](super::StoreView::list).
    pub fn list(
        &self,
        dir: &Dir,
        from: u64,
        visit: impl FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.store_view().list(dir, from, visit)
    }

    /// Visits everything below a directory, as [`walk`].
    ///
    /// # Errors
    /// As [`walk`].
    pub(super) fn walk(
        &self,
        top: &WorldPath,
        visit: impl FnMut(&WalkEntry<'_>) -> Result<bool>,
    ) -> Result<()> {
        walk(&self.root, top, visit)
    }
}

/// Passes all entries of a directory, including hidden ones, but not `.` and `..`.
fn list_all(root: &Root, dir: &Dir, mut visit: impl FnMut(DirEntry<'_>)) -> Result<()> {
    list_raw(root, dir, 0, |entry| {
        if !matches!(entry.name, b"." | b"..") {
            visit(entry);
        }
        true
    })
}

/// Visits everything below a directory, hidden or not. `visit` returns whether to enter a directory.
///
/// # Errors
/// Those of `visit`; any error from reading a directory.
pub(super) fn walk(
    root: &Root,
    top: &WorldPath,
    mut visit: impl FnMut(&WalkEntry<'_>) -> Result<bool>,
) -> Result<()> {
    let mut pending = vec![top.clone()];
    while let Some(path) = pending.pop() {
        let dir = match root.dir(&path) {
            // The path is gone or not a directory: nothing is below it.
            Err(Error::NotFound | Error::NotDirectory) => continue,
            dir => dir?,
        };
        let mut found = Vec::new();
        list_all(root, &dir, |entry| {
            found.push((entry.name.to_vec(), entry.kind, entry.ino))
        })?;
        for (name, kind, ino) in found {
            let name = Name::new(&name)?;
            let path = path.join(name);
            let is_dir = match kind {
                FileType::Unknown => dir.stat(name).is_ok_and(|meta| meta.is_dir()),
                kind => kind == FileType::Directory,
            };
            let id = Id(dir.id().0, ino);
            let step = WalkEntry {
                dir: &dir,
                name,
                path: &path,
                is_dir,
                id,
            };
            if visit(&step)? && is_dir {
                pending.push(path);
            }
        }
    }
    Ok(())
}
