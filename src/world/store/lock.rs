//! The store's lock, `flock(2)` on one file: exclusive for changing the store, shared for reading it.
//!
//! The file's text names the last session begun. A reader writes nothing, and an exclusive holder writes nothing
//! before its session begins. So an unavailable lock belongs to a daemon only if the file names a live one; any other
//! holder is a command, which ends soon and is waited for.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::sys::locks;
use crate::world::store::holder::{StoreHolder, boot_id, is_for_requests, read_holder};
use crate::world::store::layout::LOCK;
use crate::world::store::state_files;

/// The default time to wait for commands.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause between attempts: the first, and the longest.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(16);

/// The time to wait for other processes that work on the store, and a condition that ends the wait.
#[derive(Clone, Copy)]
pub struct LockWait<'a> {
    time: Duration,
    /// Returns whether the wait has become pointless.
    ended: &'a dyn Fn() -> bool,
}

impl<'a> LockWait<'a> {
    /// Returns a wait of the given time, which ends earlier if `ended` returns true.
    pub fn of(time: Duration, ended: &'a dyn Fn() -> bool) -> LockWait<'a> {
        LockWait { time, ended }
    }
}

impl From<Duration> for LockWait<'_> {
    fn from(time: Duration) -> Self {
        LockWait::of(time, &|| false)
    }
}

/// Opens the lock file; `None` if the store never had one.
fn file(state: BorrowedFd<'_>, access: OFlags) -> Result<Option<File>> {
    match state_files::open(state, LOCK.as_bytes(), access) {
        Err(Error::NotFound) => Ok(None),
        file => file.map(Some),
    }
}

/// Returns whether a daemon or a command that changes the store has the exclusive lock.
///
/// # Errors
/// Any error from `open(2)` or `flock(2)`.
pub fn is_held(state: BorrowedFd<'_>) -> Result<bool> {
    match file(state, OFlags::RDONLY)? {
        Some(file) => share(&file).map(|shared| !shared),
        None => Ok(false),
    }
}

/// Returns the daemon that has the store at this moment, if any. A command is not returned: it ends soon.
///
/// # Errors
/// As [`is_held`].
pub fn serving_daemon(state: BorrowedFd<'_>) -> Result<Option<StoreHolder>> {
    match file(state, OFlags::RDONLY)? {
        Some(mut file) if !share(&file)? => Ok(read_holder(&mut file).filter(is_daemon)),
        _ => Ok(None),
    }
}

/// Takes the shared lock, waiting for a command that has the exclusive one. `None` if the store never had a lock.
///
/// # Errors
/// [`Error::Refused`] naming the exclusive holder; any error from the system calls.
pub(in crate::world) fn take_shared(
    state: BorrowedFd<'_>,
    patience: Duration,
) -> Result<Option<File>> {
    let Some(mut file) = file(state, OFlags::RDONLY)? else {
        return Ok(None);
    };
    wait(
        &mut file,
        patience.into(),
        FlockOperation::NonBlockingLockShared,
    )?;
    Ok(Some(file))
}

/// Takes the exclusive lock for changes to come, waiting for commands. `None` if the store never had a lock.
///
/// # Errors
/// As [`lock_exclusively`].
pub(in crate::world) fn for_changes(
    state: BorrowedFd<'_>,
    patience: LockWait<'_>,
) -> Result<Option<File>> {
    let Some(mut file) = file(state, OFlags::RDWR)? else {
        return Ok(None);
    };
    lock_exclusively(&mut file, patience)?;
    Ok(Some(file))
}

/// Returns the exclusive lock: the one already held, or else a new one, on a file created if needed.
///
/// # Errors
/// As [`lock_exclusively`].
pub(in crate::world) fn take_exclusive(
    state: BorrowedFd<'_>,
    located: Option<File>,
) -> Result<File> {
    let make = || state_files::open_or_make(state, LOCK.as_bytes(), OFlags::RDWR);
    let mut file = located.map_or_else(make, Ok)?;
    lock_exclusively(&mut file, LOCK_TIMEOUT.into())?;
    Ok(file)
}

/// Takes the exclusive lock, waiting for commands.
///
/// # Errors
/// [`Error::Refused`] naming the holder; any error from `flock(2)`.
pub(in crate::world) fn lock_exclusively(file: &mut File, patience: LockWait<'_>) -> Result<()> {
    wait(file, patience, FlockOperation::NonBlockingLockExclusive)
}

/// Locks a directory that never was a store, so that two commands do not turn it into one at the same time.
///
/// # Errors
/// As [`lock_exclusively`].
pub(in crate::world) fn lock_directory(dir: OwnedFd, patience: LockWait<'_>) -> Result<File> {
    let mut file = File::from(dir);
    lock_exclusively(&mut file, patience)?;
    Ok(file)
}

