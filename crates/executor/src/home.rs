//! [`Home`]: the dozen operations by path through which commands reach files.
//!
//! Each operation resolves its path anew, from the root's descriptor, beneath it, through no link. If a directory is
//! swapped for a link between two operations, the second one fails with `ENOENT`. Other kinds of files, a FIFO say, can
//! be seen, moved and removed, and are never opened.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::cancel::{CancelReason, CancelToken};
use trumanfs_types::attrs::SetAttrs;
use trumanfs_types::error::{Error, Result};
use trumanfs_types::meta::Meta;
use trumanfs_types::name::WorldPath;
use trumanfs_types::origin::{Run, RunId};
use trumanfs_types::turn_mark::TurnMark;

/// The number of lookups of a file that others create and remove, before it counts as absent.
pub const MAX_LOOKUPS: usize = 32;

/// Returns the text of an errno, as strerror(3) in the C locale. Anything refused counts as absent.
pub fn reason(errno: Errno) -> String {
    let errno = match errno {
        Errno::ACCESS | Errno::PERM => Errno::NOENT,
        errno => errno,
    };
    trumanfs_types::error::reason(&errno.into())
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The file type; never `Unknown`, never a symlink.
    pub kind: FileType,
    /// The inode number.
    pub ino: u64,
}

/// The mode in which a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// The file is emptied, or created (`O_TRUNC`).
    Truncate,
    /// Writes go to the end; the file may be created (`O_APPEND`).
    Append,
    /// The file is created, and must not exist (`O_EXCL`).
    New,
}

impl WriteMode {
    /// Returns the flags of open(2) for this mode, without `O_CREAT`.
    pub fn flags(self) -> OFlags {
        OFlags::WRONLY
            | match self {
                WriteMode::Truncate => OFlags::TRUNC,
                WriteMode::Append => OFlags::APPEND,
                WriteMode::New => OFlags::EXCL,
            }
    }

    /// Returns the error for a path that is a directory.
    pub fn directory_error(self) -> Error {
        match self {
            WriteMode::Truncate | WriteMode::Append => Error::IsDirectory,
            WriteMode::New => Error::Exists,
        }
    }
}

/// The facts about a request that begins, for the home.
#[derive(Debug, Clone, Copy)]
pub struct RequestStart<'r> {
    /// The run of this request.
    pub run: &'r Run,
    /// True if the request may change something.
    pub changes: bool,
    /// The token that ends a wait for the home, if any. The request's own time has not begun.
    pub cancel: Option<&'r CancelToken>,
}

impl RequestStart<'_> {
    /// Returns whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        let ended = self.cancel.and_then(CancelToken::ended);
        ended == Some(CancelReason::Cancelled)
    }
}

/// The reason for which a home cannot be changed now.
#[derive(Debug, Clone)]
pub struct HomeUnavailable {
    /// The error that commands report.
    pub reported: Error,
    /// The full error, with the remedy; `None` if it was reported shortly before.
    pub detail: Option<Error>,
}

/// A home as commands see it.
///
/// # Errors
/// Those of the system call each method is named after, as the home answers them; `ENOENT` for everything hidden,
/// outside, or behind a link.
pub trait Home: Send + Sync {
    /// Begins a request. Returns the home for this request, which ends when that is dropped. A home that is shared with
    /// others waits for them here, and not in the middle of a request that changes something.
    ///
    /// # Errors
    /// The reason for which the home cannot be changed.
    fn begin(
        self: Arc<Self>,
        request: &RequestStart<'_>,
    ) -> std::result::Result<Arc<dyn Home>, HomeUnavailable>;

    /// Runs a part of this request that may change something, on this thread: the thread's changes belong to the run
    /// meanwhile.
    fn run_part(&self, part: &mut dyn FnMut()) {
        part();
    }

    /// Registers a program of this request: a process, and all that share its PID namespace. Must be called before the
    /// program does anything.
    fn add_program(&self, process: u32) {
        let _ = process;
    }

    /// Begins the run of this request where another one ends, whose programs work for this one from now on. Returns whether
    /// that run has changed something; nothing where this cannot be done.
    fn take_programs(&self, of: RunId) -> Option<bool> {
        let _ = of;
        None
    }

    /// Registers whoever works in the home, but for members of other runs: for a program of this request that shares its PID
    /// namespace with others. Must be called before the program does anything.
    ///
    /// # Errors
    /// [`Error::Conflict`] where they work for another request already.
    fn add_everybody(&self) -> Result<()> {
        Ok(())
    }

    /// Notes that the programs go on beyond the request, and looks up whether they have changed something so far. Until this
    /// is dropped, their changes belong to the request.
    fn programs_go_on(&self) {}

    /// Has a turn begin in the run of this request: its programs say so.
    ///
    /// # Errors
    /// [`Error::Refused`] where the run is not known to whoever keeps its records; those of writing the record.
    fn mark(&self, mark: &TurnMark) -> Result<()> {
        let _ = mark;
        Err(Error::refused("turns of this run are not recorded", ""))
    }

    /// Notes that the programs have ended, and looks up whether they have changed something.
    fn programs_have_ended(&self) {}

    /// Returns, once, the reason for which the changes of this request do not belong to its run.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns whether this request has changed something, or opened a file for writing.
    fn has_changed(&self) -> bool;

    /// Returns, once, the error for which this request could not change anything, with the remedy: commands report only
    /// its errno.
    fn unavailable(&self) -> Option<Error> {
        None
    }

    /// Returns the attributes of a path (lstat(2)).
    fn stat(&self, path: &WorldPath) -> Result<Meta>;

    /// Returns the attributes of entries of one directory, in the order of `names`: one operation, so that the
    /// directory is resolved once.
    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>>;

    /// Opens a regular file for reading; `EISDIR` for a directory, `EINVAL` for anything else.
    fn open(&self, path: &WorldPath) -> Result<File>;

    /// Opens a regular file for writing, and creates it with this mode if it is absent. The umask of the process
    /// applies.
    fn open_write(&self, path: &WorldPath, how: WriteMode, mode: u32) -> Result<File>;

    /// Returns the entries of a directory in no order, without `.` and `..`.
    fn list(&self, path: &WorldPath) -> Result<Vec<DirEntry>>;

    /// Makes a directory. The umask of the process applies.
    fn mkdir(&self, path: &WorldPath, mode: u32) -> Result<()>;

    /// Moves a file of any kind but a directory into the trash (unlink(2)).
    fn remove(&self, path: &WorldPath) -> Result<()>;

    /// Moves an empty directory into the trash (rmdir(2)).
    fn remove_dir(&self, path: &WorldPath) -> Result<()>;

    /// Moves a directory and everything in it into the trash, as one entry. If that takes a step for each entry,
    /// `go_on` is called before each; once it returns false, the call fails with `EINTR`, and removed entries stay
    /// removed.
    fn remove_tree(&self, path: &WorldPath, go_on: &dyn Fn() -> bool) -> Result<()>;

    /// Moves an entry (renameat2(2)). An entry at the new name goes into the trash; with `replace` false the call fails
    /// with `EEXIST` instead.
    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()>;

    /// Sets mode, owner and times (chmod(2), chown(2), utimensat(2)); never the size.
    fn set_attrs(&self, path: &WorldPath, change: &SetAttrs) -> Result<()>;
}
