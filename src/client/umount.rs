//! Unmounting a home, and waiting for the end of its daemon.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::Result;
use crate::mounts::unmount::unmount;
use crate::mounts::{registry, table};
use crate::operator::Store;

/// The time for which the end of the daemon is waited for.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Unmounts a home, also one whose daemon has died, and waits until its daemon has ended. `lazy` takes it out of sight
/// at once, although it is in use, and waits for nothing. Returns the daemon's process where that has not ended
/// meanwhile.
///
/// # Errors
/// [`Error::Refused`](crate::error::Error::Refused) where nothing is mounted there, or it is in use.
pub fn umount(home: &Path, lazy: bool) -> Result<Option<u32>> {
    let mounted = table::find(home)
        .ok_or_else(|| table::not_mounted(&table::resolve_without_touching(home)))?;
    let daemon = registry::find(&mounted.device);
    unmount(&mounted.path, lazy)?;
    let daemon = daemon.filter(|daemon| !lazy && !has_ended(daemon));
    Ok(daemon.map(|daemon| daemon.pid))
}

/// Waits until the daemon of a home that has just been unmounted has let its store go and ended. It need not be our
/// child, so it is waited for by its pidfd.
fn has_ended(daemon: &registry::MountInfo) -> bool {
    // Where the store says that somebody else has it, or nobody, the daemon has ended, whatever its number means by
    // now.
    if let Ok(store) = Store::open(&daemon.store())
        && let (Ok(served), Ok(Some(holder))) = (store.is_served(), store.holder())
        && (!served || holder.pid != daemon.pid)
    {
        return true;
    }
    let pid = i32::try_from(daemon.pid).ok().and_then(Pid::from_raw);
    let Some(Ok(fd)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return true;
    };
    let mut waiting = [PollFd::new(&fd, PollFlags::IN)];
    let end = Instant::now() + END_LIMIT;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut waiting, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}
