//! [`OfflineStore`]: a store that nobody has mounted, as all requests that work in it share it.
//!
//! Owns when its session begins: with the first change. Until then the store is only looked at, and nothing in it is
//! written. A request that only reads shares the store with others who do no more; while one is under way that may
//! change something, this process has the store alone.
//!
//! Locks, in this order: one over the number of requests that may change something, held while the store is taken for
//! them; one held while the session begins, so that one begins.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use super::home::HomeUnavailable;
use crate::error::{Error, Result};
use crate::world::store::lock::LockWait;
use crate::world::{
    Meta, ReadOnlyStore, Root, RunId, StoreClaim, StoreFinding, StoreView, SymlinkPolicy,
    ViewOptions, World,
};

/// The interval at which a request that waits for another request checks whether it has to end.
const CANCEL_INTERVAL: Duration = Duration::from_millis(16);

/// The time after a failure to begin a session in which no request tries it again: a line may ask for many changes.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The state that all requests share.
#[derive(Debug)]
pub(super) struct OfflineStore {
    reading: ReadOnlyStore,
    world: OnceLock<World>,
    /// The time at which a session last failed to begin, and the error that commands got.
    refused: Mutex<Option<(Instant, Error)>>,
    /// The number of requests under way that may change something.
    lines: Mutex<usize>,
    /// Held while a file is opened for writing.
    opening: Mutex<()>,
    /// The longest time that a request waits for other users of the store.
    patience: Duration,
}

impl OfflineStore {
    /// Opens a store. These options hide and protect more than its last mount did.
    ///
    /// # Errors
    /// As [`ReadOnlyStore::open`]; [`Error::Refused`] for a pattern that is none.
    pub(super) fn open(
        store: &Path,
        view: ViewOptions,
        patience: Duration,
    ) -> Result<OfflineStore> {
        let narrow = |mounted: ViewOptions| ViewOptions {
            hide: [mounted.hide, view.hide].concat(),
            read_only: [mounted.read_only, view.read_only].concat(),
            symlinks: SymlinkPolicy::Hidden,
            all_symlinks: false,
            list_trash: mounted.list_trash || view.list_trash,
            all_read_only: view.all_read_only,
        };
        let (reading, settled) = ReadOnlyStore::open(store, narrow, patience)?;
        tell(&settled);
        Ok(OfflineStore {
            reading,
            world: OnceLock::new(),
            refused: Mutex::default(),
            lines: Mutex::default(),
            opening: Mutex::default(),
            patience,
        })
    }

    /// Lets one file after the other be opened for writing.
    pub(super) fn opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock()
    }

    /// Returns the resolver of paths.
    pub(super) fn root(&self) -> &Root {
        self.reading.root()
    }

    /// Returns what can be looked at.
    pub(super) fn store_view(&self) -> StoreView<'_> {
        match self.world.get() {
            Some(world) => world.store_view(),
            None => self.reading.store_view(),
        }
    }

    /// Returns attributes as they are shown: links in the trash do not count.
    pub(super) fn shown(&self, meta: Meta) -> Meta {
        let nlink = match self.world.get() {
            Some(world) => world.links_shown(&meta, false),
            None => self.reading.links_shown(&meta),
        };
        Meta { nlink, ..meta }
    }

    /// Returns the world for a change; its session begins with the first.
    pub(super) fn world(&self) -> std::result::Result<&World, HomeUnavailable> {
        if let Some(world) = self.world.get() {
            return Ok(world);
        }
        let mut refused = self.refused.lock();
        if let Some(world) = self.world.get() {
            return Ok(world);
        }
        if let Some((when, error)) = &*refused
            && when.elapsed() < RETRY_AFTER
        {
            return Err(HomeUnavailable {
                reported: error.clone(),
                detail: None,
            });
        }
        match self.begin() {
            Ok(world) => Ok(self.world.get_or_init(|| world)),
            Err(why) => {
                let reported = match &why {
                    Error::Refused { .. } | Error::Damaged(_) => busy(),
                    other => other.clone(),
                };
                *refused = Some((Instant::now(), reported.clone()));
                Err(HomeUnavailable {
                    reported,
                    detail: Some(why),
                })
            }
        }
    }

    /// Takes the store for a request that may change something, and waits for others until the request is `ended`.
    pub(super) fn claim(
        &self,
        ended: &dyn Fn() -> bool,
    ) -> std::result::Result<(), HomeUnavailable> {
        // Another request of this process may be waiting for the store itself.
        let mut lines = loop {
            match self.lines.try_lock_for(CANCEL_INTERVAL) {
                Some(lines) => break lines,
                None if ended() => {
                    return Err(HomeUnavailable {
                        reported: busy(),
                        detail: None,
                    });
                }
                None => {}
            }
        };
        // Not while a session begins: that has taken the claim, and is not known yet.
        let begins = self.refused.lock();
        if self.world.get().is_none() {
            let claimed = self.reading.claim(LockWait::of(self.patience, ended));
            drop(begins);
            match claimed {
                Ok(true) => {}
                // Somebody else has changed it, and what is known of it is old.
                Ok(false) => drop(self.world()?),
                Err(why) => {
                    return Err(HomeUnavailable {
                        reported: busy(),
                        detail: Some(why),
                    });
                }
            }
        }
        *lines += 1;
        Ok(())
    }

    /// Lets the store go, after the last of the requests that may change something.
    pub(super) fn unclaim(&self) {
        let mut lines = self.lines.lock();
        *lines = lines.saturating_sub(1);
        let _begins = self.refused.lock();
        if *lines == 0 && self.world.get().is_none() {
            self.reading.drop_claim();
        }
    }

    /// Tells the world that a run has ended.
    pub(super) fn end_run(&self, id: RunId) {
        if let Some(world) = self.world.get() {
            world.end_run(id);
        }
    }

    fn begin(&self) -> Result<World> {
        let claim = self.reading.take_claim();
        let makes_store = matches!(claim, Some(StoreClaim::Directory(_)));
        match self.begin_with(claim) {
            // Another command found the new store first, and has its lock: it is waited for like any other.
            Err(Error::Refused { .. }) if makes_store => {
                self.reading.claim(self.patience.into())?;
                self.begin_with(self.reading.take_claim())
            }
            begun => begun,
        }
    }

    fn begin_with(&self, claim: Option<StoreClaim>) -> Result<World> {
        let options = self.reading.options();
        let root = self.reading.root().duplicate()?;
        // A directory's own lock is held until the store has one.
        let (located, _directory) = match claim {
            Some(StoreClaim::Store(file)) => (Some(file), None),
            Some(StoreClaim::Directory(file)) => (None, Some(file)),
            None => (None, None),
        };
        match World::begin_session((root, located), options) {
            Ok((world, settled)) => {
                tell(&settled);
                Ok(world)
            }
            Err(error) => {
                self.reading.share_again();
                Err(error)
            }
        }
    }
}

fn tell(settled: &[StoreFinding]) {
    for found in settled {
        log::info!("{found}");
    }
}

/// Returns the error that commands get if the store is not available: `EBUSY`.
fn busy() -> Error {
    Error::os("flock")(Errno::BUSY)
}

impl Drop for OfflineStore {
    fn drop(&mut self) {
        if let Some(world) = self.world.get() {
            world.close();
        }
    }
}
