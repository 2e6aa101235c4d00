//! The messages between a worker and its supervisor: the order, and the reports on it. Data only.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket, as JSON. The order comes first, with the descriptors of the
//! places that it names; after [`WorkerReport::Found`] and [`WorkerReport::Made`] the worker waits for [`GO`].

use serde::{Deserialize, Serialize};

use crate::exec::task::failure_reason::FailureReason;
use crate::exec::task::quota::TaskQuota;
use crate::name::{EscapedBytes, WorldPath};
use crate::world::{Meta, Run};

/// The message that a worker waits for before it goes on.
pub(in super::super) const GO: &[u8] = b"go";

/// The longest message, in bytes: two paths, escaped, and what belongs to them.
pub(in super::super) const MAX_MESSAGE_BYTES: usize = 128 << 10;

/// The order of an operation, with everything that a worker knows of it. Behind the descriptors of the places comes
/// that of the ledger's lock, which the worker holds as long as it lives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct WorkerOrder {
    /// The operation that the worker has to do.
    pub(in super::super) act: WorkerAction,
    /// The places that it names by their numbers, in the order of their descriptors.
    pub(in super::super) places: Vec<PlaceKind>,
    /// The limits of the operation; absent for settling, which must come to an end.
    pub(in super::super) quota: Option<TaskQuota>,
    /// The name of a copy that is not whole yet, or of a file that is put aside.
    pub(in super::super) name: String,
    /// The run that its records carry.
    pub(in super::super) run: Run,
    /// The conditions that the file must meet, where they are known already.
    pub(in super::super) expected: ExpectedFile,
}

/// The kind of a base directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum PlaceKind {
    /// A directory of a mounted home. Descriptors: it, the home's trash, the store's state directory, the directory of
    /// what is not whole yet.
    Home {
        /// The path of the base directory in the home.
        prefix: WorldPath,
    },
    /// Any other directory. Descriptors: it, the vault.
    Plain,
}

/// A file in a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct PlacePath {
    /// The number of the place.
    pub(in super::super) place: usize,
    /// The path from there.
    pub(in super::super) path: WorldPath,
    /// The whole path, as it was given.
    pub(in super::super) shown: String,
}

/// An operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) enum WorkerAction {
    /// Moves a file to a path where nothing is.
    Move { from: PlacePath, to: PlacePath },
    /// Copies a file to a path where nothing is.
    Copy { from: PlacePath, to: PlacePath },
    /// Moves a file into the trash, or into the vault.
    Delete { from: PlacePath },
    /// Moves a file out of the trash, or out of the vault, to a path where nothing is.
    Restore { entry: EscapedBytes, to: PlacePath },
    /// Looks what stands at a path, and changes nothing.
    Look { at: PlacePath },
    /// Looks at what was put into the trash, or into the vault, and changes nothing.
    LookKept { place: usize, entry: EscapedBytes },
    /// Deletes a copy of this run that did not become whole.
    Sweep { place: usize },
}

/// The known facts of a file before it is looked at.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in super::super) struct ExpectedFile {
    /// Which it is.
    pub(in super::super) stamp: Option<FileStamp>,
    /// True if the file must have the size and the time of the last change of the stamp as well.
    pub(in super::super) is_untouched: bool,
    /// The SHA-256 of its content, in hex.
    pub(in super::super) sha256: Option<String>,
}

/// The stamp of a file, which tells the file from all others, also from one that got its inode number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct FileStamp {
    /// Its inode number.
    pub(in super::super) inode: u64,
    /// The time at which the file was made, in nanoseconds since 1970; 0 where that is not known, as in a home.
    pub(in super::super) born: u64,
    /// Its size in bytes.
    pub(in super::super) size: u64,
    /// The time of the last change of the file's content (seconds, nanoseconds).
    pub(in super::super) mtime: (i64, u32),
}

impl ExpectedFile {
    /// Checks which file was found.
    ///
    /// # Errors
    /// It is another, or was written to since, in words.
    pub(in super::super) fn check(
        &self,
        found: &FileStamp,
        shown: &str,
    ) -> Result<(), WorkerFailure> {
        let why = match &self.stamp {
            Some(stamp) if !stamp.is(found) => "another file is there now",
            Some(stamp) if self.is_untouched && !stamp.has_times_of(found) => {
                "its content has changed since"
            }
            _ => return Ok(()),
        };
        Err(WorkerFailure {
            reason: FailureReason::Changed,
            has_acted: false,
            message: format!("{shown}: {why}"),
        })
    }
}

impl FileStamp {
    /// Returns that of a file.
    pub(in super::super) fn of(meta: &Meta) -> FileStamp {
        FileStamp {
            inode: meta.id.1,
            born: meta.born,
            size: meta.size,
            mtime: (meta.mtime.sec, meta.mtime.nsec),
        }
    }

    /// Returns whether both are of one file. By its birth, where both know it; else it must not have been written to.
    pub(in super::super) fn is(&self, other: &FileStamp) -> bool {
        let same = match (self.born, other.born) {
            (0, _) | (_, 0) => self.has_times_of(other),
            (one, two) => one == two,
        };
        same && self.inode == other.inode
    }

    /// Returns whether both have one length, and one time of the last change.
    fn has_times_of(&self, other: &FileStamp) -> bool {
        (self.size, self.mtime) == (other.size, other.mtime)
    }
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct FoundFile {
    /// Which it is.
    pub(in super::super) stamp: FileStamp,
    /// The SHA-256 of its content, in hex, where that was read: a copy's is known when the copy is whole, and a long file is moved
    /// without being read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) sha256: Option<String>,
}

/// A file that was moved, copied or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct WorkerOutput {
    /// Which it is.
    pub(in super::super) stamp: FileStamp,
    /// The SHA-256 of its content, in hex; none where it was too long to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) sha256: Option<String>,
}

/// A message of a worker about its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum WorkerReport {
    /// The file is there, and its destination is free. Nothing has been changed.
    Found(FoundFile),
    /// A copy is whole, and has no name yet.
    Made(WorkerOutput),
    /// The file was moved, copied or removed, and that is on disk.
    Done(WorkerOutput),
    /// The file at the path that was to be looked at.
    There(FoundFile),
    /// No regular file stands at the path.
    Nothing,
    /// The operation was not done, and the reason.
    Failed(WorkerFailure),
}

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct WorkerFailure {
    /// The cause.
    pub(in super::super) reason: FailureReason,
    /// True if the file was moved, named or removed before.
    pub(in super::super) has_acted: bool,
    /// The path and the reason.
    pub(in super::super) message: String,
}
