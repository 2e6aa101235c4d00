//! The control socket: an operator's wishes while the store is mounted.
//!
//! One JSON line in, one out, on a socket in the store's state directory, where no occupant gets. Whoever connects must
//! be root or the user who runs the daemon. What changes the store goes through `operator` on the live world, then the
//! kernel is told.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::connection::{each_line, io, peer, send};
use super::live_applier::LiveApplier;
use super::runs::{RunRequest, Runs};
use crate::error::{Error, Result};
use crate::fuse::{Invalidate, Shared};
use crate::name::{Escaped, WorldPath};
use crate::operator;
use crate::world::state::SOCKET;
use crate::world::view::TRASH;
use crate::world::{Caller, Purged, World};

/// What can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub enum Request {
    /// How it is going.
    Status,
    /// Put an entry of the trash back.
    Restore {
        /// The entry.
        entry: Escaped,
        /// Where to.
        to: WorldPath,
    },
    /// Delete entries of the trash, and former contents (session and number), for good.
    Purge {
        /// The entries.
        entries: Vec<Escaped>,
        /// The former contents.
        versions: Vec<(String, u64)>,
    },
    /// Take operations back.
    Undo(operator::undo::UndoRequest),
    /// Put a file or a tree back as it was.
    RestoreRequest(operator::undo::restore::RestoreRequest),
    /// Give this point a name.
    Checkpoint {
        /// The name.
        name: String,
    },
    /// Seal the journal, for somebody who is about to read it.
    Seal,
    /// Say what works for a run. Such requests come one after the other on one connection, and end with it.
    Run(RunRequest),
}

impl Request {
    /// Returns whether it asks for a change.
    pub(super) fn changes(&self) -> bool {
        !matches!(self, Request::Status | Request::Seal | Request::Run(_))
    }
}

/// Whose turn it is to change something for an operator: one after the other, and nobody any more once the session ends.
#[derive(Debug, Default)]
pub struct Turn {
    ended: parking_lot::Mutex<bool>,
}

impl Turn {
    /// Waits for the change that is being made, and lets no other begin while the guard lives.
    pub fn end(&self) -> impl Drop + '_ {
        let mut ended = self.ended.lock();
        *ended = true;
        ended
    }
}

/// What is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// How it is going.
    Status(Box<Status>),
    /// It was done.
    Done,
    /// It was deleted, as far as it says.
    Purged(Purged),
    /// What was taken back, or what stands in the way.
    Undone(Box<operator::undo::UndoReport>),
    /// What was put back.
    RestoreRequest(operator::undo::restore::Restored),
    /// The number of the record.
    Checkpoint(u64),
    /// It was not done, and nothing was changed.
    Failed {
        /// Which kind of failure.
        kind: Failure,
        /// What is wrong.
        what: String,
        /// What can be done about it.
        remedy: String,
    },
}

/// Kinds of failure, as far as exit codes tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// The thing is not there.
    Missing,
    /// Something else is in the way.
    Conflict,
    /// It was refused before anything was done.
    Refused,
    /// Part of it was done.
    Partly,
    /// Anything else.
    Other,
}

/// How a mount is going.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The home, escaped.
    pub home: String,
    /// The store, escaped.
    pub store: String,
    /// The daemon's process.
    pub pid: u32,
    /// The release.
    pub version: String,
    /// The session.
    pub session: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// Which mechanisms are in force.
    pub mechanisms: serde_json::Value,
    /// How many requests of each kind there were.
    pub counters: serde_json::Value,
    /// How many files and directories the kernel knows.
    pub known: usize,
    /// How many files are open.
    pub open: usize,
    /// How many threads and PID namespaces belong to runs that are under way.
    #[serde(default)]
    pub members: usize,
    /// How many directories are watched for changes behind the mount.
    pub watched: usize,
    /// How many records the session has.
    pub records: u64,
    /// How much the trash takes on disk, in bytes.
    pub trash_bytes: u64,
    /// How much former contents take on disk, in bytes.
    #[serde(default)]
    pub kept_bytes: u64,
    /// How many writes were refused because former contents had reached their limit (`--keep-max`).
    #[serde(default)]
    pub refused: u64,
    /// How many files have former contents that are not final: they may still give space back.
    #[serde(default)]
    pub not_final: usize,
}

/// Listens on the socket of a store.
///
/// # Errors
/// What making the socket says.
pub fn listen(world: &World) -> Result<UnixListener> {
    let path = socket_path(world.state().as_fd());
    let _ = rustix::fs::unlinkat(world.state(), SOCKET, rustix::fs::AtFlags::empty());
    let bind = || UnixListener::bind(&path).map_err(|error| io("bind", &error));
    bind().or_else(|error| world.with_reserve(error, bind))
}

/// By the descriptor, because a socket's path may have 108 bytes at most (unix(7)).
pub(super) fn socket_path(state: impl AsFd) -> String {
    format!("/proc/self/fd/{}/{SOCKET}", state.as_fd().as_raw_fd())
}

/// Answers operators until the process ends, each on a thread of its own: an undo may take long, and others want to know
/// how it is going. Those that change something wait for each other.
pub fn serve(
    listener: &UnixListener,
    shared: &Arc<Shared>,
    kernel: &dyn Invalidate,
    status: &(dyn Fn() -> Status + Sync),
    turn: &Turn,
) {
    std::thread::scope(|threads| {
        for connection in listener.incoming() {
            let serve = move || {
                let served =
                    connection
                        .map_err(|error| io("accept", &error))
                        .and_then(|connection| {
                            serve_one(&connection, shared, |request, caller, runs| {
                                let turn = request.changes().then(|| turn.ended.lock());
                                if turn.as_ref().is_some_and(|ended| **ended) {
                                    return failed(Error::refused(
                                        "the home is being unmounted",
                                        "Nothing was changed. Give the command once more: nothing has to be mounted for it.",
                                    ));
                                }
                                answer(request, shared, kernel, status, caller, runs)
                            })
                        });
                if let Err(error) = served {
                    log::warn!("control socket: {error}");
                }
            };
            let thread = std::thread::Builder::new().name("operator".to_owned());
            if let Err(error) = thread.spawn_scoped(threads, serve) {
                log::warn!("control socket: no thread: {error}");
            }
        }
    });
}