fn wait(file: &mut File, patience: LockWait<'_>, how: FlockOperation) -> Result<()> {
    // A time too long to be added has no end.
    let end = Instant::now().checked_add(patience.time);
    let mut pause = MIN_PAUSE;
    loop {
        match rustix::fs::flock(&*file, how) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(Error::os("flock")(errno)),
        }
        let holder = read_holder(file);
        if let Some(holder) = holder.as_ref().filter(|holder| is_daemon(holder))
            && !is_read(file)?
        {
            return Err(served_error(holder));
        }
        if end.is_some_and(|end| Instant::now() >= end) || (patience.ended)() {
            return Err(busy_error(file, holder.as_ref(), patience.time));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Returns whether the present holders are readers.
fn is_read(file: &File) -> Result<bool> {
    let shared = share(file)?;
    release(file);
    Ok(shared)
}

/// Describes the process that has taken the exclusive lock from a session that had it, if any.
pub(in crate::world) fn lost_to(lock: &File, session: &str) -> Option<String> {
    // A holder that still has the lock gets it at once; one that lost it to no other process gets it again.
    let is_taken =
        rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    let holder = lock
        .try_clone()
        .ok()
        .and_then(|mut file| read_holder(&mut file));
    match holder {
        Some(holder) if holder.session != session => Some(format!(
            "process {} on {} since {}",
            holder.pid, holder.host, holder.since
        )),
        _ if is_taken => Some("another process".to_owned()),
        _ => None,
    }
}

/// Refuses a store that a living daemon of this machine serves although its lock was free: the file system keeps locks
/// for each of its mounts apart, as one in user space may that is mounted twice.
///
/// # Errors
/// [`Error::Refused`] naming the daemon.
pub(in crate::world) fn refuse_unshared(
    before: Option<&StoreHolder>,
    has_ended: impl FnOnce(&str) -> bool,
) -> Result<()> {
    let Some(holder) = before.filter(|holder| is_still_served(holder)) else {
        return Ok(());
    };
    // A session that ended has released the lock.
    if has_ended(&holder.session) {
        return Ok(());
    }
    let (what, _) = served_error(holder).into_words();
    Err(Error::refused(
        format!("{what}, whose lock does not show here"),
        "The file system does not share locks among its mounts, so two daemons would write the store. Use that home, or end it.",
    ))
}

/// Returns whether the daemon that a lock names is alive on this machine, and not another process with its number.
fn is_still_served(holder: &StoreHolder) -> bool {
    let here = rustix::system::uname();
    let is_here = holder.host == here.nodename().to_string_lossy() && holder.boot == boot_id();
    is_here
        && holder.home.is_some()
        && holder.pid != std::process::id()
        && is_alive(holder.pid)
        && crate::sys::process::name(holder.pid).as_deref() == Some("trumanfs")
}

/// Releases the lock.
pub(in crate::world) fn release(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// Takes the shared lock, unless another process has the exclusive one. Returns whether it was taken.
pub(in crate::world) fn share(file: &File) -> Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(Error::os("flock")(errno)),
    }
}

/// Returns whether the holder may be a daemon that serves the store: a live process, or one on another machine, which
/// cannot be checked.
fn is_daemon(holder: &StoreHolder) -> bool {
    let here = rustix::system::uname();
    let here = here.nodename().to_string_lossy();
    holder.home.is_some()
        && (holder.host != here || (holder.boot == boot_id() && is_alive(holder.pid)))
}

fn is_alive(pid: u32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return false;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // A process that has ended and was not waited for yet still has its number.
        Ok(fd) => {
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&at_once)) == Ok(0)
        }
        Err(errno) => errno != Errno::SRCH,
    }
}

fn served_error(holder: &StoreHolder) -> Error {
    if holder.home.as_deref().is_some_and(is_for_requests) {
        return Error::refused(
            format!(
                "the store is mounted for as long as programs run in it, by process {} on {} since {}",
                holder.pid, holder.host, holder.since
            ),
            "Wait for their end. `trumanfs run`, and `exec` and `shell` with --policy, work beside them.",
        );
    }
    Error::refused(
        format!(
            "the store is already being served: {}, by process {} on {} since {}",
            holder.home.as_deref().unwrap_or_default(),
            holder.pid,
            holder.host,
            holder.since
        ),
        "Use that home, or end it with `trumanfs umount` there.",
    )
}

/// Returns whether another process of this program has a lock.
pub(in crate::world) fn is_held_by_another(file: &File) -> bool {
    let is_other = |pid: &u32| {
        let name = crate::sys::process::name(*pid);
        *pid != std::process::id() && name.as_deref() == Some("trumanfs")
    };
    locks::holders(file.as_fd()).iter().any(is_other)
}

/// Returns the error that names the present holder after the wait.
pub(in crate::world) fn busy_error(
    file: &File,
    holder: Option<&StoreHolder>,
    patience: Duration,
) -> Error {
    let mut who: Vec<String> = locks::holders(file.as_fd())
        .iter()
        .map(|pid| format!("process {pid}"))
        .collect();
    if who.is_empty()
        && let Some(holder) = holder.filter(|holder| is_alive(holder.pid))
    {
        who.push(format!(
            "process {} on {} since {}",
            holder.pid, holder.host, holder.since
        ));
    }
    let who = match &who[..] {
        [] => "another command".to_owned(),
        who => format!("another command ({})", who.join(", ")),
    };
    Error::refused(
        format!(
            "{who} is working on the store, and has been for {} s",
            patience.as_secs_f64()
        ),
        "Wait until that `trumanfs exec` or `trumanfs shell` has ended; `--wait SECONDS` waits longer.",
    )
}
