//! The daemon's end of the control socket: what operators ask for while the store is mounted.
//!
//! Only root and the user who runs the daemon may ask. What changes the store goes through `operator` on the live world, then the
//! kernel is told.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use super::connection::{each_line, peer};
use super::holders::Holders;
use super::live_applier::LiveApplier;
use super::runs::Runs;
use crate::control::{Answer, Request, RunRequest, Status, send, socket_path};
use crate::error::{Error, Kind, Result};
use crate::fuse::{Invalidate, Shared};
use crate::name::{Escaped, Name, WorldPath};
use crate::operator;
use crate::world::store::layout::{SOCKET, TRASH};
use crate::world::{Caller, PurgeResult, World};

/// Whose turn it is to change something for an operator: one after the other, and nobody any more once the session ends.
#[derive(Debug, Default)]
pub(super) struct Turn {
    ended: parking_lot::Mutex<bool>,
}

impl Turn {
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
/// What making the socket says.
pub(super) fn listen(world: &World) -> Result<UnixListener> {
    let path = socket_path(world.state().as_fd());
    let _ = rustix::fs::unlinkat(world.state(), SOCKET, rustix::fs::AtFlags::empty());
    let bind = || UnixListener::bind(&path).map_err(|error| Error::io("bind", &error));
    bind().or_else(|error| world.with_reserve(error, bind))
}

/// Answers operators until the process ends, each on a thread of its own: an undo may take long, and others want to know
/// how it is going. Those that change something wait for each other.
pub(super) fn serve(
    listener: &UnixListener,
    shared: &Arc<Shared>,
    kernel: &dyn Invalidate,
    status: &(dyn Fn() -> Status + Sync),
    turn: &Turn,
    holders: &Arc<Holders>,
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
                                    return Answer::from(Error::refused(
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
    holders: &Arc<Holders>,
    answer: impl Fn(Request, Caller, &mut Runs<'_>) -> Answer,
) -> Result<()> {
    let caller = match peer(connection) {
        Ok(caller) => caller,
        Err(error) => return send(connection, &Answer::from(error)),
    };
    // No sandbox shows the socket; an operator may have had one shown that has it.
    if shared.runs.is_program(caller.pid, caller.uid) {
        let refused = Error::refused("a program in the home may not ask the daemon", "");
        return send(connection, &Answer::from(refused));
    }
    let mut runs = Runs::new(shared, caller.pid);
    let mut holds = None;
    each_line(connection, |line| {
        let request = serde_json::from_str(line);
        let goes_on = matches!(request, Ok(Request::Run(_) | Request::Hold));
        let answer = match request {
            Ok(Request::Hold) => match holders.hold(&shared.world) {
                Ok((holder, held)) => {
                    holds = Some(holder);
                    Answer::Held(held)
                }
                Err(error) => error.into(),
            },
            Ok(request) => answer(request, caller, &mut runs),
            Err(error) => Answer::Failed {
                kind: Kind::System,
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
    // A run looks at nothing that lies in the trash, and has gathered when it ends.
    if !matches!(request, Request::Status | Request::Hold | Request::Run(_)) {
        shared.world.gather_now();
    }
    if matches!(
        request,
        Request::Undo(_) | Request::Restore(_) | Request::Merge(_) | Request::Seal
    ) {
        shared.world.seal();
    }
    match request {
        Request::Run(RunRequest::Adopt { id, written, to }) => {
            let origin = runs.origin(id);
            let adopted = origin
                .and_then(|origin| adopt(&written, &to, shared, kernel, caller.for_run(origin)));
            adopted.map_or_else(Answer::from, |()| Answer::Done)
        }
        Request::Run(request) => runs.act(request).unwrap_or_else(Answer::from),
        Request::Status => Answer::Status(Box::new(status())),
        Request::Seal | Request::Hold => Answer::Done,
        Request::Undo(wish) => {
            let report =
                store().and_then(|store| operator::undo::run(&store, &wish, Some(&live), caller));
            report.map_or_else(Answer::from, |report| Answer::Undone(Box::new(report)))
        }
        Request::Edit(wish) => {
            let edited = operator::undo::edit::edit(&live, &wish, caller);
            edited.map_or_else(Answer::from, Answer::Edited)
        }
        Request::Restore(wish) => {
            let restored = store().and_then(|store| {
                operator::undo::restore::restore(&store, &wish, Some(&live), caller)
            });
            restored.map_or_else(Answer::from, Answer::Restored)
        }
        Request::Merge(wish) => {
            let report =
                store().and_then(|store| operator::merge::run(&store, &wish, Some(&live), caller));
            report.map_or_else(Answer::from, |report| Answer::Merged(Box::new(report)))
        }
        Request::Checkpoint { name } => {
            let made = store().and_then(|store| {
                operator::checkpoint::create(&store, &shared.world, &name, caller)
            });
            made.map_or_else(Answer::from, Answer::Checkpoint)
        }
        Request::Accept(wish) => {
            let accepted = operator::review::accept(&shared.world, &wish, caller);
            accepted.map_or_else(Answer::from, Answer::Accepted)
        }
        Request::Purge { entries, versions } => {
            match purge(&entries, &versions, shared, kernel, caller) {
                Ok(purged) => Answer::Purged(purged),
                Err(error) => error.into(),
            }
        }
        Request::TrashRestore { entry, to } => match restore(&entry, &to, shared, kernel, caller) {
            Ok(()) => Answer::Done,
            Err(error) => error.into(),
        },
    }
}

fn adopt(
    written: &str,
    to: &WorldPath,
    shared: &Shared,
    kernel: &dyn Invalidate,
    caller: Caller,
) -> Result<()> {
    let written = Name::new(written.as_bytes())?;
    let (dir, name) = shared.world.parent(to)?;
    let adopted = shared.world.adopt(written, &dir, name, caller);
    // The kernel may remember that nothing was there.
    if let Some(number) = shared.inodes.number_of(dir.id()) {
        kernel.entry(number, name.bytes());
    }
    adopted.map(drop)
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
) -> Result<PurgeResult> {
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
