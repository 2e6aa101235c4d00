//! Space used by the trash and the versions: counted once, and shown as free by `df`.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::World;
use crate::world::keep::version_files;
use crate::world::store::layout;
use crate::world::store::settle;
use crate::world::store::state_files;
use crate::world::trash::trash_entries;
use trumanfs_types::meta::{Id, Meta};

/// The free space in bytes below which writes bypass the page cache.
const SCARCE_BYTES: u64 = 256 << 20;

impl World {
    /// Returns whether the store's disk is nearly full: then writes must reach it at once, so that they are refused
    /// where there is no space. Space that the occupant cannot use does not count. False if the file system does not
    /// report free space.
    pub fn is_room_scarce(&self) -> bool {
        rustix::fs::fstatvfs(&self.root)
            .is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) < SCARCE_BYTES)
    }

    /// Returns the store's `statfs`, without counting the trash and the versions as used: they count as free space that
    /// nobody in the home may use, as what a file system reserves for root.
    ///
    /// # Errors
    /// Any error from `fstatvfs(3)`.
    pub fn statfs(&self) -> Result<rustix::fs::StatVfs> {
        let mut fs = rustix::fs::fstatvfs(&self.root).map_err(Error::os("statfs"))?;
        let used = fs.f_blocks.saturating_sub(fs.f_bfree);
        let kept = self.trash.bytes() + self.versions.quota().used();
        fs.f_bfree += used.min(kept / fs.f_frsize.max(1));
        Ok(fs)
    }

    /// Returns the bytes that a node takes in the trash: none as long as it has a name outside the trash.
    pub(super) fn bytes_in_trash(&self, meta: &Meta) -> u64 {
        let is_outside =
            !meta.is_dir() && meta.nlink > 1 && self.state.trashed_links(meta.id) < meta.nlink;
        if is_outside { 0 } else { meta.blocks * 512 }
    }

    /// Counts the existing contents of the trash, so that `df` leaves them out. Slow; meant for a thread of its own.
    ///
    /// # Errors
    /// Any error from reading the trash.
    pub fn count_trash(&self) -> Result<()> {
        // Nothing is purged meanwhile. Newer entries are counted as they arrive.
        let _still = self.trash.lock_counting();
        let start = chrono::Utc::now();
        let top = WorldPath::parse(layout::TRASH)?;
        let mut bytes = 0;
        let mut names_of: HashMap<Id, u32> = HashMap::new();
        self.walk(&top, |step| {
            let mut parts = step.path.components().skip(1);
            let entry = parts.next().map_or(&b""[..], Name::bytes);
            let old = trash_entries::parse_entry(entry).is_none_or(|(time, _)| time < start)
                && !state_files::is_git_ignore(&top, entry);
            if old && let Ok(meta) = step.dir.stat(step.name) {
                let names = names_of.entry(meta.id).or_default();
                *names += 1;
                let is_outside = !meta.is_dir() && *names < meta.nlink;
                bytes += if is_outside { 0 } else { meta.blocks * 512 };
            }
            Ok(old)
        })?;
        self.trash.add_bytes(bytes);
        Ok(())
    }

    /// Counts the versions of earlier sessions. Slow; meant for a thread of its own.
    ///
    /// # Errors
    /// Any error from reading the directories.
    pub fn count_versions(&self) -> Result<()> {
        for session in settle::sessions(&self.state)? {
            if session != self.session
                && let Some(dir) = version_files::versions_of(&self.state, &session)?
            {
                let bytes = version_files::list(&dir)?
                    .iter()
                    .map(|(_, bytes)| bytes)
                    .sum();
                self.versions.quota().add_used(bytes);
            }
        }
        Ok(())
    }
}
