//! The loss of the store's lock: on a network's file system it may go to another machine while this one is paused.
//!
//! A process that has lost the lock writes nothing more, neither records nor changes. Writes of the kernel itself to
//! files that were open in passthrough are out of reach.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::world::World;
use crate::world::store::probe;

impl World {
    /// Returns whether the lock may be lost on this file system, so that [`World::keeps_lock`] has to be called.
    pub fn may_lose_lock(&self) -> bool {
        probe::may_lose_locks(self.state.as_fd())
    }

    /// Returns whether the store is still locked by this process, and ends all changes if not.
    pub fn keeps_lock(&self) -> bool {
        if self.has_lost_lock() {
            return false;
        }
        let Some(other) = self.state.lock_lost_to() else {
            return true;
        };
        self.journal.stop();
        self.lost.store(true, Ordering::SeqCst);
        let text = format!(
            "the store's lock was lost to {other}: this home answers EIO and writes nothing more. Unmount it, and look at the store \
             with `trumanfs fsck`"
        );
        log::error!("{text}");
        self.notices.set("lock", text);
        false
    }

    /// Returns whether the lock is known to be lost.
    pub fn has_lost_lock(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Checks that the lock is not known to be lost.
    ///
    /// # Errors
    /// `EIO` if it is.
    pub fn expect_lock(&self) -> Result<()> {
        if self.has_lost_lock() {
            Err(Error::os("the lock of the store")(rustix::io::Errno::IO))
        } else {
            Ok(())
        }
    }
}
