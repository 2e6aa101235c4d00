//! A test of the store's file system, before anything else is done on it.
//!
//! Owns the list of requirements: moves that replace nothing and exchanges, which every removal and replacement needs;
//! modes, which keep others out of the state directory; and names that differ in every byte, by which `.trash`,
//! `.trumanfs` and the patterns of an operator are known. The test uses names of its own in the state directory, under
//! the store's lock, and removes them afterwards.

use std::os::fd::BorrowedFd;

use rustix::fs::{Access, AtFlags, FileType, IFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::root::{Root, open_beneath, stat_fd};
use trumanfs_types::meta::Meta;

/// The names used by the test.
const TRIED: [&str; 2] = ["tried.1", "tried.2"];

/// Names that some file systems take for the same, and their difference.
const ALIKE: [(&str, &str, &str); 2] = [
    ("tried.1", "TRIED.1", "upper and lower case"),
    (
        "tried.\u{e9}",
        "tried.e\u{301}",
        "the form of a letter (NFC and NFD)",
    ),
];

/// `FS_CASEFOLD_FL` of linux/fs.h.
const CASEFOLD: IFlags = IFlags::from_bits_retain(0x4000_0000);

/// `FUSE_SUPER_MAGIC` of linux/magic.h.
const FUSE: u64 = 0x6573_5546;

/// File systems of this machine alone, which do not lose a lock: the numbers of linux/magic.h for ext2 to ext4, xfs,
/// btrfs, tmpfs, f2fs, bcachefs and ZFS.
const LOCAL: [u64; 7] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
];

/// Tests the file system of a state directory; `made` is true if the directory is new.
///
/// # Errors
/// [`Error::Refused`] naming what is missing; any error from the system calls.
pub(in crate::world) fn check_file_system(state: BorrowedFd<'_>, made: bool) -> Result<()> {
    if made {
        keeps_modes(&stat_fd(state)?)?;
    }
    try_renames(state)?;
    keeps_names_apart(state)
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
                Err(Errno::NOENT) => Err(missing_flag_error(RenameFlags::EXCHANGE)),
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
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(missing_flag_error(how)),
        Err(errno) => Err(Error::os("renameat2")(errno)),
    }
}

fn missing_flag_error(flag: RenameFlags) -> Error {
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

/// Checks that the file system keeps different names apart.
fn keeps_names_apart(state: BorrowedFd<'_>) -> Result<()> {
    for (name, other, differ) in ALIKE {
        let _ = rustix::fs::unlinkat(state, name, AtFlags::empty());
        match make(state, name) {
            Ok(()) => {}
            // A full disk is reported later; a name that the file system does not take is no danger.
            Err(_) => continue,
        }
        let is_one = rustix::fs::accessat(state, other, Access::EXISTS, AtFlags::empty()).is_ok();
        let _ = rustix::fs::unlinkat(state, name, AtFlags::empty());
        if is_one {
            return Err(names_fold("the store's file system", differ));
        }
    }
    Ok(())
}

fn names_fold(what: &str, differ: &str) -> Error {
    Error::refused(
        format!("{what} takes names for one that differ in {differ}"),
        "What a pattern hides or protects, and .trash and .trumanfs, would be reached by another spelling. Put the store on a file \
         system or into a directory that tells them apart (on ext4 and f2fs, one without `chattr +F`).",
    )
}

/// Checks, for a mount with patterns, that no directory of the store ignores case: on some file systems (ext4, f2fs,
/// tmpfs with the feature casefold) each directory can be set to do so. Walks through the store only on such a file
/// system.
///
/// # Errors
/// [`Error::Refused`] naming the directory.
pub(in crate::world) fn expect_no_case_folding(root: &Root, state: BorrowedFd<'_>) -> Result<()> {
    if !may_fold(state) {
        return Ok(());
    }
    let mut pending = vec![WorldPath::root()];
    while let Some(path) = pending.pop() {
        let Ok(dir) = root.dir(&path) else {
            continue;
        };
        let Ok(fd) = root.read_dir(&dir) else {
            continue;
        };
        if rustix::fs::ioctl_getflags(&fd).is_ok_and(|flags| flags.contains(CASEFOLD)) {
            return Err(names_fold(
                &format!("the directory {path}"),
                "upper and lower case",
            ));
        }
        for entry in rustix::fs::Dir::read_from(&fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            if let Ok(name) = Name::new(entry.file_name().to_bytes())
                && matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
            {
                pending.push(path.join(name));
            }
        }
    }
    Ok(())
}

/// Returns whether directories of this file system can be set to ignore case, by setting one.
fn may_fold(state: BorrowedFd<'_>) -> bool {
    let [name, _] = TRIED;
    if rustix::fs::mkdirat(state, name, Mode::RWXU).is_err() {
        return false;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folds = open_beneath(state, name.as_bytes(), flags, Mode::empty()).and_then(|dir| {
        let flags = rustix::fs::ioctl_getflags(&dir).map_err(Error::os("ioctl"))?;
        rustix::fs::ioctl_setflags(&dir, flags | CASEFOLD).map_err(Error::os("ioctl"))
    });
    let _ = rustix::fs::unlinkat(state, name, AtFlags::REMOVEDIR);
    folds.is_ok()
}

fn file_system_magic(of: BorrowedFd<'_>) -> Option<u64> {
    let found = rustix::fs::fstatfs(of).ok()?;
    u64::try_from(found.f_type).ok()
}

/// Returns whether a lock on this file system may be lost without an act of its holder: on a network's file system, or
/// one in user space.
pub(in crate::world) fn may_lose_locks(state: BorrowedFd<'_>) -> bool {
    file_system_magic(state).is_none_or(|kind| !LOCAL.contains(&kind))
}

/// Returns whether the file system is one in user space.
pub(in crate::world) fn is_fuse(state: BorrowedFd<'_>) -> bool {
    file_system_magic(state) == Some(FUSE)
}

/// Returns the notice about a file system that does not report files' times of birth.
pub(in crate::world) fn weak_identity(state: BorrowedFd<'_>) -> Result<Option<String>> {
    if stat_fd(state)?.born != 0 {
        return Ok(None);
    }
    let known = "the store's file system does not say when a file was made, so a removed file is known by its number alone";
    Ok(Some(if is_fuse(state) {
        format!(
            "{known}. If the numbers change when that file system is mounted again (FUSE without use_ino), nothing \
             from before can be taken back then: mount it with `-o use_ino` if it has that, or put the store elsewhere"
        )
    } else {
        known.to_owned()
    }))
}
