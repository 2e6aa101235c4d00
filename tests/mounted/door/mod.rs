//! The two doors to a world under one trait: a [`World`] opened in this process on an unmounted store, and a mounted
//! home through real system calls. Owns the translation of paths and errnos; the rules are the world's.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};
use trumanfs::error::{Error, Result};
use trumanfs::journal::{JournalReader, Record};
use trumanfs::name::{Name, WorldPath};
use trumanfs::world::store::layout::JOURNAL;
use trumanfs::world::{
    Caller, LocatedNode, NoOpenState, RenameMode, SetAttrs, ViewOptions, World, WorldOptions,
    new_session_id,
};

use crate::common::calls::{self, Errno, Sys};

/// What stat tells, as far as both doors must agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    /// 0 for directories, whose counts are the store's own affair.
    pub(crate) nlink: u64,
    pub(crate) size: u64,
}

/// Everything that is done to a home, by paths from its root.
pub(crate) trait Door {
    fn create(&self, path: &str, bytes: &[u8]) -> Sys<()>;
    fn overwrite(&self, path: &str, bytes: &[u8]) -> Sys<()>;
    fn append(&self, path: &str, bytes: &[u8]) -> Sys<()>;
    fn read(&self, path: &str) -> Sys<Vec<u8>>;
    fn stat(&self, path: &str) -> Sys<Seen>;
    fn list(&self, path: &str) -> Sys<Vec<String>>;
    fn mkdir(&self, path: &str) -> Sys<()>;
    fn mknod(&self, path: &str, kind: FileType) -> Sys<()>;
    fn symlink(&self, target: &str, path: &str) -> Sys<()>;
    fn link(&self, from: &str, path: &str) -> Sys<()>;
    fn unlink(&self, path: &str) -> Sys<()>;
    fn rmdir(&self, path: &str) -> Sys<()>;
    fn rename(&self, from: &str, to: &str, how: RenameMode) -> Sys<()>;
    fn truncate(&self, path: &str, size: u64) -> Sys<()>;
    fn chmod(&self, path: &str, mode: u32) -> Sys<()>;
    /// Ends the session and begins another.
    fn reopen(&mut self);
    /// The store behind it.
    fn store(&self) -> &Path;
    /// Has what was removed gathered, so that the store can be looked at.
    fn gather(&self);
}

/// The unmounted store.
pub(crate) struct InProcess {
    store: PathBuf,
    view: ViewOptions,
    world: Option<World>,
}

impl InProcess {
    pub(crate) fn open(store: &Path, view: ViewOptions) -> InProcess {
        let mut door = InProcess {
            store: store.to_owned(),
            view,
            world: None,
        };
        door.reopen();
        door
    }

    pub(crate) fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    fn at<T>(
        &self,
        path: &str,
        act: impl FnOnce(&World, &trumanfs::world::Dir, Name<'_>) -> Result<T>,
    ) -> Sys<T> {
        let work = || {
            let path = WorldPath::parse(path.as_bytes())?;
            let (dir, name) = self.world().parent(&path)?;
            act(self.world(), &dir, name)
        };
        work().map_err(|error| error.errno())
    }

    fn located<T>(
        &self,
        path: &str,
        act: impl FnOnce(&World, &LocatedNode) -> Result<T>,
    ) -> Sys<T> {
        self.at(path, |world, dir, name| {
            act(world, &world.locate(dir, name)?)
        })
    }

    fn write(&self, path: &str, flags: OFlags, bytes: &[u8]) -> Sys<()> {
        let file = self.located(path, |world, located| {
            world.open_file(
                located,
                OFlags::WRONLY | flags,
                &NoOpenState,
                Caller::myself(),
            )
        })?;
        File::from(file).write_all(bytes).unwrap();
        Ok(())
    }
}

impl Door for InProcess {
    fn create(&self, path: &str, bytes: &[u8]) -> Sys<()> {
        let flags = OFlags::WRONLY | OFlags::EXCL;
        let made = self.at(path, |world, dir, name| {
            world.create(dir, name, flags, 0o644, &NoOpenState, Caller::myself())
        })?;
        File::from(made.file).write_all(bytes).unwrap();
        Ok(())
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> Sys<()> {
        self.write(path, OFlags::TRUNC, bytes)
    }

    fn append(&self, path: &str, bytes: &[u8]) -> Sys<()> {
        self.write(path, OFlags::APPEND, bytes)
    }

    fn read(&self, path: &str) -> Sys<Vec<u8>> {
        let file = self.located(path, |world, located| {
            world.open_file(located, OFlags::RDONLY, &NoOpenState, Caller::myself())
        })?;
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    fn stat(&self, path: &str) -> Sys<Seen> {
        self.located(path, |world, located| {
            let meta = located.node.meta();
            let links = if meta.is_dir() {
                0
            } else {
                world.links_shown(meta, false)
            };
            Ok(Seen {
                kind: meta.kind,
                mode: meta.permissions(),
                nlink: links.into(),
                size: if meta.is_dir() { 0 } else { meta.size },
            })
        })
    }

    fn list(&self, path: &str) -> Sys<Vec<String>> {
        let work = || {
            let dir = self.world().dir(&WorldPath::parse(path.as_bytes())?)?;
            let mut names = Vec::new();
            self.world().list(&dir, 0, |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                }
                true
            })?;
            names.sort();
            Ok(names)
        };
        work().map_err(|error: Error| error.errno())
    }

