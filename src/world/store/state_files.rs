//! Safe opening of files in the state directory. Another user may have prepared them: a cloned repository or an
//! unpacked archive can contain a `.trumanfs`.
//!
//! Owns the criteria for files made by this program. Directories are entered one beneath the other and through no link.
//! A file must be a regular one, because a FIFO would block and a device would act. A file to be written must have no
//! second name, which could be anywhere on the same file system.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::root::{Root, open_beneath, stat_at, stat_fd};
use crate::world::store::layout::{GIT_IGNORE, STATE, TRASH};
use trumanfs_types::meta::Meta;

/// Checks that one of the users `uids` can have created this directory: it must belong to that user and be closed to
/// all others.
///
/// # Errors
/// [`Error::Refused`] with the remedy.
pub(in crate::world) fn expect_made_by(name: &[u8], meta: &Meta, uids: &[u32]) -> Result<()> {
    let mode = meta.permissions();
    if uids.contains(&meta.uid) && mode & 0o777 == 0o700 {
        return Ok(());
    }
    let name = crate::name::escape(name);
    Err(Error::refused(
        format!(
            "{name} in the store was not made by a mount of this user: it belongs to user {} and has mode {mode:04o}",
            meta.uid
        ),
        format!(
            "If the store is that user's, work on it as that user. If {name} came along with the files (a clone, an archive), \
             move it away: what it says may be anything. If it is known to be this store's own, give it to user {} (chown) and \
             close it to others (chmod 700).",
            rustix::process::geteuid().as_raw()
        ),
    ))
}

/// Gives one of the store's own directories to the user that acts on the store, if that is not this process's.
///
/// # Errors
/// As `fchownat(2)`.
pub(in crate::world) fn give_to(dir: BorrowedFd<'_>, owner: Option<(u32, u32)>) -> Result<()> {
    let Some((uid, gid)) = owner else {
        return Ok(());
    };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::fs::chownat(dir, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
        .map_err(Error::os("fchownat"))
}

/// Gives a store's own directories to the owners of another store's: root may have made the first as a fork of a user's
/// store. No other user may be able to change anything in it yet.
///
/// # Errors
/// As `fchownat(2)`; those of listing the directories.
pub fn give_to_owners_of(made: &Root, other: &Root) -> Result<()> {
    for name in [STATE, TRASH] {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = Name::new(name)?;
        let owner = |of: &Root| {
            let meta = of.with_top_access(|| stat_at(of.state_place(), at))?;
            Ok((meta.uid, meta.gid))
        };
        let (now, owner) = match (owner(made), owner(other)) {
            (Err(Error::NotFound), _) | (_, Err(Error::NotFound)) => continue,
            (now, owner) => (now?, owner?),
        };
        if now == owner {
            continue;
        }
        let mut waiting = vec![open_beneath(
            made.state_place(),
            name,
            flags,
            Mode::empty(),
        )?];
        while let Some(dir) = waiting.pop() {
            for entry in rustix::fs::Dir::read_from(&dir).map_err(Error::os("getdents64"))? {
                let entry = entry.map_err(Error::os("getdents64"))?;
                let Ok(name) = Name::new(entry.file_name().to_bytes()) else {
                    continue; // `.` and `..`
                };
                if stat_at(dir.as_fd(), name)?.is_dir() {
                    waiting.push(open_beneath(
                        dir.as_fd(),
                        name.bytes(),
                        flags,
                        Mode::empty(),
                    )?);
                    continue;
                }
                let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::chownat(&dir, name.bytes(), Some(uid), Some(gid), flags)
                    .map_err(Error::os("fchownat"))?;
            }
            give_to(dir.as_fd(), Some(owner))?;
        }
    }
    Ok(())
}

/// Opens a file below the state directory.
///
/// # Errors
/// `ENOENT`; [`Error::Refused`] if it is not a regular file, or is to be written and has a second name.
pub fn open(from: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<File> {
    let fixed = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let looked = open_beneath(from, path, OFlags::PATH | fixed, Mode::empty())?;
    let meta = stat_fd(looked.as_fd())?;
    let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    if meta.kind != FileType::RegularFile || (writes && meta.nlink > 1) {
        let what = match meta.kind {
            FileType::RegularFile => "has another name as well, which may be anywhere",
            _ => "is no plain file",
        };
        return Err(Error::refused(
            format!(".trumanfs/{} {what}", crate::name::escape(path)),
            "No mount makes such a thing: it came along with the files of the store. Move .trumanfs away, or put a copy in the \
             place of that file if it is known to be right.",
        ));
    }
    let fixed = fixed | OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = || open_beneath(from, path, flags | fixed, Mode::empty());
    let file = match open() {
        // An inode that became a version when the daemon ended, before it had the mode of one.
        Err(error) if error.errno() == Errno::ACCESS => {
            let mode = Mode::from_raw_mode(meta.permissions() | 0o600);
            rustix::fs::chmodat(from, path, mode, AtFlags::empty()).map_err(|_| error)?;
            open()?
        }
        file => file?,
    };
    if stat_fd(file.as_fd())?.id == meta.id {
        Ok(File::from(file))
    } else {
        Err(Error::NotFound)
    }
}

/// Opens a file below the state directory, creating it if needed.
///
/// # Errors
/// As [`open`].
pub(in crate::world) fn open_or_make(
    from: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> Result<File> {
    loop {
        match open(from, path, flags) {
            Err(Error::NotFound) => {}
            opened => return opened,
        }
        match make(from, path, flags, 0o600) {
            Err(Error::Exists) => {}
            made => return made,
        }
    }
}

/// Creates a file below the state directory.
///
/// # Errors
/// `EEXIST`; any error from `openat2(2)`.
pub(in crate::world) fn make(
    from: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: u32,
) -> Result<File> {
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open_beneath(from, path, flags, Mode::from_raw_mode(mode)).map(File::from)
}

/// The file that keeps git, on the host, from adding the store's own directories.
const FOR_GIT: (&str, &[u8]) = (GIT_IGNORE, b"*\n");

/// Makes git ignore a directory. Nothing depends on the success.
pub(in crate::world) fn hide_from_git(dir: BorrowedFd<'_>) {
    let (name, text) = FOR_GIT;
    let Ok(mut file) = make(dir, name.as_bytes(), OFlags::WRONLY, 0o644) else {
        return;
    };
    if file.write_all(text).is_err() {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
}

/// Returns whether a name in the trash is the file that `hide_from_git` creates: that file is no entry, and absent for
/// the occupant.
pub fn is_git_ignore(dir: &WorldPath, name: &[u8]) -> bool {
    name == FOR_GIT.0.as_bytes() && dir.bytes() == TRASH
}

/// Reads a file of limited size.
///
/// # Errors
/// [`Error::Refused`] if it is longer; any error from `read(2)`.
pub(in crate::world) fn read(file: &File, what: &str, most: u64) -> Result<String> {
    let mut bytes = Vec::new();
    let long = |length: u64| length > most;
    let too_long = || {
        Error::refused(
            format!(".trumanfs/{what} is longer than any mount makes it"),
            "It came along with the files of the store. Move .trumanfs away and mount again.",
        )
    };
    if file.metadata().is_ok_and(|meta| long(meta.len())) {
        return Err(too_long());
    }
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error);
            Error::os("read")(errno.unwrap_or(rustix::io::Errno::IO))
        })?;
    if long(bytes.len() as u64) {
        return Err(too_long());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
