//! An operator's way through what the owner of a store has closed to itself.
//!
//! An ordinary user who mounts a home is also the occupant's user: a `chmod 0` in the home keeps that user from the
//! directory, in the home and in the store. The occupant shall meet that; the operator's verbs shall not be defeated by
//! it. Only the owner can have closed the directory, so the owner can open it.
//!
//! Owns the grant: the owner's missing permission bits, for the length of one system call that they refused; those of the
//! store's own directory, without which nothing in it can be worked on, for as long as it is mounted or worked on. The
//! mode is restored at the end, unless somebody has changed it meanwhile; until then this process shows and records the
//! node's own mode. A process that is killed before that leaves the directory open to its owner, and to nobody else.
//!
//! The lock of what is granted is the innermost one, and is not held over a system call.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// How often a call is tried again while another process grants and takes away the same bits.
const ATTEMPTS: u32 = 20;

/// The permissions by which a store's nodes are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The permission bits as they are: for whatever an occupant asks.
    Permitted,
    /// Also what belongs to this process's user and is closed to it: for an operator.
    Owned,
}

impl Reach {
    /// Returns whether an error is a refusal that a grant may lift.
    pub(super) fn may_open(self, error: &Error) -> bool {
        self == Reach::Owned && error.is_denial()
    }

    /// Carries out a call that needs permission bits of a node; where they refuse it, with those bits granted for that
    /// long.
    ///
    /// # Errors
    /// As `act`.
    pub fn through<T>(self, node: BorrowedFd<'_>, act: impl Fn() -> Result<T>) -> Result<T> {
        let mut done = act();
        for _ in 0..ATTEMPTS {
            match &done {
                Err(error) if self.may_open(error) => {}
                _ => break,
            }
            let granted = Grant::of(node);
            let is_final = matches!(granted, Err(_) | Ok(Some(_)));
            // Without a grant, because the bits are there by now: another operator's grant.
            if granted.is_ok() {
                done = act();
            }
            if is_final {
                break;
            }
        }
        done
    }
}

/// The modes of the nodes that are granted bits at this moment, and those that they have meanwhile, by device and inode.
static GRANTED: Mutex<BTreeMap<(u64, u64), (u32, u32)>> = Mutex::new(BTreeMap::new());

/// Whether there are any: a look at attributes asks that each time.
static ANY: AtomicBool = AtomicBool::new(false);

/// Returns the permission bits that a node has without a grant. `mode` has its type, too.
pub(super) fn mode_of(id: (u64, u64), mode: u32) -> u32 {
    if !ANY.load(Ordering::Acquire) {
        return mode;
    }
    match GRANTED.lock().get(&id) {
        Some((own, wide)) if mode & 0o7777 == *wide => mode & !0o7777 | own,
        _ => mode,
    }
}

/// Notes that a node is given a mode to stay: it is not restored.
pub(super) fn forget(id: (u64, u64)) {
    if ANY.load(Ordering::Acquire) {
        remove(id);
    }
}

fn remove(id: (u64, u64)) -> Option<(u32, u32)> {
    let mut granted = GRANTED.lock();
    let removed = granted.remove(&id);
    ANY.store(!granted.is_empty(), Ordering::Release);
    removed
}

/// Grants the bits that are missing of a directory or a regular file. Returns whether any were.
///
/// # Errors
/// Any error from `fchmodat2(2)`; `EACCES` where a grant would lose something.
pub fn widen(node: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let stat = rustix::fs::fstat(node)?;
    let wanted = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => 0o700,
        FileType::RegularFile => 0o400,
        _ => return Err(Errno::ACCESS),
    };
    let (mode, id) = (stat.st_mode & 0o7777, (stat.st_dev, stat.st_ino));
    let wide = mode | wanted;
    if mode == wide {
        return Ok(false);
    }
    // chmod(2) would take the bit away for good.
    if mode & 0o2000 != 0 && !is_own_group(stat.st_gid) {
        return Err(Errno::ACCESS);
    }
    // Noted first: nobody shall take the wide mode for the node's own.
    let mut granted = GRANTED.lock();
    granted.insert(id, (mode, wide));
    ANY.store(true, Ordering::Release);
    drop(granted);
    set_mode(node, wide).inspect_err(|_| {
        remove(id);
    })?;
    Ok(true)
}

/// Restores the mode of a node that was granted bits, unless somebody has changed it meanwhile.
pub fn narrow(node: BorrowedFd<'_>) {
    let Ok(stat) = rustix::fs::fstat(node) else {
        return;
    };
    if let Some((mode, wide)) = remove((stat.st_dev, stat.st_ino))
        && stat.st_mode & 0o7777 == wide
        && let Err(errno) = set_mode(node, mode)
    {
        log::warn!("the mode {mode:04o} could not be restored: {errno}");
    }
}

/// Permission bits that a node is granted for as long as this lives.
#[derive(Debug)]
pub(super) struct Grant<F: AsFd>(F);

impl<F: AsFd> Grant<F> {
    /// Grants the bits that are missing; `None` where none is.
    ///
    /// # Errors
    /// As [`widen`].
    pub(super) fn of(node: F) -> rustix::io::Result<Option<Grant<F>>> {
        Ok(widen(node.as_fd())?.then(|| Grant(node)))
    }

    /// Ends the grant.
    pub(super) fn end(&self) {
        narrow(self.0.as_fd());
    }
}

impl<F: AsFd> Drop for Grant<F> {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_own_group(gid: u32) -> bool {
    let others = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == gid || others.iter().any(|other| other.as_raw() == gid)
}

fn set_mode(node: BorrowedFd<'_>, mode: u32) -> rustix::io::Result<()> {
    match crate::sys::fd::chmod(node, mode) {
        Err(Errno::NOSYS) => {
            let path = format!("/proc/self/fd/{}", node.as_raw_fd());
            rustix::fs::chmodat(
                CWD,
                path,
                Mode::from_raw_mode(mode),
                rustix::fs::AtFlags::empty(),
            )
        }
        set => set,
    }
}
