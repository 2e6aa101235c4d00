//! The protocol of the control socket: what a client asks of the daemon that serves a store, and what is answered.
//!
//! One line of JSON in, one out. The socket lies in the store's state directory, where no occupant gets. `daemon/control.rs` is the
//! one end of it, `client/connect.rs` the other.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

use crate::error::{Error, FailureKind, Result};

use crate::name::{EscapedBytes, WorldPath};
use crate::operator::review::{AcceptReport, AcceptRequest};
use crate::operator::unknown_writer::UnknownWrites;
use crate::operator::{merge, undo};
use crate::world::store::layout::SOCKET;
use crate::world::{ExpireResult, PurgeResult, Run, RunId, SessionPatterns, TurnMark};

/// A request of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub enum ControlRequest {
    /// The state of the mount.
    Status,
    /// Put an entry of the trash back.
    TrashRestore {
        /// The entry.
        entry: EscapedBytes,
        /// The path that the entry is put back to.
        to: WorldPath,
    },
    /// Delete entries of the trash, and former contents (session and number), for good.
    Purge {
        /// The entries.
        entries: Vec<EscapedBytes>,
        /// The former contents.
        versions: Vec<(String, u64)>,
    },
    /// Record that the history before a record has expired, and take its journals away.
    Expire {
        /// The first record that stays: session and number.
        before: (String, u64),
    },
    /// Take operations back.
    Undo(undo::UndoRequest),
    /// Replace some bytes of a file.
    Edit(undo::edit::EditRequest),
    /// Put a file or a tree back as it was.
    Restore(undo::restore::RestoreRequest),
    /// Bring the changes of a fork in.
    Merge(merge::MergeRequest),
    /// Give this point a name.
    Checkpoint {
        /// The name.
        name: String,
    },
    /// Record that changes are accepted.
    Accept(AcceptRequest),
    /// Record which files an unknown writer changed directly in the store.
    Unknown {
        /// The files.
        writes: UnknownWrites,
    },
    /// Seal the journal, for somebody who is about to read it.
    Seal,
    /// Keep the home mounted for this connection, which stays open, and have a scratch directory for it.
    Hold,
    /// Hand over a mount of a home that is at no path, as a descriptor beside the answer.
    Tree,
    /// Say what works for a run. Such requests come one after the other on one connection, and end with it.
    Run(RunRequest),
}

impl ControlRequest {
    /// Returns whether it asks for a change.
    pub fn changes(&self) -> bool {
        match self {
            ControlRequest::Status
            | ControlRequest::Seal
            | ControlRequest::Hold
            | ControlRequest::Tree => false,
            ControlRequest::Run(request) => matches!(request, RunRequest::Adopt { .. }),
            _ => true,
        }
    }
}

/// A message of an executor about its runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "lowercase")]
pub enum RunRequest {
    /// A run begins.
    Begin {
        /// The run.
        #[serde(flatten)]
        run: Run,
        /// The threads that work for it from now on, by their ids in the daemon's PID namespace.
        #[serde(default)]
        threads: Vec<u32>,
    },
    /// A run begins where another one ends: the programs of that one work for it from now on. The answer says whether the
    /// one that ends has recorded anything.
    Follow {
        /// The run.
        #[serde(flatten)]
        run: Run,
        /// The run that ends.
        after: RunId,
    },
    /// More threads work for it.
    Join {
        /// The run.
        id: RunId,
        /// The threads.
        threads: Vec<u32>,
    },
    /// Some threads do not work for it any more.
    Leave {
        /// The run.
        id: RunId,
        /// The threads.
        threads: Vec<u32>,
    },
    /// All processes work for it that share the PID namespace of one of them.
    Namespace {
        /// The run.
        id: RunId,
        /// The process, by its number in the daemon's PID namespace.
        process: u32,
    },
    /// Everybody who works in the home works for it, but for members of other runs: of a program that gets no PID namespace, in
    /// a home that is mounted for it.
    Everybody {
        /// The run.
        id: RunId,
    },
    /// A file that it has written beside the home comes into it ([`World::adopt`](crate::world::World::adopt)).
    Adopt {
        /// The run.
        id: RunId,
        /// The file's name among those that are not whole yet.
        written: String,
        /// Its path in the home, at which nothing is.
        to: WorldPath,
    },
    /// A turn begins in it.
    Mark {
        /// The run.
        id: RunId,
        /// The turn.
        mark: TurnMark,
    },
    /// A run that goes on is looked at: the answer says whether it has recorded anything so far.
    Look {
        /// The run.
        id: RunId,
    },
    /// The run has ended.
    End {
        /// The run.
        id: RunId,
    },
}