    fn mkdir(&self, path: &str) -> Sys<()> {
        let made = self.at(path, |world, dir, name| {
            world.mkdir(dir, name, 0o755, Caller::myself())
        });
        made.map(drop)
    }

    fn mknod(&self, path: &str, kind: FileType) -> Sys<()> {
        let mode = kind.as_raw_mode() | 0o644;
        let made = self.at(path, |world, dir, name| {
            world.mknod(dir, name, mode, Caller::myself())
        });
        made.map(drop)
    }

    fn symlink(&self, target: &str, path: &str) -> Sys<()> {
        let made = self.at(path, |world, dir, name| {
            world.symlink(dir, name, target.as_bytes(), Caller::myself())
        });
        made.map(drop)
    }

    fn link(&self, from: &str, path: &str) -> Sys<()> {
        self.located(from, |world, located| {
            let path = WorldPath::parse(path.as_bytes())?;
            let (dir, name) = world.parent(&path)?;
            world.link(located, &dir, name, Caller::myself()).map(drop)
        })
    }

    fn unlink(&self, path: &str) -> Sys<()> {
        let removed = self.at(path, |world, dir, name| {
            world.unlink(dir, name, Caller::myself())
        });
        removed.map(drop)
    }

    fn rmdir(&self, path: &str) -> Sys<()> {
        let removed = self.at(path, |world, dir, name| {
            world.rmdir(dir, name, Caller::myself())
        });
        removed.map(drop)
    }

    fn rename(&self, from: &str, to: &str, how: RenameMode) -> Sys<()> {
        let moved = self.at(from, |world, dir, name| {
            let to = WorldPath::parse(to.as_bytes())?;
            let (new_dir, new_name) = world.parent(&to)?;
            world.rename(dir, name, &new_dir, new_name, how, Caller::myself())
        });
        moved.map(drop)
    }

    fn truncate(&self, path: &str, size: u64) -> Sys<()> {
        let change = SetAttrs {
            size: Some(size),
            ..SetAttrs::default()
        };
        let set = self.located(path, |world, located| {
            world.set_attr(located, change, None, &NoOpenState, Caller::myself())
        });
        set.map(drop)
    }

    fn chmod(&self, path: &str, mode: u32) -> Sys<()> {
        let change = SetAttrs {
            mode: Some(mode),
            ..SetAttrs::default()
        };
        let set = self.located(path, |world, located| {
            world.set_attr(located, change, None, &NoOpenState, Caller::myself())
        });
        set.map(drop)
    }

    fn reopen(&mut self) {
        if let Some(world) = self.world.take() {
            world.close();
        }
        let options = WorldOptions {
            view: self.view.clone(),
            session: new_session_id(),
            ..WorldOptions::default()
        };
        let (world, settled) = World::open(&self.store, options).unwrap();
        assert!(settled.is_empty(), "after a clean end: {settled:?}");
        self.world = Some(world);
    }

