//! Who carries a wish out that changes a store: its daemon where it is mounted, else this process under the store's lock.

use std::path::Path;

use crate::daemon;
use crate::daemon::control::{Answer, Failure, Request};
use crate::error::{Error, Result};
use crate::operator::Store;
use crate::operator::undo::{Applier, InProcess};
use crate::world::{Symlinks, ViewOptions, World, WorldOptions, new_session_id};

/// Asks the daemon for something that changes the store. What programs have written, and the kernel has not handed on yet,
/// counts as done: it is handed on first.
///
/// # Errors
/// As [`daemon::ask`]; `go_on` is for [`Error::Partly`].
pub(super) fn ask_to_change(store: &Store, request: &Request, go_on: &str) -> Result<Answer> {
    use rustix::fs::{Mode, OFlags};
    let home = store.holder()?.and_then(|holder| holder.home);
    if let Some(home) = home.and_then(|home| crate::name::unescape(&home)) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Where the home cannot be seen from here, the kernel hands on in its own time.
        if let Ok(home) = rustix::fs::open(home, flags, Mode::empty()) {
            let _ = rustix::fs::syncfs(home);
        }
    }
    daemon::ask(store.state(), request, go_on)
}

/// Does something with a store in process, under its lock and in a session of its own.
pub(super) fn in_process<T>(
    path: &Path,
    act: impl FnOnce(&Store, &dyn Applier) -> Result<T>,
) -> Result<T> {
    let options = WorldOptions {
        session: new_session_id(),
        view: ViewOptions {
            symlinks: Symlinks::Inside,
            ..ViewOptions::default()
        },
        ..WorldOptions::default()
    };
    let (world, settled) = World::open(path, options)?;
    for found in settled {
        log::info!("{found}");
    }
    let done = Store::of(&world).and_then(|store| act(&store, &InProcess(&world)));
    world.close();
    done
}

/// Says why an answer is not the one that was hoped for.
pub(super) fn into_error(answer: Answer) -> Error {
    match answer {
        Answer::Failed { kind, what, remedy } => match kind {
            Failure::Missing => Error::Missing { what, remedy },
            Failure::Conflict => Error::Conflict { what, remedy },
            Failure::Refused => Error::Refused { what, remedy },
            Failure::Partly => Error::Partly { what, remedy },
            Failure::Other => Error::Damaged(what),
        },
        _ => Error::refused("the daemon gave an answer to another question", ""),
    }
}
