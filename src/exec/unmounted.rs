//! [`StoredHome`]: a store that nobody has mounted, worked in through the world in process, under the store's lock.
//!
//! Every rule is the world's: what exists, what a removal means, what is kept and recorded. Symlinks do not exist for the
//! shell, whatever the store is mounted with at other times.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::home::{Entry, Home, Writing};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::{
    Caller, Change, Meta, NoDoor, Renaming, Symlinks, ViewOptions, World, WorldOptions,
    new_session_id,
};

/// How often a file that comes and goes at the hands of others is looked for before it is said to be absent.
const TRIES: usize = 32;

/// A home that is a store of its own: a session of it, which ends with this value.
#[derive(Debug)]
pub struct StoredHome {
    world: World,
    caller: Caller,
}

impl StoredHome {
    /// Opens a store, locks it and begins a session. What an earlier session left open is settled first.
    ///
    /// # Errors
    /// As [`World::open`]; [`Error::Refused`] names the home where the store is mounted.
    pub fn open(store: &Path) -> Result<StoredHome> {
        StoredHome::with(store, ViewOptions::default())
    }

    /// Opens a store in which only what these options say exists or may be changed.
    ///
    /// # Errors
    /// As [`StoredHome::open`]; [`Error::Refused`] for a pattern that is none.
    pub fn with(store: &Path, view: ViewOptions) -> Result<StoredHome> {
        let options = WorldOptions {
            session: new_session_id(),
            view: ViewOptions {
                symlinks: Symlinks::Hidden,
                ..view
            },
            ..WorldOptions::default()
        };
        let (world, settled) = World::open(store, options)?;
        for found in settled {
            log::info!("session {}: {}", found.session, found.what);
        }
        Ok(StoredHome {
            world,
            caller: Caller::myself(),
        })
    }
}

impl Drop for StoredHome {
    fn drop(&mut self) {
        self.world.close();
    }
}

impl Home for StoredHome {
    fn stat(&self, path: &WorldPath) -> Result<Meta> {
        let mut meta = match path.is_root() {
            true => *self.world.find(path)?.node.meta(),
            false => {
                let (dir, name) = self.world.parent(path)?;
                self.world.lookup(&dir, name)?.meta
            }
        };
        meta.nlink = self.world.links_shown(&meta, false);
        Ok(meta)
    }

    fn open(&self, path: &WorldPath) -> Result<File> {
        let held = self.world.find(path)?;
        let file = self
            .world
            .open_file(&held, OFlags::RDONLY, &NoDoor, self.caller)?;
        Ok(File::from(file))
    }

    fn write(&self, path: &WorldPath, how: Writing, mode: u32) -> Result<File> {
        if path.is_root() {
            return Err(how.onto_directory());
        }
        let (dir, name) = self.world.parent(path)?;
        let (flags, only_new) = (how.flags(), how.flags() | OFlags::EXCL);
        let world = &self.world;
        let make = || world.create(&dir, name, only_new, mode, &NoDoor, self.caller);
        for _ in 0..TRIES {
            // Looking first, because trying to make what is there leaves a record of what did not happen.
            let found = match how {
                Writing::New => Err(Error::NotFound),
                Writing::Truncate | Writing::Append => world.hold(&dir, name),
            };
            let outcome = match found {
                Ok(held) => world.open_file(&held, flags, &NoDoor, self.caller),
                Err(Error::NotFound) => make().map(|created| created.file),
                Err(error) => Err(error),
            };
            let again = match &outcome {
                _ if how == Writing::New => false,
                // It came after the look.
                Err(Error::Exists) => true,
                // It went after the look, unless something that does not exist for the shell is in the way.
                Err(Error::NotFound) => match dir.stat(name) {
                    Ok(meta) => world.view().exists(&dir, name, &meta),
                    Err(_) => true,
                },
                _ => false,
            };
            if !again {
                return outcome.map(File::from);
            }
        }
        Err(Error::NotFound)
    }

    fn list(&self, path: &WorldPath) -> Result<Vec<Entry>> {
        let dir = self.world.dir(path)?;
        let mut found = Vec::new();
        self.world.list(&dir, 0, |entry| {
            let Ok(name) = Name::new(entry.name) else {
                return true; // `.` and `..`
            };
            let kind = match entry.kind {
                FileType::Unknown => dir.stat(name).ok().map(|meta| meta.kind),
                kind => Some(kind),
            };
            if let Some(kind) = kind {
                let (name, ino) = (name.bytes().to_vec(), entry.ino);
                found.push(Entry { name, kind, ino });
            }
            true
        })?;
        Ok(found)
    }

    fn mkdir(&self, path: &WorldPath, mode: u32) -> Result<()> {
        if path.is_root() {
            return Err(Error::Exists);
        }
        let (dir, name) = self.world.parent(path)?;
        self.world.mkdir(&dir, name, mode, self.caller).map(drop)
    }

    fn remove(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.world.parent(path)?;
        self.world.unlink(&dir, name, self.caller).map(drop)
    }

    fn remove_dir(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.world.parent(path)?;
        self.world.rmdir(&dir, name, self.caller).map(drop)
    }

    fn remove_tree(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.world.parent(path)?;
        if !self.world.lookup(&dir, name)?.meta.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.world.discard(&dir, name, self.caller).map(drop)
    }

    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()> {
        let (dir, name) = self.world.parent(from)?;
        let (new_dir, new_name) = self.world.parent(to)?;
        let how = match replace {
            true => Renaming::Replace,
            false => Renaming::NoReplace,
        };
        self.world
            .rename(&dir, name, &new_dir, new_name, how, self.caller)
            .map(drop)
    }

    fn set(&self, path: &WorldPath, change: &Change) -> Result<()> {
        let held = self.world.find(path)?;
        let change = Change {
            size: None,
            ..*change
        };
        self.world
            .set_attr(&held, change, None, &NoDoor, self.caller)
            .map(drop)
    }
}
