//! Files of the host that an operator names: keys, trust, configuration, lists. They lie outside every base.
//!
//! The only place of this room that opens a path of the host. A file is read only where it is a regular one and not
//! longer than it may be, so neither a FIFO nor a device holds anybody up.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, fsync, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::error::{Error, Result, reason};

/// Returns the error for what the system says of a path.
fn failed(path: &Path, errno: Errno) -> Error {
    let what = format!("{}: {}", path.display(), reason(&errno.into()));
    match errno {
        Errno::NOENT | Errno::NOTDIR => Error::Missing {
            what,
            remedy: "Check the path.".to_owned(),
        },
        Errno::EXIST => Error::Conflict {
            what: format!("{}: there is already something", path.display()),
            remedy: "Nothing is overwritten; choose another name or move it away.".to_owned(),
        },
        Errno::LOOP => Error::refused(
            format!("{}: a symbolic link", path.display()),
            "Name the file itself.",
        ),
        Errno::NOSPC | Errno::DQUOT => Error::Os {
            call: "write",
            on: Some(path.display().to_string().into()),
            errno,
        },
        _ => Error::System {
            what,
            remedy: String::new(),
        },
    }
}

fn io_failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| failed(path, Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Opens a regular file for reading.
fn open(path: &Path, more: OFlags) -> Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
    let stat = fstat(&file).map_err(|errno| failed(path, errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file.into(), stat)),
        _ => Err(Error::refused(
            format!("{}: not a regular file", path.display()),
            "Name a file.",
        )),
    }
}