    fn store(&self) -> &Path {
        &self.store
    }

    fn gather(&self) {}
}

/// The mounted home.
pub(crate) struct Mounted(pub(crate) crate::common::Home);

impl Mounted {
    fn p(&self, path: &str) -> PathBuf {
        self.0.path(path)
    }

    fn write(&self, path: &str, flags: i32, bytes: &[u8]) -> Sys<()> {
        let file = calls::open(self.p(path), flags | calls::O_WRONLY, 0o644)?;
        File::from(file).write_all(bytes).unwrap();
        Ok(())
    }
}

impl Door for Mounted {
    fn create(&self, path: &str, bytes: &[u8]) -> Sys<()> {
        self.write(path, calls::O_CREAT | calls::O_EXCL, bytes)
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> Sys<()> {
        self.write(path, calls::O_TRUNC, bytes)
    }

    fn append(&self, path: &str, bytes: &[u8]) -> Sys<()> {
        self.write(path, calls::O_APPEND, bytes)
    }

    fn read(&self, path: &str) -> Sys<Vec<u8>> {
        fs::read(self.p(path)).map_err(|e| Errno::from_io_error(&e).unwrap())
    }

    fn stat(&self, path: &str) -> Sys<Seen> {
        let stat = calls::lstat(self.p(path))?;
        let dir = stat.kind == calls::S_IFDIR;
        Ok(Seen {
            kind: FileType::from_raw_mode(stat.kind),
            mode: stat.mode,
            nlink: if dir { 0 } else { stat.nlink },
            size: if dir { 0 } else { stat.size.cast_unsigned() },
        })
    }

    fn list(&self, path: &str) -> Sys<Vec<String>> {
        let names = calls::readdir(self.p(path))?;
        let mut names: Vec<_> = names
            .into_iter()
            .map(|n| n.into_string().unwrap())
            .collect();
        names.sort();
        Ok(names)
    }

    fn mkdir(&self, path: &str) -> Sys<()> {
        calls::mkdir(self.p(path), 0o755)
    }

    fn mknod(&self, path: &str, kind: FileType) -> Sys<()> {
        calls::mknod(self.p(path), kind.as_raw_mode() | 0o644, 0)
    }

    fn symlink(&self, target: &str, path: &str) -> Sys<()> {
        calls::symlink(target, self.p(path))
    }

    fn link(&self, from: &str, path: &str) -> Sys<()> {
        calls::link(self.p(from), self.p(path))
    }

    fn unlink(&self, path: &str) -> Sys<()> {
        calls::unlink(self.p(path))
    }

    fn rmdir(&self, path: &str) -> Sys<()> {
        calls::rmdir(self.p(path))
    }

    fn rename(&self, from: &str, to: &str, how: RenameMode) -> Sys<()> {
        let flags = match how {
            RenameMode::Replace => 0,
            RenameMode::NoReplace => calls::RENAME_NOREPLACE,
            RenameMode::Exchange => calls::RENAME_EXCHANGE,
        };
        calls::renameat2(self.p(from), self.p(to), flags)
    }

    fn truncate(&self, path: &str, size: u64) -> Sys<()> {
        calls::truncate(self.p(path), size.cast_signed())
    }

    fn chmod(&self, path: &str, mode: u32) -> Sys<()> {
        calls::chmod(self.p(path), mode)
    }

    fn reopen(&mut self) {
        let output = self.0.remount();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "", "after a clean end");
    }

    fn store(&self) -> &Path {
        self.0.store()
    }

    fn gather(&self) {
        self.0.gather();
    }
}

/// Reads every journal of a store; panics where a chain is broken or a number is missing.
pub(crate) fn journals(store: &Path) -> Vec<Record> {
    let mut sessions: Vec<_> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sessions.sort();
    let mut all = Vec::new();
    for session in sessions {
        let file = BufReader::new(File::open(session.join(JOURNAL)).unwrap());
        for (record, seq) in JournalReader::new(file).zip(1..) {
            let record = record.unwrap_or_else(|error| panic!("{}: {error}", session.display()));
            assert_eq!(record.seq, seq, "{}", session.display());
            all.push(record);
        }
    }
    all
}
