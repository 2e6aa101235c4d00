//! [`MountedHome`]: a home that is mounted, worked in by descriptor like any other program does.
//!
//! The daemon behind the mount applies the rules; nothing here knows them. Removing here is unlink(2), which the daemon
//! makes a move into the trash. Symlinks, where a home shows them, do not exist for the shell.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, Dir as Listing, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid,
};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};

use super::home::{DirEntry, Home, HomeUnavailable, MAX_LOOKUPS, RequestStart, WriteMode};
use crate::client::{LiveRun, RunRegistry};
use crate::error::{Error, Result};

use crate::name::{Name, WorldPath};
use crate::world::root::open_beneath;
use crate::world::{Dir, Meta, Node, Root, Run, RunId, SetAttrs, SetTime, TurnMark};

/// A home by its mountpoint's descriptor. Each request has one, which belongs to it alone.
#[derive(Debug)]
pub struct MountedHome {
    root: Arc<Root>,
    /// The registry of runs, if this process may register its runs there.
    runs: Option<Arc<RunRegistry>>,
    /// The run of the request, where it may change something.
    run: Option<RunRegistration>,
    changed: AtomicBool,
}

/// A run that the daemon knows of, from the first part of it on that may change something.
#[derive(Debug)]
struct RunRegistration {
    run: Run,
    live: OnceLock<Option<LiveRun>>,
    /// The error because of which the daemon does not know the run.
    trouble: Mutex<Option<Error>>,
}

impl RunRegistration {
    /// Keeps the first trouble.
    fn note<T>(&self, registered: Result<T>) -> Option<T> {
        registered
            .map_err(|error| self.trouble.lock().get_or_insert(error).clone())
            .ok()
    }
}

impl MountedHome {
    /// Opens a directory of a mounted home as the root of what exists.
    ///
    /// # Errors
    /// Errors of `open(2)`; `ENOTDIR`.
    pub fn open(path: &Path) -> Result<MountedHome> {
        MountedHome::with(path, None)
    }

    /// Opens a directory of a mounted home, whose daemon is told of runs.
    ///
    /// # Errors
    /// As [`MountedHome::open`].
    pub fn with(path: &Path, runs: Option<Arc<RunRegistry>>) -> Result<MountedHome> {
        Root::open(path).map(|root| MountedHome::of(Arc::new(root), runs, None))
    }

    /// Makes one of the open root of a mounted home.
    pub(super) fn over(root: Root, runs: Option<Arc<RunRegistry>>) -> MountedHome {
        MountedHome::of(Arc::new(root), runs, None)
    }

    fn of(
        root: Arc<Root>,
        runs: Option<Arc<RunRegistry>>,
        run: Option<RunRegistration>,
    ) -> MountedHome {
        MountedHome {
            root,
            runs,
            run,
            changed: AtomicBool::new(false),
        }
    }

    fn unlink(&self, dir: &Dir, name: Name<'_>, flags: AtFlags) -> Result<()> {
        let unlinked = rustix::fs::unlinkat(dir, name.bytes(), flags);
        self.changed(unlinked.map_err(Error::os("unlinkat")))
    }

