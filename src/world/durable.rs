//! Waiting for the disk with `--durable`: data about to be destroyed reach the disk first.
//!
//! A content is synced when it becomes a former one (`versions.rs`, `replace.rs`) or goes into the trash (`remove.rs`,
//! `rename.rs`), before its record; records sync themselves (`journal`). A session's directories are on disk before
//! its first change. After that, creating and moving names needs no sync: file systems commit these in order, and the
//! sync of a new file commits its name.

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::World;
use super::root::Node;
use super::view::VisibleEntry;
use crate::error::{Error, Result};
use crate::world::store::state::StateDir;

impl World {
    /// With `--durable`, waits until a file's content, about to become a former one, is on disk.
    ///
    /// # Errors
    /// Any error from `fdatasync(2)`, mainly `EIO` and `ENOSPC`; the file must then stay as it is.
    pub(super) fn sync_before_loss(&self, node: &Node) -> Result<()> {
        if !self.versions.is_durable() || node.meta().kind != FileType::RegularFile {
            return Ok(());
        }
        for flags in [
            OFlags::RDONLY | OFlags::NOATIME,
            OFlags::RDONLY,
            OFlags::WRONLY,
        ] {
            match self.root.reopen(node, flags | OFlags::CLOEXEC) {
                Ok(file) => return rustix::fs::fdatasync(file).map_err(Error::os("fdatasync")),
                Err(error) if matches!(error.errno(), Errno::PERM | Errno::ACCESS) => {}
                Err(error) => return Err(error),
            }
        }
        // Removing a file needs no permission on it, so it may not be possible to open it.
        self.state.sync_file_system()
    }

    /// Secures an entry that goes into the trash, as [`World::sync_before_loss`]; with `all_below`, everything in a
    /// directory too.
    ///
    /// # Errors
    /// As [`World::sync_before_loss`]; `ENOENT` if something else has taken its place.
    pub(super) fn sync_entry_before_loss(
        &self,
        found: &VisibleEntry<'_>,
        all_below: bool,
    ) -> Result<()> {
        match found.meta.kind {
            _ if !self.versions.is_durable() => Ok(()),
            FileType::Directory if all_below => self.state.sync_file_system(),
            FileType::RegularFile => {
                let node = found.dir.node(found.name)?;
                if node.meta().id == found.meta.id {
                    self.sync_before_loss(&node)
                } else {
                    Err(Error::NotFound)
                }
            }
            _ => Ok(()),
        }
    }
}

impl StateDir {
    /// Waits until everything on the store's file system is on disk.
    ///
    /// # Errors
    /// Any error from `syncfs(2)`.
    pub fn sync_file_system(&self) -> Result<()> {
        rustix::fs::syncfs(&self.lock).map_err(Error::os("syncfs"))
    }

    /// Waits until the list of pinned inodes is on disk. Otherwise a power cut could keep the move and lose the pin,
    /// and the hidden node would show.
    ///
    /// # Errors
    /// Any error from `fdatasync(2)`; the move must then not be made.
    pub fn sync_pinned(&self) -> Result<()> {
        rustix::fs::fdatasync(&*self.pinned.lock()).map_err(Error::os("fdatasync"))
    }
}
