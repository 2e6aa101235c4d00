//! Space used by the trash and the versions: counted once, and left out of what `df` shows.

use super::own;
use super::{World, layout, settle, trash, version_files};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};

/// The free space in bytes below which writes bypass the page cache.
const SCARCE: u64 = 256 << 20;

impl World {
    /// Returns whether the store's disk is nearly full: then writes must reach it at once, so that they are refused
    /// where there is no space. Space that the occupant cannot use does not count. False if the file system does not
    /// report free space.
    pub fn is_room_scarce(&self) -> bool {
        rustix::fs::fstatvfs(&self.root)
            .is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) < SCARCE)
    }

    /// Returns the store's `statfs`, without counting the trash and the versions as used.
    ///
    /// # Errors
    /// Any error from `fstatvfs(3)`.
    pub fn statfs(&self) -> Result<rustix::fs::StatVfs> {
        let mut fs = rustix::fs::fstatvfs(&self.root).map_err(Error::os("statfs"))?;
        let used = fs.f_blocks.saturating_sub(fs.f_bfree);
        let kept = self.trash.bytes() + self.versions.room().used();
        let trash = kept / fs.f_frsize.max(1);
        fs.f_blocks -= trash.min(used);
        Ok(fs)
    }

    /// Counts the existing contents of the trash, so that `df` leaves them out. Slow; meant for a thread of its own.
    ///
    /// # Errors
    /// Any error from reading the trash.
    pub fn count_trash(&self) -> Result<()> {
        // Nothing is purged meanwhile. Newer entries are counted as they arrive.
        let _still = self.trash.still();
        let start = chrono::Utc::now();
        let top = WorldPath::parse(layout::TRASH)?;
        let mut bytes = 0;
        self.walk(&top, |step| {
            let mut parts = step.path.components().skip(1);
            let entry = parts.next().map_or(&b""[..], Name::bytes);
            let old = trash::parse_entry(entry).is_none_or(|(time, _)| time < start)
                && !own::is_for_git(&top, entry);
            bytes += if old { step.bytes() } else { 0 };
            Ok(old)
        })?;
        self.trash.counted(bytes);
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
                self.versions.room().counted(bytes);
            }
        }
        Ok(())
    }
}
