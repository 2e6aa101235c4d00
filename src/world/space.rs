//! What the trash and the versions take: counted once, and left out of what `df` shows.

use super::own;
use super::{World, quota, settle, trash, view};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};

/// With less room on the disk than this, in bytes, no page cache stands before it.
const SCARCE: u64 = 256 << 20;

impl World {
    /// Returns whether the store's disk is so full that what is written has to reach it at once, to be refused where there is no room. What
    /// the occupant cannot use does not count. Not scarce where the file system does not say.
    pub fn is_room_scarce(&self) -> bool {
        rustix::fs::fstatvfs(&self.root)
            .is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) < SCARCE)
    }

    /// Asks for the state of the store's file system. What lies in the trash and the versions does not count as used.
    ///
    /// # Errors
    /// What `fstatvfs(3)` says.
    pub fn statfs(&self) -> Result<rustix::fs::StatVfs> {
        let mut fs = rustix::fs::fstatvfs(&self.root).map_err(Error::os("statfs"))?;
        let used = fs.f_blocks.saturating_sub(fs.f_bfree);
        let kept = self.trash.bytes() + self.versions.room().used();
        let trash = kept / fs.f_frsize.max(1);
        fs.f_blocks -= trash.min(used);
        Ok(fs)
    }

    /// Counts what already lies in the trash, so that `df` does not. May take long; meant for a thread of its own.
    ///
    /// # Errors
    /// What reading the trash says.
    pub fn count_trash(&self) -> Result<()> {
        // Nothing is purged meanwhile. What comes while this counts is counted by itself.
        let _still = self.trash.still();
        let start = chrono::Utc::now();
        let top = WorldPath::parse(view::TRASH)?;
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

    /// Counts what earlier sessions have kept of contents. May take long; meant for a thread of its own.
    ///
    /// # Errors
    /// What reading the directories says.
    pub fn count_versions(&self) -> Result<()> {
        for session in settle::sessions(&self.state)? {
            if session != self.session
                && let Some(dir) = quota::versions_of(&self.state, &session)?
            {
                let bytes = quota::list(&dir)?.iter().map(|(_, bytes)| bytes).sum();
                self.versions.room().counted(bytes);
            }
        }
        Ok(())
    }
}
