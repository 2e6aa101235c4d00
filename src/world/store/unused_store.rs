//! Removal of the store's own files from a directory that was made a store and never used as one.
//!
//! Owns the criterion: no session has a record except of its beginning and its end, and the trash is empty. The store's
//! lock is held exclusively meanwhile.

use std::fs::File;
use std::io::BufReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::JournalReader;
use crate::name::Name;
use crate::world::root::{Root, open_beneath};
use crate::world::store::layout::{GIT_IGNORE, STATE, TRASH};
use crate::world::store::lock;
use crate::world::store::place;
use crate::world::store::sessions::{open_journal, sessions};
use crate::world::store::state::open_unlocked;
use crate::world::trash::erase::erase;

/// Returns whether a directory is a store, or was one.
///
/// # Errors
/// Any error from `open(2)`.
pub fn is_store(root: &Root) -> Result<bool> {
    Ok(open_unlocked(&root.duplicate()?.for_operator())?.is_some())
}

/// Turns a store back into an ordinary directory, unless it was used or another process has its lock.
///
/// # Errors
/// Any error from the system calls.
pub fn unmake(root: &Root) -> Result<()> {
    let root = root.duplicate_for_changes()?;
    let Some(state) = open_unlocked(&root)? else {
        return Ok(());
    };
    let Ok(_lock) = lock::for_changes(state.as_fd(), Duration::ZERO.into()) else {
        return Ok(());
    };
    for session in sessions(state.as_fd())? {
        let mut reader = JournalReader::new(BufReader::new(open_journal(state.as_fd(), &session)?));
        if reader
            .next_where(|header| !matches!(&*header.op, "begin" | "end"))?
            .is_some()
        {
            return Ok(());
        }
    }
    remove(&root)
}

/// Deletes a store's own directories, whatever is in them.
///
/// # Errors
/// [`Error::Refused`] if it is no store, or in use; any error from the system calls.
pub fn forget(root: &Root) -> Result<()> {
    let root = root.duplicate_for_changes()?.for_operator();
    let _lock = lock_alone(&root)?;
    let place = root.state_place();
    for name in [TRASH, STATE] {
        match erase(&root, place, Name::new(name)?, &mut |_| {}) {
            Err(Error::NotFound) => {}
            erased => erased?,
        }
    }
    Ok(())
}

/// Moves a store's own directories into the state home of its owner. Returns where they are.
///
/// # Errors
/// [`Error::Refused`] if it is no store, or in use, or nothing can be moved there; any error from the system calls.
pub fn move_state(root: &Root, at: &Path) -> Result<PathBuf> {
    let _lock = lock_alone(root)?;
    place::take_state(root, at)
}

fn lock_alone(root: &Root) -> Result<File> {
    let state = open_unlocked(root)?;
    let lock = match &state {
        Some(state) => lock::for_changes(state.as_fd(), lock::LOCK_TIMEOUT.into())?,
        None => None,
    };
    lock.ok_or_else(|| Error::refused("this is no store", "Give a store."))
}

/// Removes the store's own directories, if the trash is empty.
///
/// # Errors
/// Any error from the system calls; `ENOTEMPTY` if the trash has entries.
pub(in crate::world) fn remove(root: &Root) -> Result<()> {
    let name = |name| Name::new(name);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = root.state_place();
    match open_beneath(place, TRASH, flags, Mode::empty()) {
        Ok(trash) => {
            remove_file(trash.as_fd(), GIT_IGNORE)?;
            rustix::fs::unlinkat(place, TRASH, AtFlags::REMOVEDIR)
                .map_err(Error::os("unlinkat"))?;
        }
        Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    erase(root, place, name(STATE)?, &mut |_| {})
}

fn remove_file(dir: BorrowedFd<'_>, name: &str) -> Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()).map_err(Error::os("unlinkat")) {
        Err(Error::NotFound) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::world::{World, WorldOptions, new_session_id};

    fn mounting() -> WorldOptions {
        WorldOptions {
            session: new_session_id(),
            home: Some(b"/home/agent".to_vec()),
            ..WorldOptions::default()
        }
    }

    fn names(dir: &std::path::Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    /// A mount that failed left a session without an end, and the next one spoke of a crash.
    #[test]
    fn mount_that_fails_leaves_no_session_and_no_new_store() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let (world, _) = World::open(dir.path(), mounting()).unwrap();
            world.abandon();
            drop(world);
            assert_eq!(names(dir.path()), 0);
        }
        // A store that was one before stays one.
        World::open(dir.path(), mounting()).unwrap().0.close();
        let (world, _) = World::open(dir.path(), mounting()).unwrap();
        world.abandon();
        drop(world);
        assert_eq!(names(&dir.path().join(".trumanfs/sessions")), 1);
        let (world, settled) = World::open(dir.path(), mounting()).unwrap();
        assert!(settled.is_empty(), "{settled:?}");
        world.close();
    }

    #[test]
    fn store_in_which_something_was_done_is_not_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let top = Root::open(dir.path()).unwrap();
        World::open(dir.path(), mounting()).unwrap().0.close();
        assert!(is_store(&top).unwrap());
        unmake(&top).unwrap();
        assert!(!is_store(&top).unwrap());
        assert_eq!(names(dir.path()), 0);
        let (world, _) = World::open(dir.path(), mounting()).unwrap();
        let root = world.root().dir(&crate::name::WorldPath::root()).unwrap();
        let name = Name::new(b"d").unwrap();
        world
            .mkdir(&root, name, 0o755, crate::world::Caller::myself())
            .unwrap();
        // Nor while somebody has it.
        unmake(&top).unwrap();
        assert!(is_store(&top).unwrap());
        world.close();
        drop(world);
        unmake(&top).unwrap();
        assert!(is_store(&top).unwrap());
    }
}
