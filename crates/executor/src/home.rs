//! What a command can do to files: [`Home`], a dozen operations by path.
//!
//! A path is resolved anew by each operation, from the root's descriptor, beneath it, through no link. Whoever swaps a
//! directory for a link between two operations makes the second one fail with `ENOENT`. What is no regular file and no
//! directory, a FIFO say, can be seen, moved and removed, and is never opened.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::cancel::{Cancel, Ended};
use trumanfs_types::attrs::SetAttrs;
use trumanfs_types::error::{Error, Result};
use trumanfs_types::meta::Meta;
use trumanfs_types::name::WorldPath;
use trumanfs_types::origin::Run;

/// How often a file that comes and goes at the hands of others is looked for before it is said to be absent.
pub const TRIES: usize = 32;

/// Returns the text of an errno, as strerror(3) in the C locale. Anything refused counts as absent.
pub fn reason(errno: Errno) -> String {
    let errno = match errno {
        Errno::ACCESS | Errno::PERM => Errno::NOENT,
        errno => errno,
    };
    trumanfs_types::error::reason(&errno.into())
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its kind; never `Unknown`, never a symlink.
    pub kind: FileType,
    /// Its inode number.
    pub ino: u64,
}

/// How a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// It is emptied, or made (`O_TRUNC`).
    Truncate,
    /// What is written goes to its end; it may be made (`O_APPEND`).
    Append,
    /// It is made, and must not be there (`O_EXCL`).
    New,
}

impl Writing {
    /// Returns the flags of open(2) that say so; `O_CREAT` is understood.
    pub fn flags(self) -> OFlags {
        OFlags::WRONLY
            | match self {
                Writing::Truncate => OFlags::TRUNC,
                Writing::Append => OFlags::APPEND,
                Writing::New => OFlags::EXCL,
            }
    }

    /// Returns what the answer is where a directory stands there.
    pub fn onto_directory(self) -> Error {
        match self {
            Writing::Truncate | Writing::Append => Error::IsDirectory,
            Writing::New => Error::Exists,
        }
    }
}

/// What a home is told of a request that begins.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'r> {
    /// The run that it is.
    pub run: &'r Run,
    /// Whether it may change something.
    pub changes: bool,
    /// What ends a wait for the home, where anything does: somebody's word. The request's own time has not begun.
    pub cancel: Option<&'r Cancel>,
}

impl Beginning<'_> {
    /// Returns whether somebody has ended the request.
    pub fn is_cancelled(&self) -> bool {
        let ended = self.cancel.and_then(Cancel::ended);
        ended == Some(Ended::Cancelled)
    }
}

/// Why a home cannot be had for changing.
#[derive(Debug, Clone)]
pub struct Unavailable {
    /// What commands hear of it.
    pub heard: Error,
    /// The whole of it, with the remedy; nothing where that has been told lately.
    pub why: Option<Error>,
}

/// A home, as commands see it.
///
/// # Errors
/// Those of the system call each method is named after, as the home answers them; `ENOENT` for all that is hidden,
/// outside, or behind a link.
pub trait Home: Send + Sync {
    /// Begins a request. Returns the home as this request works in it; the request ends when that is dropped. A home
    /// that is shared with others waits for them here, and not in the middle of a request that changes something.
    ///
    /// # Errors
    /// Why the home cannot be had for changing.
    fn begin(
        self: Arc<Self>,
        request: &Beginning<'_>,
    ) -> std::result::Result<Arc<dyn Home>, Unavailable>;

    /// Does a part of this request that may change something, on this thread: what the thread changes belongs to the
    /// run meanwhile.
    fn work(&self, part: &mut dyn FnMut()) {
        part();
    }

    /// Has a program work for this request: a process, with all that share its PID namespace. To be said before the program does
    /// anything.
    fn add_program(&self, process: u32) {
        let _ = process;
    }

    /// Notes that the programs have ended, and whether they have changed something.
    fn programs_have_ended(&self) {}

    /// Returns, once, why what this request changes does not belong to its run.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns whether this request has changed something, or opened a file to.
    fn has_changed(&self) -> bool;

    /// Returns, once, why this request could not change anything, with the remedy: commands hear an errno of it.
    fn unavailable(&self) -> Option<Error> {
        None
    }

    /// Returns the attributes of what is there (lstat(2)).
    fn stat(&self, path: &WorldPath) -> Result<Meta>;

    /// Returns the attributes of entries of one directory, in the order in which they are named: one operation, so that
    /// the directory is found once.
    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>>;

    /// Opens a regular file for reading; `EISDIR` for a directory, `EINVAL` for what is neither.
    fn open(&self, path: &WorldPath) -> Result<File>;

    /// Opens a regular file for writing, and makes it with this mode where it is absent. The umask of the process
    /// applies.
    fn open_write(&self, path: &WorldPath, how: Writing, mode: u32) -> Result<File>;

    /// Returns the entries of a directory in no order, without `.` and `..`.
    fn list(&self, path: &WorldPath) -> Result<Vec<DirEntry>>;

    /// Makes a directory. The umask of the process applies.
    fn mkdir(&self, path: &WorldPath, mode: u32) -> Result<()>;

    /// Moves what is no directory into the trash (unlink(2)).
    fn remove(&self, path: &WorldPath) -> Result<()>;

    /// Moves an empty directory into the trash (rmdir(2)).
    fn remove_dir(&self, path: &WorldPath) -> Result<()>;

    /// Moves a directory and all that is in it into the trash, as one entry. Where that takes a step for each thing in
    /// it, it goes on as long as `go_on` says so; else it fails with `EINTR`, and what was removed until then stays
    /// removed.
    fn remove_tree(&self, path: &WorldPath, go_on: &dyn Fn() -> bool) -> Result<()>;

    /// Moves an entry (renameat2(2)); what stands at the new name goes into the trash, or with `replace` false the call
    /// fails with `EEXIST`.
    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()>;

    /// Sets mode, owner and times (chmod(2), chown(2), utimensat(2)); never the size.
    fn set_attrs(&self, path: &WorldPath, change: &SetAttrs) -> Result<()>;
}
