//! The store's lock, `flock(2)` on one file: who changes a store has it alone, those who only read share it.
//!
//! What the file says names who had it alone last; who shares it writes nothing. So a lock that cannot be had alone and can
//! be shared is held by readers, whatever the file says.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::own;
use super::state::{Holder, LOCK, read_holder};
use crate::error::{Error, Result};

/// How long somebody who wants the store alone waits for those who read it: most lines of a shell have ended by then.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(2);

/// Opens the lock's file for reading; `None` where the store never had one.
fn file(state: BorrowedFd<'_>) -> Result<Option<File>> {
    match own::open(state, LOCK.as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => Ok(None),
        file => file.map(Some),
    }
}

/// Returns whether somebody has the store alone at this moment: a daemon, or a command that changes it.
///
/// # Errors
/// What `open(2)` and `flock(2)` say.
pub fn is_held(state: BorrowedFd<'_>) -> Result<bool> {
    match file(state)? {
        Some(file) => share(&file).map(|shared| !shared),
        None => Ok(false),
    }
}

/// Takes the lock together with others who read; `None` where the store never had one.
///
/// # Errors
/// [`Error::Refused`] naming who has the store alone; what the system calls say.
pub(super) fn with_readers(state: BorrowedFd<'_>) -> Result<Option<File>> {
    let Some(mut file) = file(state)? else {
        return Ok(None);
    };
    match share(&file)? {
        true => Ok(Some(file)),
        false => Err(held_by(read_holder(&mut file))),
    }
}

/// Takes the lock alone; waits a while for those who read.
///
/// # Errors
/// [`Error::Refused`] naming who has the store alone, or saying that it is being read; what `flock(2)` says.
pub(super) fn alone(file: &mut File) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                return Err(Error::refused(
                    "the store's file system cannot lock files, which keeps a second daemon out",
                    "Put the store on a local file system, or let the file server lock.",
                ));
            }
            Err(errno) => return Err(Error::os("flock")(errno)),
        }
        if !share(file)? {
            return Err(held_by(read_holder(file)));
        }
        let_go(file);
        if Instant::now() > end {
            return Err(Error::refused(
                "a command that only reads has been working on the store for some seconds, and nobody can change it meanwhile",
                "Wait until the `trumanfs exec` or `trumanfs shell` that works on it has ended.",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Lets the lock go.
pub(super) fn let_go(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// Shares the lock, unless somebody has it alone.
pub(super) fn share(file: &File) -> Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(Error::os("flock")(errno)),
    }
}

fn held_by(holder: Option<Holder>) -> Error {
    let Some(holder) = holder else {
        return Error::refused("the store is already being served", "Unmount it first.");
    };
    let home = holder
        .home
        .as_deref()
        .unwrap_or("a command that works on it unmounted");
    Error::refused(
        format!(
            "the store is already being served: {home}, by process {} on {} since {}",
            holder.pid, holder.host, holder.since
        ),
        "Use that home, or end it with `trumanfs umount` there.",
    )
}
