//! The daemon's end of the control socket: what operators ask for while the store is mounted.
//!
//! Only root and the user who runs the daemon may ask. What changes the store goes through `operator` on the live
//! world, then the kernel is told.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use super::connection::{each_line, peer};
use super::connection_runs::ConnectionRuns;
use super::home_holders::HomeHolders;
use super::home_keeper;
use super::live_backend::LiveBackend;
use crate::control::{ControlAnswer, ControlRequest, MountStatus, RunRequest, send, socket_path};
use crate::error::{Error, FailureKind, Result};
use crate::fuse::{CacheInvalidator, SharedState};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::operator;
use crate::world::store::layout::{SOCKET, TRASH};
use crate::world::{Caller, PurgeResult, World};

/// The operators' lock: one operator's change at a time, and none once the session ends.
#[derive(Debug, Default)]
pub(super) struct OperatorLock {
    ended: parking_lot::Mutex<bool>,
}

impl OperatorLock {
    /// Waits for the change that is being made, and lets no other begin while the guard lives.
    pub(super) fn end(&self) -> impl Drop + '_ {
        let mut ended = self.ended.lock();
        *ended = true;
        ended
    }
}

/// Listens on the socket of a store.
///
/// # Errors
/// Errors of making the socket.
pub(super) fn listen(world: &World) -> Result<UnixListener> {
    let path = socket_path(world.state().as_fd());
    let _ = rustix::fs::unlinkat(world.state(), SOCKET, rustix::fs::AtFlags::empty());
    let bind = || UnixListener::bind(&path).map_err(|error| Error::io("bind", &error));
    bind().or_else(|error| world.with_reserve(error, bind))
}

