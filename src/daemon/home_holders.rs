//! The connections that hold a home, and so keep it mounted.
//!
//! A home that was mounted for a request ([`MountOptions::while_held`]) ends with the last of them, and a connection
//! ends with its process, however that ends. Other homes outlive their holders; holding them provides the scratch
//! directory and the home's owner.
//!
//! [`MountOptions::while_held`]: super::MountOptions::while_held
//!
//! Lock: one over the count, held for no system call but those that make the scratch directory.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::home_mount::HomeMount;
use crate::control::HeldHomeInfo;
use crate::error::{Error, Result};
use crate::world::World;

/// The time that a home that was mounted for a request waits for its first holder.
const FIRST_HOLDER_LIMIT: Duration = Duration::from_secs(10);

/// The holders of one home.
#[derive(Debug)]
pub(super) struct HomeHolders {
    held: HeldHomeInfo,
    mount: Arc<HomeMount>,
    /// The owner of files that the daemon makes, if that is not its own user.
    owner: Option<(u32, u32)>,
    while_held: bool,
    count: Mutex<HolderCount>,
}

#[derive(Debug, Default)]
struct HolderCount {
    holders: usize,
    /// True if the home is being unmounted because nobody holds it any more.
    ends: bool,
}

impl HomeHolders {
    /// Starts without any. `while_held`: the home ends when there are none any more.
    pub(super) fn new(
        held: HeldHomeInfo,
        mount: Arc<HomeMount>,
        owner: Option<(u32, u32)>,
        while_held: bool,
    ) -> Arc<HomeHolders> {
        Arc::new(HomeHolders {
            held,
            mount,
            owner,
            while_held,
            count: Mutex::default(),
        })
    }

    /// Holds the home until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Conflict`] where it ends at this moment; those of [`World::make_scratch`].
    pub(super) fn hold(
        self: &Arc<HomeHolders>,
        world: &World,
    ) -> Result<(HolderGuard, HeldHomeInfo)> {
        let mut count = self.count.lock();
        if count.ends {
            return Err(Error::Conflict {
                what: "the home is being unmounted".to_owned(),
                remedy: "Give the command once more.".to_owned(),
            });
        }
        world.make_scratch(self.owner)?;
        count.holders += 1;
        Ok((HolderGuard(self.clone()), self.held.clone()))
    }

    /// Returns a mount of a home that is at no path.
    pub(super) fn tree(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        self.mount.tree()
    }

    /// Ends a home that nobody has come to hold in time. Blocks so long.
    pub(super) fn await_first(&self) {
        if self.while_held {
            std::thread::sleep(FIRST_HOLDER_LIMIT);
            self.end_unless_held();
        }
    }

    fn end_unless_held(&self) {
        {
            let mut count = self.count.lock();
            if !self.while_held || count.holders > 0 || std::mem::replace(&mut count.ends, true) {
                return;
            }
        }
        // A process that still runs in the home has lost its executor.
        if let Err(error) = self
            .mount
            .unmount(false)
            .or_else(|_| self.mount.unmount(true))
        {
            log::warn!("{error}");
        }
    }
}

/// A connection that holds the home.
#[derive(Debug)]
pub(super) struct HolderGuard(Arc<HomeHolders>);

impl Drop for HolderGuard {
    fn drop(&mut self) {
        self.0.count.lock().holders -= 1;
        self.0.end_unless_held();
    }
}
