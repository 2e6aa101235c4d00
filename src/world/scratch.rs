//! The scratch directory: what is `/tmp` for everything that an executor runs in a home.
//!
//! Owns when it exists: from the first request that needs it until the session ends. What lies in it is neither
//! recorded nor kept. It lies in the state directory, so for the occupant it is another file system than the home: no
//! file can be moved or linked from one to the other.

use std::os::fd::AsFd;

use rustix::fs::Mode;

use super::World;
use super::layout::SCRATCH;
use super::own::give_to;
use super::root::stat_at;
use crate::error::{Error, Result};
use crate::name::Name;

impl World {
    /// Makes the session's scratch directory, unless it exists, and gives it to the owner of the home. A scratch directory
    /// that a killed session left behind is moved aside to be deleted.
    ///
    /// # Errors
    /// What `mkdir(2)`, `chown(2)` and `rename(2)` say.
    pub fn make_scratch(&self, owner: Option<(u32, u32)>) -> Result<()> {
        let mut made = self.scratch.lock();
        if *made {
            return Ok(());
        }
        self.put_scratch_aside()?;
        rustix::fs::mkdirat(&self.state, SCRATCH, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let dir = self.state.dir(SCRATCH)?;
        give_to(dir.as_fd(), owner)?;
        *made = true;
        Ok(())
    }

    /// Deletes the scratch directory with everything in it. The next purge tries again to delete what could not be
    /// deleted.
    pub(super) fn drop_scratch(&self) {
        let mut made = self.scratch.lock();
        if !std::mem::take(&mut *made) {
            return;
        }
        let dropped = self.put_scratch_aside().and_then(|()| self.finish_purges());
        if let Err(error) = dropped {
            log::warn!("the scratch directory could not be deleted: {error}");
        }
    }

    /// Moves what has the name of the scratch directory, whatever it is, to what is being deleted.
    fn put_scratch_aside(&self) -> Result<()> {
        let name = Name::new(SCRATCH.as_bytes())?;
        if let Err(Error::NotFound) = stat_at(self.state.as_fd(), name) {
            return Ok(());
        }
        let purging = self.purging()?;
        let aside = format!("{SCRATCH}.{}", self.session);
        // What has the name in there is an earlier one that could not be deleted, of this very session.
        let free = (0..).map(|n| format!("{aside}.{n}")).find(|aside| {
            Name::new(aside.as_bytes())
                .is_ok_and(|name| matches!(stat_at(purging.as_fd(), name), Err(Error::NotFound)))
        });
        let aside = free.unwrap_or(aside);
        rustix::fs::renameat(&self.state, SCRATCH, &purging, &aside)
            .map_err(Error::os_on("renameat", || format!("{SCRATCH:?}")))
    }
}