/// The daemon's answer to a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlAnswer {
    /// The state of the mount.
    Status(Box<MountStatus>),
    /// The request was carried out.
    Done,
    /// The things that were deleted.
    Purged(PurgeResult),
    /// The sessions that are gone.
    Expired(ExpireResult),
    /// The operations that were taken back, or the conflicts.
    Undone(Box<undo::UndoReport>),
    /// The result of the edit.
    Edited(undo::edit::EditReport),
    /// The entry that was put back.
    Restored(undo::restore::RestoreReport),
    /// The result of the merge, or its conflicts.
    Merged(Box<merge::MergeReport>),
    /// The number of the record.
    Checkpoint(u64),
    /// The changes that were accepted.
    Accepted(AcceptReport),
    /// The home is held.
    Held(HeldHomeInfo),
    /// The run goes on.
    RunGoesOn {
        /// True if anything of it has been recorded so far.
        recorded: bool,
    },
    /// The run has ended.
    RunEnded {
        /// True if anything of it was recorded.
        recorded: bool,
    },
    /// The request failed, and nothing was changed.
    Failed {
        /// The kind of the failure.
        kind: FailureKind,
        /// The failure, in words.
        what: String,
        /// The remedy.
        remedy: String,
    },
}

impl From<Error> for ControlAnswer {
    fn from(error: Error) -> ControlAnswer {
        let kind = error.kind();
        let (what, remedy) = error.into_words();
        ControlAnswer::Failed { kind, what, remedy }
    }
}

/// A home that is held, as whoever runs a program in it has to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldHomeInfo {
    /// The home's mountpoint.
    pub home: EscapedBytes,
    /// The user that the home is for.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// True if nothing in it can be changed.
    pub read_only: bool,
    /// True if it is at no path: only sandboxes enter it.
    #[serde(default)]
    pub only_in_sandboxes: bool,
    /// All patterns of hidden and read-only paths that are in force.
    #[serde(default)]
    pub patterns: SessionPatterns,
}

/// The state of a mount.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountStatus {
    /// The home, escaped.
    pub home: String,
    /// True if the home is at no path: only sandboxes enter it.
    #[serde(default)]
    pub only_in_sandboxes: bool,
    /// The store, escaped.
    pub store: String,
    /// The daemon's process.
    pub pid: u32,
    /// The release.
    pub version: String,
    /// The session.
    pub session: String,
    /// The time since which the home has been mounted, RFC 3339.
    pub since: String,
    /// The mechanisms that are in force.
    pub mechanisms: serde_json::Value,
    /// The number of requests of each kind.
    pub counters: serde_json::Value,
    /// The number of files and directories that the kernel knows.
    pub known: usize,
    /// The number of files that are open.
    pub open: usize,
    /// The number of threads and PID namespaces that belong to runs that are under way.
    #[serde(default)]
    pub members: usize,
    /// The number of directories that are watched for changes behind the mount.
    pub watched: usize,
    /// The number of records that the session has.
    pub records: u64,
    /// The space that the trash takes on disk, in bytes.
    pub trash_bytes: u64,
    /// The space that former contents take on disk, in bytes.
    #[serde(default)]
    pub kept_bytes: u64,
    /// The number of writes that were refused because former contents had reached their limit (`--keep-max`).
    #[serde(default)]
    pub refused: u64,
    /// The number of files that have former contents that are not final: they may still give space back.
    #[serde(default)]
    pub not_final: usize,
    /// The runs that are under way.
    #[serde(default)]
    pub runs: Vec<RunId>,
    /// The number of volatile things in the trash that are about to be deleted, or open.
    #[serde(default)]
    pub volatile_waiting: usize,
    /// Warnings for the user who mounted the store.
    #[serde(default)]
    pub notices: Vec<String>,
}

/// Returns where the socket of a store is: by the descriptor of its state directory, because a socket's path may have 108 bytes
/// at most (unix(7)).
pub fn socket_path(state: impl AsFd) -> String {
    format!("/proc/self/fd/{}/{SOCKET}", state.as_fd().as_raw_fd())
}

/// Sends one message.
///
/// # Errors
/// Errors of `write(2)`.
pub fn send(mut connection: &UnixStream, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    connection
        .write_all(&line)
        .map_err(|error| Error::io("write", &error))
}
