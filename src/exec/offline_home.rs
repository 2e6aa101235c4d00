//! [`OfflineHome`]: a store that nobody has mounted, worked in through the world in process, under the store's lock.
//!
//! Every rule is the world's, with what the store was last mounted with: what exists, what a removal means, what is
//! kept and recorded. Symlinks do not exist for the shell, whatever the store is mounted with at other times.
//!
//! A session begins with the first change (`OfflineStore`). So each operation that changes something finds out first
//! what can be found out by looking.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FileType, OFlags};

use super::home::{DirEntry, Home, HomeUnavailable, MAX_LOOKUPS, RequestStart, WriteMode};
use super::local_open_state::LocalOpenState;
use super::offline_store::OfflineStore;
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::root::stat_fd;
use crate::world::store::lock::LOCK_TIMEOUT;
use crate::world::{
    Caller, Dir, Id, Meta, NoOpenState, RenameMode, Root, Run, SetAttrs, StoreView, ViewOptions,
    World,
};

/// A home that is a store of its own: a session of it, from the first change until the last of these values ends. Each
/// request has one, which belongs to it alone.
#[derive(Debug)]
pub struct OfflineHome {
    shared: Arc<OfflineStore>,
    caller: Caller,
    /// The run of the request, where it may change something.
    run: Option<Run>,
    /// The registration of the run with the world; it is done once.
    is_known: Once,
    changed: AtomicBool,
    /// The files that the request made or opened for writing: nothing tells of their close, so they are left when the
    /// request ends.
    written: Mutex<Vec<(WorldPath, Id)>>,
    /// The reason that the request could not change anything.
    untold: Mutex<Option<Error>>,
}

impl OfflineHome {
    /// Opens a store. What an earlier session left open is settled first; else nothing in it is written until the first
    /// change.
    ///
    /// # Errors
    /// Those of opening a store for reading; [`Error::Refused`] names the home where the store is mounted.
    pub fn open(store: &Path) -> Result<OfflineHome> {
        OfflineHome::with(store, ViewOptions::default(), LOCK_TIMEOUT)
    }

    /// Opens a store in which only what its last mount showed exists, and only what it let be changed may be; these
    /// options hide and protect more. Commands that work on it are waited for.
    ///
    /// # Errors
    /// As [`OfflineHome::open`]; [`Error::Refused`] for a pattern that is none.
    pub fn with(store: &Path, view: ViewOptions, patience: Duration) -> Result<OfflineHome> {
        let shared = OfflineStore::open(store, view, patience)?;
        Ok(OfflineHome::of(Arc::new(shared), Caller::myself(), None))
    }

    fn of(shared: Arc<OfflineStore>, caller: Caller, run: Option<Run>) -> OfflineHome {
        OfflineHome {
            shared,
            caller,
            run,
            is_known: Once::new(),
            changed: AtomicBool::new(false),
            written: Mutex::default(),
            untold: Mutex::default(),
        }
    }

    fn store_view(&self) -> StoreView<'_> {
        self.shared.store_view()
    }

    /// Returns the store's directory, open.
    pub(super) fn root(&self) -> Result<Root> {
        self.shared.root().duplicate()
    }

    /// Makes a change.
    fn change<T>(&self, act: impl FnOnce(&World) -> Result<T>) -> Result<T> {
        let world = self.shared.world().map_err(|unavailable| {
            *self.untold.lock() = unavailable.detail;
            unavailable.reported
        })?;
        if let Some(run) = &self.run {
            // Its id is one of its own, so there is none of that id yet.
            self.is_known.call_once(|| drop(world.begin_run(run)));
        }
        let done = act(world)?;
        self.changed.store(true, Ordering::Relaxed);
        Ok(done)
    }

    /// Opens what is there, or makes it where nothing is.
    fn write_or_make(&self, dir: &Dir, name: Name<'_>, how: WriteMode, mode: u32) -> Result<File> {
        let store_view = self.store_view();
        // Looking first, because trying to make what is there leaves a record of what did not happen.
        match store_view.locate(dir, name) {
            Ok(_) if how == WriteMode::New => Err(Error::Exists),
            Ok(located) if located.node.meta().is_dir() => Err(Error::IsDirectory),
            Ok(located) => {
                store_view.view().expect_changeable(&located.path, false)?;
                // Two that open a file at once: the second one finds it open.
                let _opening = self.shared.opening();
                self.change(|world| {
                    world.on_own_file(&located, self.caller, |located| {
                        let open_state = LocalOpenState::find(located.node.meta().id);
                        world.open_file(located, how.flags(), &open_state, self.caller)
                    })
                })
            }
            Err(Error::NotFound) => {
                store_view.view().admit_vacant(dir, name, false)?;
                let flags = how.flags() | OFlags::EXCL;
                let made = self.change(|world| {
                    world.create(dir, name, flags, mode, &NoOpenState, self.caller)
                });
                made.map(|created| created.file)
            }
            Err(error) => Err(error),
        }
        .and_then(|file| {
            let id = stat_fd(file.as_fd())?.id;
            let path = dir.path().join(name);
            self.written.lock().push((path, id));
            Ok(File::from(file))
        })
    }

    /// Takes the stamps of the files that the request wrote.
    fn leave_files(&self) {
        let mut written = std::mem::take(&mut *self.written.lock());
        if written.is_empty() {
            return;
        }
        let Ok(world) = self.shared.world() else {
            return;
        };
        written.sort_unstable();
        written.dedup();
        for (path, id) in written {
            if let Ok(node) = world.root().node_expecting(&path, id) {
                world.note_left_as(node.meta());
            }
        }
    }
}