/// Answers one request; of an executor, all that it says of its runs until it goes away.
fn serve_one(
    connection: &UnixStream,
    shared: &Shared,
    answer: impl Fn(Request, Caller, &mut Runs<'_>) -> Answer,
) -> Result<()> {
    let caller = match peer(connection) {
        Ok(caller) => caller,
        Err(error) => return send(connection, &failed(error)),
    };
    let mut runs = Runs::new(shared, caller.pid);
    each_line(connection, |line| {
        let request = serde_json::from_str(line);
        let goes_on = matches!(request, Ok(Request::Run(_)));
        let answer = match request {
            Ok(request) => answer(request, caller, &mut runs),
            Err(error) => Answer::Failed {
                kind: Failure::Other,
                what: format!("the daemon does not understand: {error}"),
                remedy: "Use the trumanfs of the same release as the daemon's.".to_owned(),
            },
        };
        send(connection, &answer).map(|()| goes_on)
    })
}

fn answer(
    request: Request,
    shared: &Arc<Shared>,
    kernel: &dyn Invalidate,
    status: &dyn Fn() -> Status,
    caller: Caller,
    runs: &mut Runs<'_>,
) -> Answer {
    let live = LiveApplier::new(shared, kernel);
    let store = || operator::Store::of(&shared.world);
    if matches!(
        request,
        Request::Undo(_) | Request::RestoreRequest(_) | Request::Seal
    ) {
        shared.world.seal();
    }
    match request {
        Request::Run(request) => runs.act(request).map_or_else(failed, |()| Answer::Done),
        Request::Status => Answer::Status(Box::new(status())),
        Request::Seal => Answer::Done,
        Request::Undo(wish) => {
            let report =
                store().and_then(|store| operator::undo::run(&store, &wish, Some(&live), caller));
            report.map_or_else(failed, |report| Answer::Undone(Box::new(report)))
        }
        Request::RestoreRequest(wish) => {
            let restored = store().and_then(|store| {
                operator::undo::restore::restore(&store, &wish, Some(&live), caller)
            });
            restored.map_or_else(failed, Answer::RestoreRequest)
        }
        Request::Checkpoint { name } => {
            let made = store().and_then(|store| {
                operator::checkpoint::create(&store, &shared.world, &name, caller)
            });
            made.map_or_else(failed, Answer::Checkpoint)
        }
        Request::Purge { entries, versions } => {
            match purge(&entries, &versions, shared, kernel, caller) {
                Ok(purged) => Answer::Purged(purged),
                Err(error) => failed(error),
            }
        }
        Request::Restore { entry, to } => match restore(&entry, &to, shared, kernel, caller) {
            Ok(()) => Answer::Done,
            Err(Error::NotFound) => Answer::Failed {
                kind: Failure::Missing,
                what: format!(
                    "{}: no such entry in the trash",
                    crate::name::escape(&entry.0)
                ),
                remedy: "`trumanfs trash list` names them.".to_owned(),
            },
            Err(error) => failed(error),
        },
    }
}

fn failed(error: Error) -> Answer {
    let (kind, what, remedy) = match error {
        Error::Missing { what, remedy } => (Failure::Missing, what, remedy),
        Error::Partly { what, remedy } => (Failure::Partly, what, remedy),
        Error::Conflict { what, remedy } => (Failure::Conflict, what, remedy),
        Error::Refused { what, remedy } => (Failure::Refused, what, remedy),
        error => (Failure::Other, error.told(), String::new()),
    };
    Answer::Failed { kind, what, remedy }
}

fn restore(
    entry: &Escaped,
    to: &WorldPath,
    shared: &Shared,
    kernel: &dyn Invalidate,
    caller: Caller,
) -> Result<()> {
    let moving = shared.inodes.moving();
    let restored = operator::trash::restore(&shared.world, &entry.0, to, caller);
    let parent = to.parent().and_then(|path| shared.world.dir(&path).ok());
    let number = parent
        .as_ref()
        .and_then(|dir| shared.inodes.number_of(dir.id()));
    if let (Ok(id), Some(number), Some(name)) = (&restored, number, to.name()) {
        shared.inodes.restored((number, name), *id);
    }
    drop(moving);
    let id = restored?;
    if let (Some(number), Some(name)) = (number, to.name()) {
        kernel.entry(number, name.bytes());
    }
    if let Some(number) = shared.inodes.number_of(id) {
        kernel.inode(number, false);
    }
    Ok(())
}

fn purge(
    entries: &[Escaped],
    versions: &[(String, u64)],
    shared: &Shared,
    kernel: &dyn Invalidate,
    caller: Caller,
) -> Result<Purged> {
    let outcome = operator::purge::carry_out(&shared.world, entries, versions, caller, &mut |_| {});
    // Whatever came of it, the kernel has to look again.
    let trash = WorldPath::parse(TRASH).and_then(|path| shared.world.dir(&path));
    if let Some(number) = trash.ok().and_then(|dir| shared.inodes.number_of(dir.id())) {
        for entry in entries {
            kernel.entry(number, &entry.0);
        }
    }
    outcome
}
