//! [`OfflineHome`]: a store that nobody has mounted, worked in through the world in process, under the store's lock.
//!
//! Every rule is the world's, with what the store was last mounted with: what exists, what a removal means, what is kept and recorded.
//! Symlinks do not exist for the shell, whatever the store is mounted with at other times.
//!
//! A session begins with the first change. Until then the store is only looked at, and nothing in it is written. So each operation
//! that changes something finds out first what can be found out by looking. A line that only reads shares the store with others
//! who do no more; one that may change something has it alone from its start, so that nothing in mid-line has to wait.
//!
//! Lock: one mutex, held while the session begins, so that one begins.

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::home::{DirEntry, Home, TRIES, Writing};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::lock::PATIENCE;
use crate::world::{
    Caller, Claim, Dir, Meta, NoOpenState, ReadOnlyStore, Renaming, SetAttrs, Settled, StoreView,
    Symlinks, ViewOptions, World,
};

/// How long no session is tried to be begun after one could not be: a line may ask for many changes.
const DESPAIR: Duration = Duration::from_secs(5);

/// A home that is a store of its own: a session of it, from the first change until this value ends.
#[derive(Debug)]
pub struct OfflineHome {
    reading: ReadOnlyStore,
    world: OnceLock<World>,
    refused: Mutex<Refused>,
    caller: Caller,
    /// How long others who work on the store are waited for.
    patience: Duration,
}

/// That the store could not be had for changing.
#[derive(Debug, Default)]
struct Refused {
    last: Option<(Instant, Error)>,
    /// What nobody has been told yet.
    untold: Option<Error>,
}

impl OfflineHome {
    /// Opens a store. What an earlier session left open is settled first; else nothing in it is written until the first change.
    ///
    /// # Errors
    /// As [`ReadOnlyStore::open`]; [`Error::Refused`] names the home where the store is mounted.
    pub fn open(store: &Path) -> Result<OfflineHome> {
        OfflineHome::with(store, ViewOptions::default(), PATIENCE)
    }

    /// Opens a store in which only what its last mount showed exists, and only what it let be changed may be; these options hide and
    /// protect more. Commands that work on it are waited for.
    ///
    /// # Errors
    /// As [`OfflineHome::open`]; [`Error::Refused`] for a pattern that is none.
    pub fn with(store: &Path, view: ViewOptions, patience: Duration) -> Result<OfflineHome> {
        let narrow = |mounted: ViewOptions| ViewOptions {
            hide: [mounted.hide, view.hide].concat(),
            read_only: [mounted.read_only, view.read_only].concat(),
            symlinks: Symlinks::Hidden,
            list_trash: mounted.list_trash || view.list_trash,
            all_read_only: view.all_read_only,
        };
        let (reading, settled) = ReadOnlyStore::open(store, narrow, patience)?;
        tell(&settled);
        Ok(OfflineHome {
            reading,
            world: OnceLock::new(),
            refused: Mutex::default(),
            caller: Caller::myself(),
            patience,
        })
    }

    /// Returns, once, why no session could be begun: what the commands of a line hear of it is an errno, and no remedy.
    pub fn refusal(&self) -> Option<Error> {
        self.refused.lock().untold.take()
    }

    /// Returns what can be looked at.
    fn store_view(&self) -> StoreView<'_> {
        match self.world.get() {
            Some(world) => world.store_view(),
            None => self.reading.store_view(),
        }
    }

    /// Returns attributes as they are shown: links in the trash do not count.
    fn shown(&self, meta: Meta) -> Meta {
        let nlink = match self.world.get() {
            Some(world) => world.links_shown(&meta, false),
            None => self.reading.links_shown(&meta),
        };
        Meta { nlink, ..meta }
    }

    /// Returns the world for a change; its session begins with the first.
    fn world(&self) -> Result<&World> {
        if let Some(world) = self.world.get() {
            return Ok(world);
        }
        let mut refused = self.refused.lock();
        if let Some(world) = self.world.get() {
            return Ok(world);
        }
        if let Some((when, error)) = &refused.last
            && when.elapsed() < DESPAIR
        {
            return Err(error.clone());
        }
        match self.begin() {
            Ok(world) => Ok(self.world.get_or_init(|| world)),
            Err(error) => {
                let heard = match &error {
                    Error::Refused { .. } | Error::Damaged(_) => Error::os("flock")(Errno::BUSY),
                    other => other.clone(),
                };
                refused.last = Some((Instant::now(), heard.clone()));
                refused.untold = Some(error);
                Err(heard)
            }
        }
    }

    fn begin(&self) -> Result<World> {
        let options = self.reading.options();
        let root = self.reading.root().again()?;
        let claim = self.reading.claimed();
        // A directory's own lock is held until the store has one.
        let (located, _directory) = match claim {
            Some(Claim::Store(file)) => (Some(file), None),
            Some(Claim::Directory(file)) => (None, Some(file)),
            None => (None, None),
        };
        match World::over((root, located), options) {
            Ok((world, settled)) => {
                tell(&settled);
                Ok(world)
            }
            Err(error) => {
                self.reading.take_again();
                Err(error)
            }
        }
    }

    /// Opens what is there, or makes it where nothing is.
    fn write_or_make(&self, dir: &Dir, name: Name<'_>, how: Writing, mode: u32) -> Result<File> {
        let store_view = self.store_view();
        // Looking first, because trying to make what is there leaves a record of what did not happen.
        match store_view.hold(dir, name) {
            Ok(_) if how == Writing::New => Err(Error::Exists),
            Ok(located) if located.node.meta().is_dir() => Err(Error::IsDirectory),
            Ok(located) => {
                store_view.view().changeable(&located.path, false)?;
                let world = self.world()?;
                world.open_file(&located, how.flags(), &NoOpenState, self.caller)
            }
            Err(Error::NotFound) => {
                store_view.view().vacant(dir, name, false)?;
                let (world, flags) = (self.world()?, how.flags() | OFlags::EXCL);
                let made = world.create(dir, name, flags, mode, &NoOpenState, self.caller);
                made.map(|created| created.file)
            }
            Err(error) => Err(error),
        }
        .map(File::from)
    }
}

