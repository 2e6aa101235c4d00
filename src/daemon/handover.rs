//! The handover between daemons: a mount waits for the end of the previous daemon.
//!
//! After a home is unmounted its daemon still has to finish an operator's change, write the end of its journal and
//! release the store. A mount that follows at once must not be refused because the store is still being served. And
//! because mount and device numbers are reused at once, an ending daemon must not take the next mount for its own:
//! each daemon locks the directory that its home covers (`flock(2)`), from before the mount until its process has
//! ended.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::error::{Error, Result};
use crate::mounts::{registry, table};
use crate::operator::Store;
use crate::world::store::holder::{StoreHolder, boot_id};

/// The time that a mount waits for the end of the previous daemon.
const HANDOVER_LIMIT: Duration = Duration::from_secs(10);
/// The interval between checks.
const CHECK_PAUSE: Duration = Duration::from_millis(5);

/// Locks the directory that is to become a home, for the life of the returned descriptor: waits until the daemon of an
/// earlier mount there has ended. `None` if the directory may not be read, or its file system has no such locks.
///
/// # Errors
/// [`Error::Refused`] if somebody else mounted a home there meanwhile, or that daemon does not end.
pub(super) fn claim(home: &Path) -> Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(home, flags, Mode::empty()) else {
        return Ok(None);
    };
    let end = Instant::now() + HANDOVER_LIMIT;
    let mut taken = false;
    while Instant::now() < end {
        match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(_) => return Ok(None),
            Ok(()) => taken = true,
        }
        if table::find(home).is_some() {
            return Err(table::already_mounted(home));
        }
        if taken {
            return Ok(Some(dir));
        }
        std::thread::sleep(CHECK_PAUSE);
    }
    Err(Error::refused(
        format!(
            "{} has been unmounted, but the daemon of that mount has not ended",
            home.display()
        ),
        HANDOVER_REMEDY,
    ))
}

const HANDOVER_REMEDY: &str = "It finishes what an operator asked for, and it lasts as long as programs use a home that was unmounted with --lazy, or a \
     mount namespace (a container?) has a copy of it. Wait for them, or end them.";

/// Waits until a daemon whose home has been unmounted releases the store. The world refuses any other holder.
///
/// # Errors
/// [`Error::Refused`] if it does not within the time limit.
pub(super) fn wait_for_store(store: &Path) -> Result<()> {
    // A directory that is not a store yet has no holder.
    let Ok(store) = Store::open(store) else {
        return Ok(());
    };
    let end = Instant::now() + HANDOVER_LIMIT;
    while store.is_served()? {
        let Some(holder) = store.holder()?.filter(is_ending) else {
            return Ok(());
        };
        if Instant::now() > end {
            return Err(Error::refused(
                format!(
                    "the store is still being served: {} has been unmounted, but its daemon (process {}) has not ended",
                    holder.home.unwrap_or_default(),
                    holder.pid
                ),
                HANDOVER_REMEDY,
            ));
        }
        std::thread::sleep(CHECK_PAUSE);
    }
    Ok(())
}

/// Returns whether the holder is a daemon of this machine that no longer has a home.
fn is_ending(holder: &StoreHolder) -> bool {
    let here = rustix::system::uname().nodename().to_string_lossy() == holder.host.as_str();
    let Some(home) = holder.home.as_deref().and_then(crate::name::unescape) else {
        return false;
    };
    if !here || holder.boot != boot_id() {
        return false;
    }
    use std::os::unix::ffi::OsStringExt;
    let home = std::path::PathBuf::from(std::ffi::OsString::from_vec(home));
    match table::find(&home) {
        // A home that only sandboxes enter is at no path.
        None => !registry::is_temporary_of_any(&home),
        // Another home is mounted at the same path.
        Some(mounted) => registry::find(&mounted.device).is_some_and(|e| e.pid != holder.pid),
    }
}
