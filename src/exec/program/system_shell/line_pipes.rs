//! The pipes of lines: FIFOs in a directory that a sandbox shows read-only. Those of the output are new for each line, so
//! that what a line has left running in the background writes to the pipes of that line and of no later one.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, Uid};

use super::script::{PIPES, REPORT};
use crate::exec::program::sandbox::{PlacedKind, PlacedMount};
use crate::world::RunId;

/// The beginning of the names of such directories.
const PREFIX: &str = "trumanfs-shell-";

/// The age from which a directory that is not locked is nobody's. One that is being made is not locked yet.
const UNLOCKED_LIMIT: Duration = Duration::from_secs(60);

/// A directory with the pipes of one shell. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct PipeDirectory {
    path: PathBuf,
    dir: OwnedFd,
    owner: (u32, u32),
    /// The number of the next line.
    next: u64,
}

/// The pipes of one line.
#[derive(Debug)]
pub(super) struct LinePipes {
    /// The beginning of their names.
    pub(super) name: String,
    /// Its output and its errors.
    pub(super) streams: [LinePipe; 2],
}

/// A pipe by which something comes from a shell.
#[derive(Debug)]
pub(super) struct LinePipe {
    /// The end to read, which does not block.
    pub(super) read: OwnedFd,
    /// An end to write: until this is closed, the pipe does not look as if everybody had closed it.
    pub(super) held: OwnedFd,
}

impl PipeDirectory {
    /// Makes one for a shell that runs as this user. Those of processes that were killed are removed.
    ///
    /// # Errors
    /// Errors of `mkdir(2)`, `chown(2)` and `open(2)`.
    pub(super) fn new(owner: (u32, u32)) -> std::io::Result<PipeDirectory> {
        let parent = std::env::temp_dir();
        remove_forsaken(&parent);
        let path = parent.join(format!("{PREFIX}{}", RunId::random()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let opened = open_locked(&path, FlockOperation::LockShared);
        let dir = opened.inspect_err(|_| {
            let _ = std::fs::remove_dir(&path);
        })?;
        let made = PipeDirectory {
            path,
            dir,
            owner,
            next: 0,
        };
        if made.is_for_another() {
            let (uid, gid) = owner;
            rustix::fs::fchown(
                &made.dir,
                Some(Uid::from_raw(uid)),
                Some(Gid::from_raw(gid)),
            )?;
        }
        Ok(made)
    }

    /// Returns whether the shell runs as another user than this process, which only root can bring about.
    fn is_for_another(&self) -> bool {
        rustix::process::geteuid().as_raw() != self.owner.0
    }

    /// Returns the directory, for a sandbox.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn placed(&self) -> rustix::io::Result<PlacedMount> {
        Ok(PlacedMount {
            source: rustix::io::fcntl_dupfd_cloexec(&self.dir, 0)?,
            path: PathBuf::from(PIPES),
            kind: PlacedKind::ReadOnly,
        })
    }

    /// Makes the pipe by which the shell reports the ends of its lines.
    ///
    /// # Errors
    /// Errors of `mknod(2)`, `chown(2)` and `open(2)`.
    pub(super) fn make_report(&self) -> rustix::io::Result<LinePipe> {
        self.make_pipe(REPORT)
    }

    /// Makes the pipes of the next line.
    ///
    /// # Errors
    /// Errors of `mknod(2)`, `chown(2)` and `open(2)`.
    pub(super) fn make_pipes(&mut self) -> rustix::io::Result<LinePipes> {
        let name = self.next.to_string();
        self.next += 1;
        let pipe = |end: &str| self.make_pipe(&format!("{name}.{end}"));
        let pipes = (|| {
            Ok(LinePipes {
                streams: [pipe("out")?, pipe("err")?],
                name: name.clone(),
            })
        })();
        pipes.inspect_err(|_| self.remove_names(&name))
    }

    fn make_pipe(&self, file: &str) -> rustix::io::Result<LinePipe> {
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(&self.dir, file, FileType::Fifo, mode, 0)?;
        if self.is_for_another() {
            let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&self.dir, file, Some(uid), Some(gid), flags)?;
        }
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.dir, file, flags, Mode::empty());
        Ok(LinePipe {
            read: open(flags | OFlags::RDONLY | OFlags::NONBLOCK)?,
            held: open(flags | OFlags::WRONLY)?,
        })
    }

    /// Removes the names of a line's pipes: who has them open keeps them, and nobody else can open them.
    pub(super) fn remove_names(&self, name: &str) {
        for end in ["out", "err"] {
            let file = format!("{name}.{end}");
            let _ = rustix::fs::unlinkat(self.dir.as_fd(), file, AtFlags::empty());
        }
    }
}

impl Drop for PipeDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories that this user's processes have left which were killed: nobody has those locked.
fn remove_forsaken(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let Ok(listed) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in listed.flatten() {
        let name = entry.file_name();
        if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        // Where anybody may make one, its name alone says nothing.
        let Ok(meta) = std::fs::symlink_metadata(entry.path()) else {
            continue;
        };
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        let is_old = age.is_some_and(|age| age > UNLOCKED_LIMIT);
        let is_ours = meta.is_dir() && (meta.uid() == own || own == 0);
        let is_free = || open_locked(&entry.path(), FlockOperation::NonBlockingLockExclusive);
        if is_old && is_ours && is_free().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Opens a directory and locks it.
fn open_locked(path: &Path, lock: FlockOperation) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    rustix::fs::flock(&dir, lock)?;
    Ok(dir)
}