    /// Notes that something has been changed.
    fn changed<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_ok() {
            self.changed.store(true, Ordering::Relaxed);
        }
        done
    }

    fn parent<'a>(&self, path: &'a WorldPath) -> Result<(Dir, Name<'a>)> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::os("resolve")(rustix::io::Errno::BUSY));
        };
        Ok((self.root.dir(&parent)?, name))
    }

    /// Returns what exists for the shell.
    fn node(&self, path: &WorldPath) -> Result<Node> {
        let node = self.root.node(path)?;
        if node.meta().kind == FileType::Symlink {
            return Err(Error::NotFound);
        }
        Ok(node)
    }

    /// Opens what is there: no descriptor of anything but a regular file is ever opened for more than looking at it.
    fn reopen(&self, path: &WorldPath, flags: OFlags) -> Result<File> {
        let node = self.node(path)?;
        if node.meta().is_dir() {
            return Err(Error::IsDirectory);
        }
        self.root.reopen(&node, flags).map(File::from)
    }

    /// Repeats an act on a file that has got another inode meanwhile: a copy that is the store's alone.
    fn on_present_file<T>(act: impl Fn() -> Result<T>) -> Result<T> {
        match act() {
            Err(error) if error.errno() == rustix::io::Errno::STALE => act(),
            done => done,
        }
    }

    fn set_attrs_of(&self, node: &Node, change: &SetAttrs) -> Result<()> {
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(node, "", uid, gid, AtFlags::EMPTY_PATH)
                .map_err(Error::os("chownat"))?;
        }
        // After the owner, whose change takes set-id bits away (chown(2)).
        if let Some(mode) = change.mode {
            self.root.chmod(node, mode)?;
        }
        if (change.atime, change.mtime) != (SetTime::Keep, SetTime::Keep) {
            let times = Timestamps {
                last_access: timespec(change.atime),
                last_modification: timespec(change.mtime),
            };
            rustix::fs::utimensat(node, "", &times, AtFlags::EMPTY_PATH)
                .map_err(Error::os("utimensat"))?;
        }
        self.changed(Ok(()))
    }

    /// Turns `EEXIST` for something that does not exist for the shell into the answer for what is absent.
    fn taken(&self, path: &WorldPath, error: Error) -> Error {
        match (error, self.node(path)) {
            (Error::Exists, Err(Error::NotFound)) => Error::NotFound,
            (error, _) => error,
        }
    }

    /// Removes what is in a directory, and it: all of it, or only what does not exist for the shell. Goes on as long as
    /// `go_on` says so.
    fn remove_with(&self, top: &WorldPath, all: bool, go_on: &dyn Fn() -> bool) -> Result<()> {
        let unlink = |dir: &Dir, name: Name<'_>, flags: AtFlags| match go_on() {
            true => self.unlink(dir, name, flags),
            false => Err(Error::os("unlinkat")(rustix::io::Errno::INTR)),
        };
        // Each directory comes a second time once all in it has been removed.
        let mut pending = vec![(top.clone(), false)];
        while let Some((path, emptied)) = pending.pop() {
            if emptied {
                let (dir, name) = self.parent(&path)?;
                unlink(&dir, name, AtFlags::REMOVEDIR)?;
                continue;
            }
            let dir = self.root.dir(&path)?;
            pending.push((path, true));
            for (name, kind, _) in self.entries(&dir)? {
                let name = Name::new(&name)?;
                match kind {
                    FileType::Directory if all => pending.push((dir.path().join(name), false)),
                    FileType::Symlink => unlink(&dir, name, AtFlags::empty())?,
                    _ if all => unlink(&dir, name, AtFlags::empty())?,
                    _ => return Err(Error::NotEmpty),
                }
            }
        }
        Ok(())
    }

    /// Returns what a directory lists, links too.
    fn entries(&self, dir: &Dir) -> Result<Vec<(Vec<u8>, FileType, u64)>> {
        let fd = self.root.read_dir(dir)?;
        let mut found = Vec::new();
        for entry in Listing::read_from(&fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let Ok(name) = Name::new(entry.file_name().to_bytes()) else {
                continue; // `.` and `..`
            };
            let kind = match entry.file_type() {
                FileType::Unknown => match dir.stat(name) {
                    Ok(meta) => meta.kind,
                    Err(_) => continue,
                },
                kind => kind,
            };
            found.push((name.bytes().to_vec(), kind, entry.ino()));
        }
        Ok(found)
    }
}

impl Home for MountedHome {
    fn begin(
        self: Arc<Self>,
        request: &RequestStart<'_>,
    ) -> std::result::Result<Arc<dyn Home>, HomeUnavailable> {
        let run = request.changes.then(|| RunRegistration {
            run: request.run.clone(),
            live: OnceLock::new(),
            trouble: Mutex::default(),
        });
        let (root, runs) = (self.root.clone(), self.runs.clone());
        Ok(Arc::new(MountedHome::of(root, runs, run)))
    }

    fn run_part(&self, part: &mut dyn FnMut()) {
        let (Some(runs), Some(registered)) = (&self.runs, &self.run) else {
            return part();
        };
        // The thread that begins a run works for it.
        let mut begins = false;
        let live = registered.live.get_or_init(|| {
            begins = true;
            registered.note(runs.begin(&registered.run))
        });
        let joined = live.as_ref().filter(|_| !begins);
        let _member = joined.and_then(|live| registered.note(live.join()));
        part();
    }

    fn add_program(&self, process: u32) {
        let (Some(runs), Some(registered)) = (&self.runs, &self.run) else {
            return;
        };
        let begin = || registered.note(runs.begin_for_programs(&registered.run));
        if let Some(live) = registered.live.get_or_init(begin) {
            registered.note(live.add_program(process));
        }
    }

    fn take_programs(&self, of: RunId) -> Option<bool> {
        let (runs, registered) = (self.runs.as_ref()?, self.run.as_ref()?);
        let (live, recorded) = runs.follow(&registered.run, of).ok()??;
        registered.live.set(Some(live)).ok()?;
        Some(recorded)
    }

    fn add_everybody(&self) -> Result<()> {
        let (Some(runs), Some(registered)) = (&self.runs, &self.run) else {
            return Ok(());
        };
        let begin = || registered.note(runs.begin(&registered.run));
        match registered.live.get_or_init(begin) {
            Some(live) => live.add_everybody(),
            None => Ok(()),
        }
    }