fn read_from(file: File, path: &Path, limit: usize) -> Result<Option<Zeroizing<Vec<u8>>>> {
    // With this capacity, reading never moves what has been read, which would leave a copy in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit.min(1 << 20).saturating_add(2)));
    let at_most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(at_most)
        .read_to_end(&mut bytes)
        .map_err(io_failed(path))?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

fn too_long(path: &Path, limit: usize) -> Error {
    Error::refused(
        format!("{}: more than {limit} bytes", path.display()),
        "It is not what it should be.",
    )
}

/// Reads a regular file; `None` if it has more than `limit` bytes.
///
/// # Errors
/// It is absent, no regular file, or cannot be read.
pub fn read_at_most(path: &Path, limit: usize) -> Result<Option<Vec<u8>>> {
    let (file, _) = open(path, OFlags::empty())?;
    let read = read_from(file, path, limit)?;
    Ok(read.map(|mut bytes| std::mem::take(&mut *bytes)))
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// It is absent, no regular file, too long, or cannot be read.
pub fn read(path: &Path, limit: usize) -> Result<Vec<u8>> {
    read_at_most(path, limit)?.ok_or_else(|| too_long(path, limit))
}

/// As [`read`], for what nobody but its owner may read: no symbolic link, of the effective user, with mode 0600 or
/// 0400.
///
/// # Errors
/// As [`read`], or it is not so.
pub fn read_secret(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>> {
    let (file, stat) = open(path, OFlags::NOFOLLOW)?;
    let me = rustix::process::geteuid().as_raw();
    if stat.st_uid != me {
        return Err(Error::refused(
            format!(
                "{}: belongs to user {}, not to user {me}",
                path.display(),
                stat.st_uid
            ),
            "A private key belongs to the user who signs with it.",
        ));
    }
    let mode = stat.st_mode & 0o7777;
    if mode != 0o600 && mode != 0o400 {
        return Err(Error::refused(
            format!(
                "{}: has mode {mode:04o}, so others may have read it",
                path.display()
            ),
            format!(
                "If nobody has: chmod 600 {}. Else make a new key.",
                path.display()
            ),
        ));
    }
    read_from(file, path, limit)?.ok_or_else(|| too_long(path, limit))
}

/// Reads standard input; `None` if it has more than `limit` bytes.
///
/// # Errors
/// It cannot be read.
pub fn read_stdin(limit: usize) -> Result<Option<Vec<u8>>> {
    let at_most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(at_most)
        .read_to_end(&mut bytes)
        .map_err(io_failed(Path::new("standard input")))?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

/// Makes a file that is not there yet, with these modes, on disk when this returns.
///
/// # Errors
/// Something has the name, or it cannot be written; then there is no such file.
pub fn create(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let file = openat(CWD, path, flags, mode).map_err(|errno| failed(path, errno))?;
    let written = write(file, path, mode, bytes).and_then(|()| sync_directory(path));
    if written.is_err() {
        remove(path);
    }
    written
}

/// Puts a file in the place of another, or of none, in one step: a reader sees the one or the other.
///
/// # Errors
/// It cannot be written; the other is then as it was.
pub fn replace(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    // What a process of the same number left behind; the file is this process's own, never one that was put there.
    remove(&new);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let file = openat(CWD, &new, flags, mode).map_err(|errno| failed(&new, errno))?;
    let written = write(file, &new, mode, bytes)
        .and_then(|()| renameat(CWD, &new, CWD, path).map_err(|errno| failed(path, errno)));
    match written {
        Ok(()) => sync_directory(path),
        Err(error) => {
            remove(&new);
            Err(error)
        }
    }
}

/// Removes a file that this process has just made. A failure leaves it, which harms nobody.
pub fn remove(path: &Path) {
    let _ = unlinkat(CWD, path, rustix::fs::AtFlags::empty());
}

fn write(file: OwnedFd, path: &Path, mode: Mode, bytes: &[u8]) -> Result<()> {
    // The umask may have taken bits away.
    fchmod(&file, mode).map_err(|errno| failed(path, errno))?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(io_failed(path))?;
    fsync(&file).map_err(|errno| failed(path, errno))
}

/// Returns the directory that a file lies in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn sync_directory(path: &Path) -> Result<()> {
    let dir = directory_of(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, dir, flags, Mode::empty()).map_err(|errno| failed(dir, errno))?;
    fsync(&opened).map_err(|errno| failed(dir, errno))
}

/// The lock of a directory, which is released when this is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _dir: OwnedFd,
}

/// Waits until nobody else who asks for it works in the directory of a file, and keeps others waiting.
///
/// # Errors
/// There is no such directory, or it cannot be locked.
pub fn lock_directory_of(path: &Path) -> Result<DirectoryLock> {
    let dir = directory_of(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, dir, flags, Mode::empty()).map_err(|errno| failed(dir, errno))?;
    rustix::fs::flock(&opened, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|errno| failed(dir, errno))?;
    Ok(DirectoryLock { _dir: opened })
}

/// Returns the path without links, of something that is there.
///
/// # Errors
/// It is absent.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(io_failed(path))
}

/// The identity of the file that a path leads to: its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

/// Returns what a path leads to, and whether it is a directory.
///
/// # Errors
/// It is absent.
pub fn identity(path: &Path) -> Result<(FileIdentity, bool)> {
    let stat = rustix::fs::statat(CWD, path, rustix::fs::AtFlags::empty())
        .map_err(|errno| failed(path, errno))?;
    let identity = FileIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok((identity, is_directory))
}

/// Makes a directory that its owner alone may enter, or checks that there is one.
///
/// # Errors
/// It cannot be made, belongs to somebody else, or others may enter it.
pub fn private_directory(path: &Path) -> Result<()> {
    match mkdirat(CWD, path, Mode::from_raw_mode(0o700)) {
        Ok(()) => return sync_directory(path),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(path, errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, path, flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
    let stat = fstat(&opened).map_err(|errno| failed(path, errno))?;
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid != rustix::process::geteuid().as_raw() || mode & 0o077 != 0 {
        return Err(Error::refused(
            format!(
                "{}: belongs to user {}, with mode {mode:04o}",
                path.display(),
                stat.st_uid
            ),
            format!(
                "It has to belong to the user who runs tasks, and to nobody else: chmod 700 {}.",
                path.display()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("f"), dir.path().join("other"));
        fs::write(&other, "other").unwrap();
        let new = dir.path().join(format!("f.{}.new", std::process::id()));
        for left in ["nothing", "a file", "a link"] {
            match left {
                "a file" => fs::write(&new, "a longer text than the next").unwrap(),
                "a link" => symlink(&other, &new).unwrap(),
                _ => {}
            }
            replace(&file, 0o640, left.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), left);
            assert_eq!(
                fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
                0o640
            );
        }
        // The name itself is replaced, and not what it leads to.
        fs::remove_file(&file).unwrap();
        symlink(&other, &file).unwrap();
        replace(&file, 0o600, b"new").unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
        assert_eq!(fs::read(&other).unwrap(), b"other");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert!(replace(&dir.path().join("none/f"), 0o600, b"").is_err());
    }

    #[test]
    fn no_more_is_read_than_there_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert!(
            read(&file, 4)
                .unwrap_err()
                .full_message()
                .contains("more than 4 bytes")
        );
        assert_eq!(read_at_most(&file, 4).unwrap(), None);
        for device in ["/dev/zero", "/dev/null"] {
            assert!(
                read(Path::new(device), 4)
                    .unwrap_err()
                    .full_message()
                    .contains("not a regular file")
            );
        }
        // 100 MB that nobody reads.
        fs::File::create(&file)
            .unwrap()
            .set_len(100_000_000)
            .unwrap();
        assert!(read(&file, 65536).is_err());
    }

    #[test]
    fn a_private_directory_is_made_or_must_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        for _ in 0..2 {
            private_directory(&own).unwrap();
            assert_eq!(
                fs::metadata(&own).unwrap().permissions().mode() & 0o7777,
                0o700
            );
        }
        for mode in [0o710, 0o701, 0o755, 0o777] {
            fs::set_permissions(&own, fs::Permissions::from_mode(mode)).unwrap();
            assert!(
                private_directory(&own)
                    .unwrap_err()
                    .full_message()
                    .contains("chmod 700"),
                "{mode:o}"
            );
        }
        fs::write(dir.path().join("f"), "").unwrap();
        assert!(private_directory(&dir.path().join("f")).is_err());
        assert!(private_directory(&dir.path().join("none/own")).is_err());
    }
}