/// Answers operators until the process ends, each on a thread of its own: an undo may take long, and others want to
/// know how it is going. Those that change something wait for each other.
pub(super) fn serve(
    listener: &UnixListener,
    shared: &Arc<SharedState>,
    kernel: &dyn CacheInvalidator,
    status: &(dyn Fn() -> MountStatus + Sync),
    turn: &OperatorLock,
    holders: &Arc<HomeHolders>,
) {
    std::thread::scope(|threads| {
        for connection in listener.incoming() {
            let serve = move || {
                let served =
                    connection
                        .map_err(|error| Error::io("accept", &error))
                        .and_then(|connection| {
                            serve_one(&connection, shared, holders, |request, caller, runs| {
                                let turn = request.changes().then(|| turn.ended.lock());
                                if turn.as_ref().is_some_and(|ended| **ended) {
                                    return ControlAnswer::from(Error::refused(
                                        "the home is being unmounted",
                                        "Nothing was changed. Give the command once more: nothing has to be mounted for it.",
                                    ));
                                }
                                answer_request(request, shared, kernel, status, caller, runs)
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
    shared: &SharedState,
    holders: &Arc<HomeHolders>,
    answer: impl Fn(ControlRequest, Caller, &mut ConnectionRuns<'_>) -> ControlAnswer,
) -> Result<()> {
    let caller = match peer(connection) {
        Ok(caller) => caller,
        Err(error) => return send(connection, &ControlAnswer::from(error)),
    };
    // No sandbox shows the socket; an operator may have had one shown that has it.
    if shared.runs.is_program(caller.pid, caller.uid) {
        let refused = Error::refused("a program in the home may not ask the daemon", "");
        return send(connection, &ControlAnswer::from(refused));
    }
    let mut runs = ConnectionRuns::new(shared, caller);
    let mut holds = None;
    each_line(connection, |line| {
        let request = serde_json::from_str(line);
        let goes_on = matches!(request, Ok(ControlRequest::Run(_) | ControlRequest::Hold));
        let answer = match request {
            Ok(ControlRequest::Hold) => match holders.hold(&shared.world) {
                Ok((holder, held)) => {
                    holds = Some(holder);
                    ControlAnswer::Held(held)
                }
                Err(error) => error.into(),
            },
            Ok(ControlRequest::Tree) => return send_tree(connection, holders).map(|()| false),
            Ok(request) => answer(request, caller, &mut runs),
            Err(error) => ControlAnswer::Failed {
                kind: FailureKind::System,
                what: format!("the daemon does not understand: {error}"),
                remedy: "Use the trumanfs of the same release as the daemon's.".to_owned(),
            },
        };
        send(connection, &answer).map(|()| goes_on)
    })
}

/// Answers with a mount of a home that is at no path.
fn send_tree(connection: &UnixStream, holders: &HomeHolders) -> Result<()> {
    let tree = match holders.tree() {
        Ok(tree) => tree,
        Err(error) => return send(connection, &ControlAnswer::from(error)),
    };
    let mut line = serde_json::to_vec(&ControlAnswer::Done).unwrap_or_default();
    line.push(b'\n');
    home_keeper::send(connection, &line, tree.as_ref()).map_err(Error::os("sendmsg"))
}

fn answer_request(
    request: ControlRequest,
    shared: &Arc<SharedState>,
    kernel: &dyn CacheInvalidator,
    status: &dyn Fn() -> MountStatus,
    caller: Caller,
    runs: &mut ConnectionRuns<'_>,
) -> ControlAnswer {
    let live = LiveBackend::new(shared, kernel);
    let store = || operator::Store::of(&shared.world);
    gather_and_seal_before(&request, shared);
    match request {
        ControlRequest::Run(RunRequest::Adopt { id, written, to }) => {
            let origin = runs.origin(id);
            let adopted = origin
                .and_then(|origin| adopt(&written, &to, shared, kernel, caller.for_run(origin)));
            adopted.map_or_else(ControlAnswer::from, |()| ControlAnswer::Done)
        }
        ControlRequest::Run(request) => runs
            .answer_request(request)
            .unwrap_or_else(ControlAnswer::from),
        ControlRequest::Status => ControlAnswer::Status(Box::new(status())),
        ControlRequest::Seal | ControlRequest::Hold | ControlRequest::Tree => ControlAnswer::Done,
        ControlRequest::Undo(request) => {
            let report = store()
                .and_then(|store| operator::undo::perform(&store, &request, Some(&live), caller));
            report.map_or_else(ControlAnswer::from, |report| {
                ControlAnswer::Undone(Box::new(report))
            })
        }
        ControlRequest::Edit(request) => {
            let edited = operator::undo::edit::edit_file(&live, &request, caller);
            edited.map_or_else(ControlAnswer::from, ControlAnswer::Edited)
        }
        ControlRequest::Restore(request) => {
            let restored = store().and_then(|store| {
                operator::undo::restore::restore(&store, &request, Some(&live), caller)
            });
            restored.map_or_else(ControlAnswer::from, ControlAnswer::Restored)
        }
        ControlRequest::Merge(request) => {
            let report = store()
                .and_then(|store| operator::merge::perform(&store, &request, Some(&live), caller));
            report.map_or_else(ControlAnswer::from, |report| {
                ControlAnswer::Merged(Box::new(report))
            })
        }
        ControlRequest::Checkpoint { name } => {
            let made = store().and_then(|store| {
                operator::checkpoint::create(&store, &shared.world, &name, caller)
            });
            made.map_or_else(ControlAnswer::from, ControlAnswer::Checkpoint)
        }
        ControlRequest::Accept(request) => {
            let accepted = operator::review::accept(&shared.world, &request, caller);
            accepted.map_or_else(ControlAnswer::from, ControlAnswer::Accepted)
        }
        ControlRequest::Unknown { writes } => {
            let noted = writes.record(&shared.world);
            noted.map_or_else(ControlAnswer::from, |()| ControlAnswer::Done)
        }
        ControlRequest::Purge { entries, versions } => {
            match purge(&entries, &versions, shared, kernel, caller) {
                Ok(purged) => ControlAnswer::Purged(purged),
                Err(error) => error.into(),
            }
        }
        ControlRequest::Expire { before } => {
            let expired = shared.world.expire(before, caller);
            expired.map_or_else(ControlAnswer::from, ControlAnswer::Expired)
        }
        ControlRequest::TrashRestore { entry, to } => {
            match restore(&entry, &to, shared, kernel, caller) {
                Ok(()) => ControlAnswer::Done,
                Err(error) => error.into(),
            }
        }
    }
}

/// Moves what was removed to its place in the trash, and seals the journal, before the requests that need it.
fn gather_and_seal_before(request: &ControlRequest, shared: &SharedState) {
    // A run looks at nothing that lies in the trash, and has gathered when it ends.
    if !matches!(
        request,
        ControlRequest::Status
            | ControlRequest::Hold
            | ControlRequest::Tree
            | ControlRequest::Run(_)
    ) {
        shared.world.gather_now();
    }
    if matches!(
        request,
        ControlRequest::Undo(_)
            | ControlRequest::Restore(_)
            | ControlRequest::Merge(_)
            | ControlRequest::Seal
    ) {
        shared.world.seal();
    }
}

fn adopt(
    written: &str,
    to: &WorldPath,
    shared: &SharedState,
    kernel: &dyn CacheInvalidator,
    caller: Caller,
) -> Result<()> {
    let written = Name::new(written.as_bytes())?;
    let (dir, name) = shared.world.parent(to)?;
    let adopted = shared.world.adopt(written, &dir, name, caller);
    // The kernel may remember that nothing was there.
    if let Some(number) = shared.inodes.number_of(dir.id()) {
        kernel.invalidate_entry(number, name.bytes());
    }
    adopted.map(drop)
}

fn restore(
    entry: &EscapedBytes,
    to: &WorldPath,
    shared: &SharedState,
    kernel: &dyn CacheInvalidator,
    caller: Caller,
) -> Result<()> {
    let moving = shared.inodes.begin_move();
    let restored = operator::trash::restore(&shared.world, &entry.0, to, caller);
    let parent = to.parent().and_then(|path| shared.world.dir(&path).ok());
    let number = parent
        .as_ref()
        .and_then(|dir| shared.inodes.number_of(dir.id()));
    if let (Ok(id), Some(number), Some(name)) = (&restored, number, to.name()) {
        shared.inodes.record_restore((number, name), *id);
    }
    drop(moving);
    let id = restored?;
    if let (Some(number), Some(name)) = (number, to.name()) {
        kernel.invalidate_entry(number, name.bytes());
    }
    if let Some(number) = shared.inodes.number_of(id) {
        kernel.invalidate_inode(number, false);
    }
    Ok(())
}

fn purge(
    entries: &[EscapedBytes],
    versions: &[(String, u64)],
    shared: &SharedState,
    kernel: &dyn CacheInvalidator,
    caller: Caller,
) -> Result<PurgeResult> {
    let outcome =
        operator::purge::purge_items(&shared.world, entries, versions, caller, &mut |_| {});
    // Whatever came of it, the kernel has to look again.
    forget_entries(entries, shared, kernel);
    outcome
}

/// Has the kernel look again at entries of the trash that may be gone.
pub(super) fn forget_entries(
    entries: &[EscapedBytes],
    shared: &SharedState,
    kernel: &dyn CacheInvalidator,
) {
    let trash = WorldPath::parse(TRASH).and_then(|path| shared.world.dir(&path));
    if let Some(number) = trash.ok().and_then(|dir| shared.inodes.number_of(dir.id())) {
        for entry in entries {
            kernel.invalidate_entry(number, &entry.0);
        }
    }
}