    fn programs_go_on(&self) {
        let live = self.run.as_ref().and_then(|run| run.live.get()?.as_ref());
        // As below.
        if live.is_some_and(|live| live.has_recorded().unwrap_or(true)) {
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    fn mark(&self, mark: &TurnMark) -> Result<()> {
        let live = self.run.as_ref().and_then(|run| run.live.get()?.as_ref());
        match live {
            Some(live) => live.mark(mark),
            None => Err(Error::refused("the records do not name the run", "")),
        }
    }

    fn programs_have_ended(&self) {
        let live = self.run.as_ref().and_then(|run| run.live.get()?.as_ref());
        // Where the daemon cannot be asked any more, it may have.
        if live.is_some_and(|live| live.end().unwrap_or(true)) {
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    fn warning(&self) -> Option<String> {
        let trouble = self.run.as_ref()?.trouble.lock().take()?;
        Some(format!("the records do not name the run: {trouble}"))
    }

    fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    fn stat(&self, path: &WorldPath) -> Result<Meta> {
        self.node(path).map(|node| *node.meta())
    }

    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>> {
        let dir = self.root.dir(dir)?;
        let stat = |name: &&[u8]| match dir.stat(Name::new(name)?)? {
            meta if meta.kind == FileType::Symlink || meta.mount_root => Err(Error::NotFound),
            meta => Ok(meta),
        };
        Ok(names.iter().map(stat).collect())
    }

    fn open(&self, path: &WorldPath) -> Result<File> {
        self.reopen(path, OFlags::RDONLY)
    }

    fn open_write(&self, path: &WorldPath, how: WriteMode, mode: u32) -> Result<File> {
        if path.is_root() {
            return Err(how.directory_error());
        }
        let (dir, name) = self.parent(path)?;
        let flags = how.flags() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let make = || open_beneath(dir.as_fd(), name.bytes(), flags | OFlags::CLOEXEC, mode);
        for _ in 0..MAX_LOOKUPS {
            // Made, or opened by what was looked at: a FIFO in the way must neither be opened nor hold the shell up.
            match make() {
                Err(Error::Exists) if how != WriteMode::New => {}
                made => {
                    return self
                        .changed(made)
                        .map(File::from)
                        .map_err(|error| self.taken(path, error));
                }
            }
            match MountedHome::on_present_file(|| self.reopen(path, how.flags())) {
                // It went in between, unless a link is in the way, which does not exist for the shell.
                Err(Error::NotFound)
                    if !dir
                        .stat(name)
                        .is_ok_and(|meta| meta.kind == FileType::Symlink) => {}
                opened => return self.changed(opened),
            }
        }
        Err(Error::NotFound)
    }

    fn list(&self, path: &WorldPath) -> Result<Vec<DirEntry>> {
        let found = self.entries(&self.root.dir(path)?)?.into_iter();
        Ok(found
            .filter(|(_, kind, _)| *kind != FileType::Symlink)
            .map(|(name, kind, ino)| DirEntry { name, kind, ino })
            .collect())
    }

    fn mkdir(&self, path: &WorldPath, mode: u32) -> Result<()> {
        if path.is_root() {
            return Err(Error::Exists);
        }
        let (dir, name) = self.parent(path)?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let made = rustix::fs::mkdirat(&dir, name.bytes(), mode);
        self.changed(made.map_err(Error::os("mkdirat")))
            .map_err(|error| self.taken(path, error))
    }

    fn remove(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.node(path)?;
        self.unlink(&dir, name, AtFlags::empty())
    }

    fn remove_dir(&self, path: &WorldPath) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.node(path)?;
        match self.unlink(&dir, name, AtFlags::REMOVEDIR) {
            // Links in it do not exist for the shell, so they go with it.
            Err(Error::NotEmpty) => self.remove_with(path, false, &|| true),
            removed => removed,
        }
    }

    fn remove_tree(&self, path: &WorldPath, go_on: &dyn Fn() -> bool) -> Result<()> {
        if path.is_root() {
            return self.parent(path).map(drop);
        }
        if !self.node(path)?.meta().is_dir() {
            return Err(Error::NotDirectory);
        }
        // The daemon gathers what this process removes from a directory under the directory's entry.
        self.remove_with(path, true, go_on)
    }

    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()> {
        let (dir, name) = self.parent(from)?;
        let (new_dir, new_name) = self.parent(to)?;
        self.node(from)?;
        let hidden = || {
            new_dir
                .stat(new_name)
                .is_ok_and(|meta| meta.kind == FileType::Symlink)
        };
        if replace && hidden() {
            return Err(Error::NotFound);
        }
        let flags = match replace {
            true => RenameFlags::empty(),
            false => RenameFlags::NOREPLACE,
        };
        let (from, into) = (name.bytes(), new_name.bytes());
        let renamed = rustix::fs::renameat_with(&dir, from, &new_dir, into, flags);
        self.changed(renamed.map_err(Error::os("renameat2")))
            .map_err(|error| self.taken(to, error))
    }

    fn set_attrs(&self, path: &WorldPath, change: &SetAttrs) -> Result<()> {
        MountedHome::on_present_file(|| self.set_attrs_of(&self.node(path)?, change))
    }
}

fn timespec(time: SetTime) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        SetTime::Keep => (0, UTIME_OMIT),
        SetTime::Now => (0, UTIME_NOW),
        SetTime::To(time) => (time.sec, time.nsec.into()),
    };
    Timespec { tv_sec, tv_nsec }
}
