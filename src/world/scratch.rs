//! The scratch directory: `/tmp` for everything that an executor runs in a home.
//!
//! Owns its lifetime: from the first request that needs it until the session ends. Its files are neither recorded nor
//! kept. It lies in the state directory, so for the occupant it is another file system than the home: no file can be
//! moved or linked from one to the other.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};

use super::World;
use super::root::{Node, open_beneath, stat_at};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::store::layout::SCRATCH;
use crate::world::store::state_files::give_to;

impl World {
    /// Creates the session's scratch directory, unless it exists, and gives it to the owner of the home. A scratch
    /// directory that a killed session left behind is moved aside to be deleted.
    ///
    /// # Errors
    /// Any error from `mkdir(2)`, `chown(2)` and `rename(2)`.
    pub fn make_scratch(&self, owner: Option<(u32, u32)>) -> Result<()> {
        let mut made = self.scratch.lock();
        if *made {
            return self.make_scratch_usable();
        }
        self.put_scratch_aside()?;
        rustix::fs::mkdirat(&self.state, SCRATCH, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let dir = self.state.dir(SCRATCH)?;
        give_to(dir.as_fd(), owner)?;
        *made = true;
        Ok(())
    }

    /// Deletes the scratch directory with everything in it. Remains that could not be deleted are left for the next
    /// purge.
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

    /// Opens the scratch directory to its owner again: a program that ran there may have closed it.
    fn make_scratch_usable(&self) -> Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = open_beneath(self.state.as_fd(), SCRATCH.as_bytes(), flags, Mode::empty());
        let node = Node::from_fd(node?)?;
        let mode = node.meta().permissions();
        if node.meta().is_dir() && mode & 0o700 != 0o700 {
            self.root.chmod(&node, mode | 0o700)
        } else {
            Ok(())
        }
    }

    /// Moves the node at the name of the scratch directory, of whatever kind, into the purging directory.
    fn put_scratch_aside(&self) -> Result<()> {
        let name = Name::new(SCRATCH.as_bytes())?;
        if let Err(Error::NotFound) = stat_at(self.state.as_fd(), name) {
            return Ok(());
        }
        // Moving a directory needs its owner's write permission.
        self.make_scratch_usable()?;
        let purging = self.open_purging_dir()?;
        let aside = format!("{SCRATCH}.{}", self.session);
        // A name in use there is an earlier scratch directory of this session that could not be deleted.
        let free = (0..).map(|n| format!("{aside}.{n}")).find(|aside| {
            Name::new(aside.as_bytes())
                .is_ok_and(|name| matches!(stat_at(purging.as_fd(), name), Err(Error::NotFound)))
        });
        let aside = free.unwrap_or(aside);
        rustix::fs::renameat(&self.state, SCRATCH, &purging, &aside)
            .map_err(Error::os_on("renameat", || format!("{SCRATCH:?}")))
    }
}
