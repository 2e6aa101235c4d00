//! The list of volatile files that a session leaves for the next one, in the state directory.
//!
//! The list is there only between sessions: after one that was killed it would be wrong, and what it named is kept then.

use std::io::Write;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::store::inode_lists::MAX_LIST_BYTES;
use crate::world::store::layout::VOLATILE;
use crate::world::store::state::StateDir;
use crate::world::store::state_files;
use crate::world::volatile::VolatileFiles;
use crate::world::volatile::erase::NoHome;
use crate::world::{World, WorldOptions};

impl VolatileFiles {
    /// Takes over the volatile files that the last session left.
    ///
    /// # Errors
    /// [`Error::Usage`] for a pattern that cannot be parsed; any error from `unlinkat(2)`.
    pub(in crate::world) fn take_over(
        state: &StateDir,
        options: &WorldOptions,
        device: u64,
    ) -> Result<VolatileFiles> {
        let known = state_files::open(state.as_fd(), VOLATILE.as_bytes(), OFlags::RDONLY)
            .and_then(|file| state_files::read(&file, VOLATILE, MAX_LIST_BYTES));
        match rustix::fs::unlinkat(state.as_fd(), VOLATILE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(Error::os("unlinkat")(errno)),
        }
        let known = known.unwrap_or_default();
        VolatileFiles::new(&options.volatile, options.home.is_none(), device, &known)
    }
}

impl World {
    /// Deletes what waits, and leaves the list of volatile files for the next session.
    pub(in crate::world) fn end_volatile(&self) {
        if !self.volatile.any() {
            return;
        }
        self.volatile.settle(&self.journal);
        self.erase_volatile(&NoHome);
        let Some(text) = self.volatile.format(&self.journal) else {
            return;
        };
        let state = self.state.as_fd();
        let written = state_files::make(state, VOLATILE.as_bytes(), OFlags::WRONLY, 0o600)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())
                    .map_err(|error| Error::io("write", &error))
            });
        if let Err(error) = written {
            log::warn!("what is volatile is kept from now on: {error}");
            let _ = rustix::fs::unlinkat(state, VOLATILE, AtFlags::empty());
        }
    }
}
