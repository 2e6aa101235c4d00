//! Space and inodes kept free in an unserved store, so that it can be mounted, undone in and purged on a full disk.
//!
//! Owns one file that takes space and several that take an inode each, in the state directory. A session that cannot
//! begin deletes them; a session's end puts them back, from what its journal had reserved. Part of the space is for
//! removals, whose move into the trash may take a block.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::root::open_beneath;
use crate::world::store::layout::{RESERVE, SPACE};
use crate::world::store::state_files;

/// The files that take an inode each. A session needs two directories, a journal, a log and a socket, and only the
/// socket is deleted at its end.
const INODES: [&str; 12] = [
    "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
];
/// The sizes to try: a journal's reserve, some directories, and what xfs needs free before it makes one; smaller ones
/// follow for a disk with less space, and a small disk gives only a part.
const SIZES: [u64; 6] = [
    1024 << 10,
    768 << 10,
    512 << 10,
    320 << 10,
    160 << 10,
    80 << 10,
];
const MAX_DISK_FRACTION: u64 = 16;

/// The number of attempts to use the freed space, and the pause between them.
const MAX_ATTEMPTS: u32 = 8;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);

/// The space never given to removals, and the space given at once: a few blocks for the trash's directory.
const MIN_KEPT_BYTES: u64 = 512 << 10;
const PIECE_BYTES: u64 = 16 << 10;

/// Opens the space file for removals while the store is served. It is opened early, because the threads may have only
/// an owner's rights.
pub(in crate::world) fn open_spare(state: BorrowedFd<'_>) -> Option<File> {
    let path = format!("{RESERVE}/{SPACE}");
    state_files::open(state, path.as_bytes(), OFlags::RDWR).ok()
}

/// Frees a piece of the reserve for a removal that found no space. Returns whether there was one.
pub(in crate::world) fn free_piece(spare: &File) -> bool {
    let Some(left) = spare
        .metadata()
        .ok()
        .and_then(|meta| meta.len().checked_sub(PIECE_BYTES))
    else {
        return false;
    };
    // Ext4 reuses freed blocks only after the commit that frees them.
    left >= MIN_KEPT_BYTES && spare.set_len(left).is_ok() && spare.sync_all().is_ok()
}

/// Sets up the reserve if it is missing. Without it, only work on a full disk suffers.
pub(in crate::world) fn set_up(state: BorrowedFd<'_>) {
    let size = |file: &File| file.metadata().map_or(0, |meta| meta.len());
    let most = SIZES.into_iter().max().unwrap_or_default();
    if open_spare(state).is_some_and(|file| size(&file) == most) {
        return;
    }
    let _ = rustix::fs::mkdirat(state, RESERVE, Mode::RWXU);
    let Ok(dir) = open(state) else { return };
    let make = |name: &str| state_files::open_or_make(dir.as_fd(), name.as_bytes(), OFlags::RDWR);
    if let Ok(file) = make(SPACE) {
        let all = rustix::fs::fstatvfs(&file).map_or(u64::MAX, |fs| fs.f_blocks * fs.f_frsize);
        let flags = FallocateFlags::empty();
        let has = size(&file);
        let takes = |size: &u64| rustix::fs::fallocate(&file, flags, 0, *size).is_ok();
        let wanted = |size: &&u64| **size > has && **size <= all / MAX_DISK_FRACTION;
        let _ = SIZES.iter().filter(wanted).any(takes);
    }
    for name in INODES {
        let _ = make(name);
    }
}

/// Deletes the reserve. Returns whether there was one.
pub(in crate::world) fn release(state: BorrowedFd<'_>) -> bool {
    let Ok(dir) = open(state) else { return false };
    let mut found = false;
    for name in [SPACE].into_iter().chain(INODES) {
        found |= rustix::fs::unlinkat(&dir, name, AtFlags::empty()).is_ok();
    }
    drop(dir);
    let _ = rustix::fs::unlinkat(state, RESERVE, AtFlags::REMOVEDIR);
    found
}

/// Retries an action that found no space, after the reserve was deleted.
///
/// # Errors
/// The error of the retry; `error` if there was no reserve.
pub(in crate::world) fn retry_without_reserve<T>(
    state: BorrowedFd<'_>,
    error: Error,
    mut act: impl FnMut() -> Result<T>,
) -> Result<T> {
    if !release(state) {
        return Err(error);
    }
    // Deleted blocks become free a little later (xfs), or with the next commit (ext4).
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(dir) = open_beneath(state, b".", flags, Mode::empty()) {
        let _ = rustix::fs::syncfs(&dir);
    }
    for _ in 0..MAX_ATTEMPTS {
        match act() {
            Err(error) if is_full(&error) => std::thread::sleep(ATTEMPT_PAUSE),
            other => return other,
        }
    }
    act()
}

fn open(state: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open_beneath(state, RESERVE.as_bytes(), flags, Mode::empty())
}

/// Returns whether an error means that the disk is full.
pub(in crate::world) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Os { errno, .. } if [Errno::NOSPC, Errno::DQUOT].contains(errno))
}