impl Drop for OfflineHome {
    fn drop(&mut self) {
        self.leave_files();
        if let Some(run) = &self.run {
            if self.is_known.is_completed() {
                self.shared.end_run(run.id);
            }
            self.shared.unclaim();
        }
    }
}

impl Home for OfflineHome {
    fn begin(
        self: Arc<Self>,
        request: &RequestStart<'_>,
    ) -> std::result::Result<Arc<dyn Home>, HomeUnavailable> {
        if request.changes {
            self.shared.claim(&|| request.is_cancelled())?;
        }
        let run = request.changes.then(|| request.run.clone());
        let caller = self.caller.for_run(request.run.origin());
        let shared = self.shared.clone();
        Ok(Arc::new(OfflineHome::of(shared, caller, run)))
    }

    fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    fn unavailable(&self) -> Option<Error> {
        self.untold.lock().take()
    }

    fn stat(&self, path: &WorldPath) -> Result<Meta> {
        self.store_view()
            .stat(path)
            .map(|meta| self.shared.shown(meta))
    }

    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>> {
        let store_view = self.store_view();
        let dir = store_view.dir(dir)?;
        let stat = |name: &&[u8]| {
            let found = store_view.lookup(&dir, Name::new(name)?)?;
            Ok(self.shared.shown(found.meta))
        };
        Ok(names.iter().map(stat).collect())
    }

    fn open(&self, path: &WorldPath) -> Result<File> {
        let store_view = self.store_view();
        store_view.read(&store_view.find(path)?).map(File::from)
    }

    fn open_write(&self, path: &WorldPath, how: WriteMode, mode: u32) -> Result<File> {
        if path.is_root() {
            return Err(how.directory_error());
        }
        let (dir, name) = self.store_view().parent(path)?;
        for _ in 0..MAX_LOOKUPS {
            let outcome = self.write_or_make(&dir, name, how, mode);
            let again = match &outcome {
                _ if how == WriteMode::New => false,
                // It came after the look.
                Err(Error::Exists) => true,
                // It went after the look, unless something that does not exist for the shell is in the way.
                Err(Error::NotFound) => match dir.stat(name) {
                    Ok(meta) => self.store_view().view().exists(&dir, name, &meta),
                    Err(_) => true,
                },
                _ => false,
            };
            if !again {
                return outcome;
            }
        }
        Err(Error::NotFound)
    }

    fn list(&self, path: &WorldPath) -> Result<Vec<DirEntry>> {
        let store_view = self.store_view();
        let dir = store_view.dir(path)?;
        let mut found = Vec::new();
        store_view.list(&dir, 0, |entry| {
            let Ok(name) = Name::new(entry.name) else {
                return true; // `.` and `..`
            };
            let kind = match entry.kind {
                FileType::Unknown => dir.stat(name).ok().map(|meta| meta.kind),
                kind => Some(kind),
            };
            if let Some(kind) = kind {
                let (name, ino) = (name.bytes().to_vec(), entry.ino);
                found.push(DirEntry { name, kind, ino });
            }
            true
        })?;
        Ok(found)
    }

    fn mkdir(&self, path: &WorldPath, mode: u32) -> Result<()> {
        if path.is_root() {
            return Err(Error::Exists);
        }
        let store_view = self.store_view();
        let (dir, name) = store_view.parent(path)?;
        store_view.view().admit_vacant(&dir, name, true)?;
        if store_view.lookup(&dir, name).is_ok() {
            return Err(Error::Exists);
        }
        self.change(|world| world.mkdir(&dir, name, mode, self.caller))
            .map(drop)
    }

    fn remove(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.store_view().parent(path)?;
        self.store_view().lookup(&dir, name)?;
        self.change(|world| world.unlink(&dir, name, self.caller))
            .map(drop)
    }

    fn remove_dir(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.store_view().parent(path)?;
        self.store_view().lookup(&dir, name)?;
        self.change(|world| world.rmdir(&dir, name, self.caller))
            .map(drop)
    }

    fn remove_tree(&self, path: &WorldPath, _: &dyn Fn() -> bool) -> Result<()> {
        let (dir, name) = self.store_view().parent(path)?;
        if !self.store_view().lookup(&dir, name)?.meta.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.change(|world| world.discard(&dir, name, self.caller))
            .map(drop)
    }

    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()> {
        let (dir, name) = self.store_view().parent(from)?;
        let (new_dir, new_name) = self.store_view().parent(to)?;
        self.store_view().lookup(&dir, name)?;
        let how = match replace {
            true => RenameMode::Replace,
            false => RenameMode::NoReplace,
        };
        self.change(|world| world.rename(&dir, name, &new_dir, new_name, how, self.caller))
            .map(drop)
    }

    fn set_attrs(&self, path: &WorldPath, change: &SetAttrs) -> Result<()> {
        let located = self.store_view().find(path)?;
        let change = SetAttrs {
            size: None,
            ..*change
        };
        let set = |world: &World| {
            world.on_own_file(&located, self.caller, |located| {
                world.set_attr(located, change, None, &NoOpenState, self.caller)
            })
        };
        self.change(set).map(drop)
    }
}
