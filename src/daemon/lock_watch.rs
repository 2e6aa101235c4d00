//! Noticing the loss of the store's lock, where it may be lost.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::fuse::SharedState;

/// The interval between looks at the lock.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// Looks at the lock now and then, on a thread of its own, until it is lost or the session ends.
///
/// # Errors
/// Those of starting a thread.
pub(super) fn watch_lock(shared: &Arc<SharedState>) -> Result<()> {
    if !shared.world.may_lose_lock() {
        return Ok(());
    }
    let weak = Arc::downgrade(shared);
    let keeps = move || weak.upgrade().is_some_and(|s| s.world.keeps_lock());
    let check = move || {
        while keeps() {
            std::thread::sleep(CHECK_PAUSE);
        }
    };
    let thread = std::thread::Builder::new().name("lock".to_owned());
    thread
        .spawn(check)
        .map(drop)
        .map_err(|error| Error::io("clone", &error))
}
