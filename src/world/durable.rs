//! What `--durable` waits for: the disk has what is about to be destroyed before it is destroyed.
//!
//! A content is synced where it becomes a former one (`versions.rs`, `replace.rs`) or goes into the trash (`remove.rs`,
//! `rename.rs`), before the record that says so; records sync themselves (`journal`). The directories of a session are on
//! the disk before its first change. After that, making a name and moving one need no sync of their own: file systems
//! commit them in the order in which they were made, and the sync of a new file commits its name.

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::World;
use super::root::Node;
use super::state::StateDir;
use super::view::Visible;
use crate::error::{Error, Result};

impl World {
    /// With `--durable`, waits until the disk has what a file holds; it is about to become a former content.
    ///
    /// # Errors
    /// What `fdatasync(2)` says, `EIO` and `ENOSPC` above all. Then it must stay as it is.
    pub(super) fn secure(&self, node: &Node) -> Result<()> {
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
        // Whoever removes a file needs no right to it.
        self.state.sync_file_system()
    }

    /// Does the same for what is about to go into the trash. With a directory goes what is in it.
    ///
    /// # Errors
    /// As [`World::secure`]; `ENOENT` where something else is there.
    pub(super) fn secure_found(&self, found: &Visible<'_>, all_below: bool) -> Result<()> {
        match found.meta.kind {
            _ if !self.versions.is_durable() => Ok(()),
            FileType::Directory if all_below => self.state.sync_file_system(),
            FileType::RegularFile => {
                let node = found.dir.node(found.name)?;
                match node.meta().id == found.meta.id {
                    true => self.secure(&node),
                    false => Err(Error::NotFound),
                }
            }
            _ => Ok(()),
        }
    }
}

impl StateDir {
    /// Waits until all that the store's file system holds is on the disk.
    ///
    /// # Errors
    /// What `syncfs(2)` says.
    pub fn sync_file_system(&self) -> Result<()> {
        rustix::fs::syncfs(&self.lock).map_err(Error::os("syncfs"))
    }

    /// Waits until what is kept hidden is on the disk: with the move that would show it, and without this, it would show
    /// after a power cut.
    ///
    /// # Errors
    /// What `fdatasync(2)` says; then the move must not be made.
    pub fn sync_pinned(&self) -> Result<()> {
        rustix::fs::fdatasync(&*self.pinned.lock()).map_err(Error::os("fdatasync"))
    }
}
