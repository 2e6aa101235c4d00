//! What a store keeps for agents: a directory of its own for each (login, settings, history), and a mark for each run, by
//! which the next one learns of those that were killed.
//!
//! A mark is locked while its run is under way. It is called after the agent and the run, `NAME.RUN`.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, Uid, flock};
use rustix::io::Errno;

use super::target::Client;
use crate::error::{Error, Result};
use crate::world::RunId;
use crate::world::layout::{AGENT_RUNS, AGENTS};
use crate::world::root::open_beneath;

/// What a run of an agent has in its store. Whoever is killed leaves a mark behind.
#[derive(Debug)]
pub struct AgentPlace {
    home: OwnedFd,
    marks: OwnedFd,
    /// Locked as long as this lives.
    _mark: OwnedFd,
    name: String,
    run: RunId,
}

/// A run of an agent that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// The agent's name.
    pub name: String,
    /// The run's id.
    pub run: String,
}

impl Client {
    /// Makes ready what a run of an agent has in this store. `name` is a file name without dots at its front; `owner`: to
    /// whom the agent's directory belongs.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that is none; what `mkdir(2)`, `chown(2)` and `open(2)` say.
    pub fn agent_place(&self, name: &str, owner: (u32, u32)) -> Result<AgentPlace> {
        let run = RunId::random();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(Error::usage(
                format!("{name}: an agent's name has letters, digits, - and _ only"),
                "Give it another name.",
            ));
        }
        let state = self.store.state().as_fd();
        let homes = directory(state, AGENTS, None)?;
        let home = directory(homes.as_fd(), name, Some(owner))?;
        let marks = directory(state, AGENT_RUNS, None)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = format!("{name}.{run}");
        let mark = alone(&marks, || {
            let mark = rustix::fs::openat(&marks, &file, flags, Mode::RUSR | Mode::WUSR)
                .map_err(Error::os("openat"))?;
            flock(&mark, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("flock"))?;
            Ok(mark)
        })?;
        Ok(AgentPlace {
            home,
            marks,
            _mark: mark,
            name: name.to_owned(),
            run,
        })
    }

    /// Returns the runs of agents that were killed, and forgets them.
    ///
    /// # Errors
    /// What reading the directory of marks says.
    pub fn settle_agents(&self) -> Result<Vec<Unsettled>> {
        let state = self.store.state().as_fd();
        let marks = match open(state, AGENT_RUNS) {
            Err(Error::NotFound) => return Ok(Vec::new()),
            marks => marks?,
        };
        alone(&marks, || {
            let mut files = marks_in(&marks)?;
            files.retain(|file| !is_under_way(&marks, file));
            files.sort();
            let mut found = Vec::new();
            for file in files {
                let gone = rustix::fs::unlinkat(&marks, &file, AtFlags::empty());
                gone.map_err(Error::os_on("unlinkat", || format!("{file:?}")))?;
                if let Some((name, run)) = file.rsplit_once('.') {
                    let (name, run) = (name.to_owned(), run.to_owned());
                    found.push(Unsettled { name, run });
                }
            }
            Ok(found)
        })
    }
}

impl AgentPlace {
    /// Returns the id of its run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the agent's own directory.
    pub fn home(&self) -> &OwnedFd {
        &self.home
    }

    /// Ends the run: of the agent's directory only what is at these paths stays, unless the same agent is still under way
    /// elsewhere. Returns what could not be removed.
    pub fn end(self, kept: &[PathBuf]) -> Vec<PathBuf> {
        let own = format!("{}.{}", self.name, self.run);
        let others = marks_in(&self.marks).unwrap_or_default();
        let is_shared = others.iter().any(|file| {
            let name = file.rsplit_once('.').map(|(name, _)| name);
            *file != own && name == Some(&self.name) && is_under_way(&self.marks, file)
        });
        let mut left = Vec::new();
        if !is_shared {
            let top = PathBuf::from(format!("/proc/self/fd/{}", self.home.as_raw_fd()));
            prune(&top, Path::new(""), kept, &mut left);
        }
        let _ = rustix::fs::unlinkat(&self.marks, &own, AtFlags::empty());
        left
    }
}

/// Does something while nobody else makes marks, or looks for those of killed runs: between a mark and its lock it would
/// look like one.
fn alone<T>(marks: &OwnedFd, act: impl FnOnce() -> Result<T>) -> Result<T> {
    flock(marks, FlockOperation::LockExclusive).map_err(Error::os("flock"))?;
    let done = act();
    let _ = flock(marks, FlockOperation::Unlock);
    done
}

/// Removes everything below a directory but what is kept. Nobody else works there any more.
fn prune(top: &Path, below: &Path, kept: &[PathBuf], left: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(top.join(below)) else {
        return left.push(below.to_owned());
    };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if kept.iter().any(|kept| path.starts_with(kept)) {
            continue;
        }
        if is_dir && kept.iter().any(|kept| kept.starts_with(&path)) {
            prune(top, &path, kept, left);
            continue;
        }
        let whole = top.join(&path);
        let removed = match is_dir {
            true => std::fs::remove_dir_all(&whole),
            false => std::fs::remove_file(&whole),
        };
        if removed.is_err() {
            left.push(path);
        }
    }
}

/// Returns whether a run still has its mark locked.
fn is_under_way(marks: &OwnedFd, file: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(mark) = rustix::fs::openat(marks, file, flags, Mode::empty()) else {
        return false;
    };
    flock(&mark, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

fn marks_in(marks: &OwnedFd) -> Result<Vec<String>> {
    let entries = Dir::read_from(marks).map_err(Error::os("readdir"))?;
    let names = entries.flatten().filter_map(|entry| {
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_str()?;
        (!name.starts_with('.')).then(|| name.to_owned())
    });
    Ok(names.collect())
}

fn open(from: std::os::fd::BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open_beneath(from, name.as_bytes(), flags, Mode::empty())
}

/// Opens a directory, and makes it where it is not there.
fn directory(
    from: std::os::fd::BorrowedFd<'_>,
    name: &str,
    owner: Option<(u32, u32)>,
) -> Result<OwnedFd> {
    match rustix::fs::mkdirat(from, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(Error::os("mkdirat")(errno)),
    }
    let dir = open(from, name)?;
    if let Some((uid, gid)) = owner.filter(|_| rustix::process::geteuid().is_root()) {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::fchown(&dir, uid, gid).map_err(Error::os("fchown"))?;
    }
    Ok(dir)
}
