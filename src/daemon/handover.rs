//! From one daemon to the next: a mount waits for the end of the daemon before it, an unmount for that of its own.
//!
//! When a home is unmounted its daemon still has to finish what an operator asked for, to write the end of its journal and to
//! let the store go. Nobody who mounts at once shall be told that the store is being served. And because numbers of mounts and
//! devices are used again at once, a daemon that ends must not take what comes after it for its own: the directory that a home
//! covers is locked (`flock(2)`) by its daemon, from before it is mounted until the process has ended.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::error::{Error, Result};
use crate::mounts::{registry, table};
use crate::operator::Store;
use crate::world::state::{Holder, boot_id};

/// How long a mount waits for the end of the daemon before it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an unmount waits for the end of its own.
const LONG: Duration = Duration::from_secs(20);
/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the directory that is to become a home, for as long as the descriptor lives: waits until the daemon of an earlier
/// mount of it has ended. `None` where the directory may not be read, or its file system has no such locks.
///
/// # Errors
/// [`Error::Refused`] where somebody else mounted a home there meanwhile, or that daemon does not end.
pub(super) fn claim(home: &Path) -> Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(home, flags, Mode::empty()) else {
        return Ok(None);
    };
    let end = Instant::now() + PATIENCE;
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
        std::thread::sleep(PAUSE);
    }
    Err(Error::refused(
        format!(
            "{} has been unmounted, but the daemon of that mount has not ended",
            home.display()
        ),
        WHY_IT_LASTS,
    ))
}

const WHY_IT_LASTS: &str = "It finishes what an operator asked for, and it lasts as long as programs use a home that was unmounted with --lazy, or a \
     mount namespace (a container?) has a copy of it. Wait for them, or end them.";

/// Waits until a daemon whose home has been unmounted lets the store go. Any other holder is the world's to refuse.
///
/// # Errors
/// [`Error::Refused`] where it does not within a while.
pub(super) fn wait_for_store(store: &Path) -> Result<()> {
    // What is no store yet nobody holds.
    let Ok(store) = Store::open(store) else {
        return Ok(());
    };
    let end = Instant::now() + PATIENCE;
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
                WHY_IT_LASTS,
            ));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns whether a daemon of this machine has a home no more.
fn is_ending(holder: &Holder) -> bool {
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
        None => true,
        // Another home at the same place.
        Some(mounted) => registry::find(&mounted.device).is_some_and(|e| e.pid != holder.pid),
    }
}

/// Waits until the daemon of a home that has just been unmounted has let its store go and ended. Returns whether it has; it
/// need not be our child, so it is waited for by its pidfd.
pub fn wait_for_end(entry: &registry::MountInfo) -> bool {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    // Where the store says that somebody else has it, or nobody, the daemon has ended, whatever its number means by now.
    if let Ok(store) = Store::open(&entry.store())
        && let (Ok(served), Ok(Some(holder))) = (store.is_served(), store.holder())
        && (!served || holder.pid != entry.pid)
    {
        return true;
    }
    let pid = i32::try_from(entry.pid).ok().and_then(Pid::from_raw);
    let Some(Ok(fd)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return true;
    };
    let mut waiting = [rustix::event::PollFd::new(
        &fd,
        rustix::event::PollFlags::IN,
    )];
    let end = Instant::now() + LONG;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match rustix::event::poll(&mut waiting, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}
