//! A test of the store's file system, before anything else is done on it.
//!
//! Owns the list of requirements: moves that replace nothing and exchanges, of which every removal and replacement is
//! made; and modes, which keep others out of the state directory. The test uses names of its own in the state
//! directory, under the store's lock, and removes them afterwards.

use std::os::fd::BorrowedFd;

use rustix::fs::{Access, AtFlags, FileType, Mode, RenameFlags};
use rustix::io::Errno;

use super::meta::Meta;
use super::root::stat_fd;
use crate::error::{Error, Result};

/// The names used by the test.
const TRIED: [&str; 2] = ["tried.1", "tried.2"];

/// Tests the file system of a state directory; `made` is whether the directory is new.
///
/// # Errors
/// [`Error::Refused`] naming what is missing; any error from the system calls.
pub(super) fn fit(state: BorrowedFd<'_>, made: bool) -> Result<()> {
    if made {
        keeps_modes(&stat_fd(state)?)?;
    }
    try_renames(state)
}

/// Tests the moves that removals and replacements need.
fn try_renames(state: BorrowedFd<'_>) -> Result<()> {
    let clear = || {
        for name in TRIED {
            let _ = rustix::fs::unlinkat(state, name, AtFlags::empty());
        }
    };
    // An earlier test that was killed may have left them.
    clear();
    let [one, two] = TRIED;
    let tried = make(state, one)
        .and_then(|()| rename(state, one, two, RenameFlags::NOREPLACE))
        .and_then(|()| make(state, one))
        .and_then(|()| rename(state, one, two, RenameFlags::EXCHANGE))
        // A file system in user space may accept the flag and ignore it.
        .and_then(
            |()| match rustix::fs::accessat(state, one, Access::EXISTS, AtFlags::empty()) {
                Err(Errno::NOENT) => Err(lacks(RenameFlags::EXCHANGE)),
                looked => looked.map_err(Error::os("access")),
            },
        );
    clear();
    match tried {
        // The same shortage is reported later, more precisely, by the real files.
        Err(Error::Os { errno, .. }) if errno == Errno::NOSPC || errno == Errno::DQUOT => Ok(()),
        tried => tried,
    }
}

fn make(state: BorrowedFd<'_>, name: &str) -> Result<()> {
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(state, name, FileType::RegularFile, mode, 0).map_err(Error::os("mknodat"))
}

fn rename(state: BorrowedFd<'_>, from: &str, to: &str, how: RenameFlags) -> Result<()> {
    match rustix::fs::renameat_with(state, from, state, to, how) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(lacks(how)),
        Err(errno) => Err(Error::os("renameat2")(errno)),
    }
}

fn lacks(flag: RenameFlags) -> Error {
    let (flag, made) = match flag {
        RenameFlags::EXCHANGE => ("RENAME_EXCHANGE", "replacements"),
        _ => ("RENAME_NOREPLACE", "removals"),
    };
    Error::refused(
        format!("the store's file system cannot do {flag}, of which {made} are made"),
        "Put the store on one that can: ext4, xfs, btrfs or tmpfs. NFS, sshfs, GlusterFS, 9p and bindfs cannot.",
    )
}

/// Checks that a directory made with mode 0700 has that mode.
fn keeps_modes(made: &Meta) -> Result<()> {
    match made.mode & 0o777 {
        0o700 => Ok(()),
        other => Err(Error::refused(
            format!(
                "the store's file system keeps no modes: a directory made with 0700 has {other:04o}"
            ),
            "Others could read and change the journal. Put the store on ext4, xfs, btrfs or tmpfs.",
        )),
    }
}