fn tell(settled: &[Settled]) {
    for found in settled {
        log::info!("{found}");
    }
}

impl Drop for OfflineHome {
    fn drop(&mut self) {
        if let Some(world) = self.world.get() {
            world.close();
        }
    }
}

impl Home for OfflineHome {
    fn begin_line(&self, changes: bool) -> Result<()> {
        if !changes || self.world.get().is_some() {
            return Ok(());
        }
        match self.reading.claim(self.patience) {
            Ok(true) => Ok(()),
            // Somebody else has changed it, and what is known of it is old.
            Ok(false) => self.world().map(drop),
            Err(error) => {
                self.refused.lock().untold = Some(error);
                Err(Error::os("flock")(Errno::BUSY))
            }
        }
    }

    fn end_line(&self) {
        if self.world.get().is_none() {
            self.reading.unclaim();
        }
    }

    fn stat(&self, path: &WorldPath) -> Result<Meta> {
        self.store_view().stat(path).map(|meta| self.shown(meta))
    }

    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>> {
        let store_view = self.store_view();
        let dir = store_view.dir(dir)?;
        let stat = |name: &&[u8]| {
            let found = store_view.lookup(&dir, Name::new(name)?)?;
            Ok(self.shown(found.meta))
        };
        Ok(names.iter().map(stat).collect())
    }

    fn open(&self, path: &WorldPath) -> Result<File> {
        let store_view = self.store_view();
        store_view.read(&store_view.find(path)?).map(File::from)
    }

    fn open_write(&self, path: &WorldPath, how: Writing, mode: u32) -> Result<File> {
        if path.is_root() {
            return Err(how.onto_directory());
        }
        let (dir, name) = self.store_view().parent(path)?;
        for _ in 0..TRIES {
            let outcome = self.write_or_make(&dir, name, how, mode);
            let again = match &outcome {
                _ if how == Writing::New => false,
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
        store_view.view().vacant(&dir, name, true)?;
        if store_view.lookup(&dir, name).is_ok() {
            return Err(Error::Exists);
        }
        self.world()?.mkdir(&dir, name, mode, self.caller).map(drop)
    }

    fn remove(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.store_view().parent(path)?;
        self.store_view().lookup(&dir, name)?;
        self.world()?.unlink(&dir, name, self.caller).map(drop)
    }

    fn remove_dir(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.store_view().parent(path)?;
        self.store_view().lookup(&dir, name)?;
        self.world()?.rmdir(&dir, name, self.caller).map(drop)
    }

    fn remove_tree(&self, path: &WorldPath, _: &dyn Fn() -> bool) -> Result<()> {
        let (dir, name) = self.store_view().parent(path)?;
        if !self.store_view().lookup(&dir, name)?.meta.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.world()?.discard(&dir, name, self.caller).map(drop)
    }

    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()> {
        let (dir, name) = self.store_view().parent(from)?;
        let (new_dir, new_name) = self.store_view().parent(to)?;
        self.store_view().lookup(&dir, name)?;
        let how = match replace {
            true => Renaming::Replace,
            false => Renaming::NoReplace,
        };
        self.world()?
            .rename(&dir, name, &new_dir, new_name, how, self.caller)
            .map(drop)
    }

    fn set_attrs(&self, path: &WorldPath, change: &SetAttrs) -> Result<()> {
        let located = self.store_view().find(path)?;
        let change = SetAttrs {
            size: None,
            ..*change
        };
        self.world()?
            .set_attr(&located, change, None, &NoOpenState, self.caller)
            .map(drop)
    }
}
