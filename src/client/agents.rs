//! The files that are kept for agents of a store: a directory for each agent (login, settings, history), and a mark for each
//! run, by which the next run learns of runs that were killed.
//!
//! A mark is locked while its run is under way. It is called after the agent and the run, `NAME.RUN`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, Uid, flock};
use rustix::io::Errno;

use super::agent_login::{LentLogin, is_lent_by, lent_by, return_login};
use super::target::Client;
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::operator::closed_nodes::make_usable;
use crate::operator::unknown_writer::StoreSnapshot;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::{AGENT_RUNS, AGENTS};
use crate::world::store::place;
use crate::world::trash::erase::erase;
use crate::world::{Root, RunId};

/// The directories and the mark of an agent's run in its store. A killed run leaves its mark behind.
#[derive(Debug)]
pub struct AgentPlace {
    home: OwnedFd,
    marks: OwnedFd,
    /// Locked as long as this lives. Names the logins that the run was lent.
    mark: OwnedFd,
    name: String,
    owner: (u32, u32),
    run: RunId,
}

/// A run of an agent that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsettledRun {
    /// The agent's name.
    pub name: String,
    /// The run's id.
    pub run: String,
    /// The paths of what an unknown writer changed directly in the store since it began, where no wall kept the run from
    /// that; the error where it cannot be told.
    pub unknown: std::result::Result<Vec<WorldPath>, String>,
}

impl Client {
    /// Makes ready what a run of an agent has in this store. `name` is a file name without dots at its front; `owner`:
    /// to whom the agent's directory belongs.
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
        let home = self.agent_home(name, owner)?;
        // An earlier run may have closed it, or what stays in it, to the user that both run as.
        make_usable(root_of(&home)?)?;
        let marks = directory(state, AGENT_RUNS, None)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = format!("{name}.{run}");
        let mark = with_marks_locked(&marks, || {
            let mark = rustix::fs::openat(&marks, &file, flags, Mode::RUSR | Mode::WUSR)
                .map_err(Error::os("openat"))?;
            flock(&mark, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("flock"))?;
            Ok(mark)
        })?;
        Ok(AgentPlace {
            home,
            marks,
            mark,
            name: name.to_owned(),
            owner,
            run,
        })
    }

    /// Opens an agent's own directory: in the state home of the store's owner, but for one that lies in the store's state
    /// from before, or where no directory can be made there.
    fn agent_home(&self, name: &str, owner: (u32, u32)) -> Result<OwnedFd> {
        let state = self.store.state().as_fd();
        let known = open(state, AGENTS).and_then(|homes| open(homes.as_fd(), name));
        if !matches!(known, Err(Error::NotFound)) {
            let homes = directory(state, AGENTS, None)?;
            return directory(homes.as_fd(), name, Some(owner));
        }
        let homes = place::agent_homes(&stat_fd(self.store.root().as_fd())?);
        let homes = homes.or_else(|_| directory(state, AGENTS, None))?;
        directory(homes.as_fd(), name, Some(owner))
    }

    /// Returns the runs of agents that were killed, and forgets them. The logins that they were lent are taken back.
    ///
    /// # Errors
    /// Errors of reading the directory of marks.
    pub fn settle_agents(&self) -> Result<Vec<UnsettledRun>> {
        let state = self.store.state().as_fd();
        let marks = match open(state, AGENT_RUNS) {
            Err(Error::NotFound) => return Ok(Vec::new()),
            marks => marks?,
        };
        with_marks_locked(&marks, || {
            let mut files = marks_in(&marks)?;
            let mut live = files.clone();
            live.retain(|file| is_under_way(&marks, file));
            files.retain(|file| !live.contains(file));
            files.sort();
            let mut found = Vec::new();
            for file in files {
                let lent = lent_by(&read_mark(&marks, &file));
                if let Some((name, run)) = file.rsplit_once('.') {
                    let of_agent =
                        |file: &&String| file.rsplit_once('.').is_some_and(|(n, _)| n == name);
                    let live = live.iter().filter(of_agent);
                    let live: Vec<_> = live.map(|file| read_mark(&marks, file)).collect();
                    self.take_logins_back(name, &lent, &live);
                    let unknown = self.settle_snapshot(&marks, &file, run);
                    let unknown = unknown.map_err(|error| error.full_message());
                    let (name, run) = (name.to_owned(), run.to_owned());
                    found.push(UnsettledRun { name, run, unknown });
                }
                let gone = rustix::fs::unlinkat(&marks, &file, AtFlags::empty());
                gone.map_err(Error::os_on("unlinkat", || format!("{file:?}")))?;
            }
            Ok(found)
        })
    }
}

impl Client {
    /// Records what an unknown writer changed since a killed run took a snapshot, if it did. Returns the paths.
    fn settle_snapshot(&self, marks: &OwnedFd, file: &str, run: &str) -> Result<Vec<WorldPath>> {
        let snapshot = snapshot_of(file);
        let read = open_mark(marks, &snapshot, OFlags::RDONLY).ok();
        // One that is not whole was not finished: nothing had been started.
        let since = read.and_then(|file| serde_json::from_reader(BufReader::new(file)).ok());
        let found = match (since, run.parse()) {
            (Some(since), Ok(run)) => self.record_unknown_writes(&since, run),
            _ => Ok(Vec::new()),
        };
        let _ = rustix::fs::unlinkat(marks, &snapshot, AtFlags::empty());
        found
    }

    /// Takes logins back from a run of an agent that was killed. `live`: the marks of its other runs.
    fn take_logins_back(&self, name: &str, lent: &[LentLogin], live: &[Vec<u8>]) {
        let (Some(user_home), false) = (std::env::home_dir(), lent.is_empty()) else {
            return;
        };
        let state = self.store.state().as_fd();
        let known = open(state, AGENTS).and_then(|homes| open(homes.as_fd(), name));
        let homes = || place::agent_homes(&stat_fd(self.store.root().as_fd())?);
        let home = known.or_else(|_| open(homes()?.as_fd(), name));
        let usable = home.as_ref().ok().and_then(|home| root_of(home).ok());
        let _ = usable.map(make_usable);
        for login in lent {
            let stays = live.iter().any(|mark| is_lent_by(mark, &login.path));
            // What became of it is told of no run that nobody sees any more.
            let _ = home
                .as_ref()
                .map(|home| return_login(home, &user_home, login, stays));
        }
    }
}

impl AgentPlace {
    /// Acts while no run of an agent of this store begins, or settles.
    ///
    /// # Errors
    /// Errors of `flock(2)` and of the act.
    pub(super) fn with_marks_locked<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        with_marks_locked(&self.marks, act)
    }

    /// Opens what programs have closed in the agent's own directory.
    pub(super) fn make_home_usable(&self) -> Result<()> {
        make_usable(root_of(&self.home)?).map(drop)
    }

    /// Returns whether other runs of the same agent are under way.
    pub(super) fn has_other_runs(&self) -> bool {
        !self.other_runs().is_empty()
    }

    /// Writes the content of the run's mark.
    ///
    /// # Errors
    /// Errors of `pwrite(2)`.
    pub(super) fn write_mark(&self, content: &[u8]) -> Result<()> {
        let mut at = 0;
        while let Some(rest) = content.get(at..).filter(|rest| !rest.is_empty()) {
            at += rustix::io::pwrite(&self.mark, rest, at as u64).map_err(Error::os("pwrite"))?;
        }
        rustix::fs::fdatasync(&self.mark).map_err(Error::os("fdatasync"))
    }

    /// Keeps a snapshot of the store beside the run's mark, for whoever comes after a run that is killed.
    ///
    /// # Errors
    /// Errors of `open(2)` and `write(2)`.
    pub fn keep_snapshot(&self, snapshot: &StoreSnapshot) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = open_mark(&self.marks, &snapshot_of(&self.mark_name()), flags)?;
        let mut out = BufWriter::new(file);
        let written = serde_json::to_writer(&mut out, snapshot).map_err(std::io::Error::from);
        let written = written.and_then(|()| out.flush());
        written.map_err(|error| Error::io("write", &error))
    }

    /// Returns the content of the run's mark.
    pub(super) fn read_mark(&self) -> Vec<u8> {
        read_mark(&self.marks, &self.mark_name())
    }

    /// Returns the content of the marks of other runs of the same agent that are under way.
    pub(super) fn other_marks(&self) -> Vec<Vec<u8>> {
        let files = self.other_runs();
        files
            .iter()
            .map(|file| read_mark(&self.marks, file))
            .collect()
    }

    fn other_runs(&self) -> Vec<String> {
        let own = self.mark_name();
        let mut others = marks_in(&self.marks).unwrap_or_default();
        others.retain(|file| {
            let name = file.rsplit_once('.').map(|(name, _)| name);
            *file != own && name == Some(&self.name) && is_under_way(&self.marks, file)
        });
        others
    }

    /// Returns the id of its run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the agent's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the user and the group that the agent's own directory belongs to.
    pub(super) fn owner(&self) -> (u32, u32) {
        self.owner
    }

    /// Returns the agent's own directory.
    pub fn home(&self) -> &OwnedFd {
        &self.home
    }

    /// Returns the path of the agent's own directory outside a sandbox.
    ///
    /// # Errors
    /// Errors of `readlink(2)`.
    pub fn home_path(&self) -> Result<PathBuf> {
        let link = format!("/proc/self/fd/{}", self.home.as_raw_fd());
        std::fs::read_link(link).map_err(|error| Error::io("readlink", &error))
    }

    /// Ends the run: of the agent's directory only what is at these paths stays, unless the same agent is still under
    /// way elsewhere. Returns what could not be removed.
    pub fn end(self, kept: &[PathBuf]) -> Vec<PathBuf> {
        if self.has_other_runs() {
            Vec::new()
        } else {
            prune_all(&self.home, kept)
        }
    }

    fn mark_name(&self) -> String {
        format!("{}.{}", self.name, self.run)
    }
}

impl Drop for AgentPlace {
    /// Removes the mark: whoever gets here was not killed, whether the agent has run or not.
    fn drop(&mut self) {
        if let Some(user_home) = std::env::home_dir() {
            // Nothing is left of these where somebody has taken them back.
            let _ = self.return_logins(&user_home);
        }
        let mark = self.mark_name();
        for file in [snapshot_of(&mark), mark] {
            let _ = rustix::fs::unlinkat(&self.marks, file, AtFlags::empty());
        }
    }
}

/// Returns the name of the snapshot that lies beside a mark. It is no mark's.
fn snapshot_of(mark: &str) -> String {
    format!(".{mark}.files")
}

fn open_mark(marks: &OwnedFd, file: &str, flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(marks, file, flags, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(Error::os("openat"))
}

/// Does something while nobody else makes marks, or looks for those of killed runs: between a mark and its lock it
/// would look like one.
fn with_marks_locked<T>(marks: &OwnedFd, act: impl FnOnce() -> Result<T>) -> Result<T> {
    flock(marks, FlockOperation::LockExclusive).map_err(Error::os("flock"))?;
    let done = act();
    let _ = flock(marks, FlockOperation::Unlock);
    done
}

/// Removes everything in an agent's directory but what is kept. Nobody else works there any more.
fn prune_all(home: &OwnedFd, kept: &[PathBuf]) -> Vec<PathBuf> {
    let pruned = root_of(home).and_then(|root| {
        make_usable(root.duplicate()?)?;
        let mut left = Vec::new();
        prune_below(&root, &WorldPath::root(), kept, &mut left);
        Ok(left)
    });
    pruned.unwrap_or_else(|_| vec![PathBuf::from(".")])
}

fn prune_below(root: &Root, below: &WorldPath, kept: &[PathBuf], left: &mut Vec<PathBuf>) {
    let shown = |path: &WorldPath| PathBuf::from(OsStr::from_bytes(path.bytes()));
    let entries = root.dir(below).and_then(|dir| {
        let fd = root.read_dir(&dir)?;
        let listed = Dir::new(fd).map_err(Error::os("getdents64"))?;
        let names = listed.flatten().map(|entry| entry.file_name().to_owned());
        Ok((dir, names.collect::<Vec<_>>()))
    });
    let Ok((dir, names)) = entries else {
        return left.push(shown(below));
    };
    for name in names {
        let Ok(name) = Name::new(name.to_bytes()) else {
            continue; // `.` and `..`
        };
        let inner = below.join(name);
        let path = shown(&inner);
        if kept.iter().any(|kept| path.starts_with(kept)) {
            continue;
        }
        let holds_kept = kept.iter().any(|kept| kept.starts_with(&path));
        if holds_kept && dir.stat(name).is_ok_and(|meta| meta.is_dir()) {
            prune_below(root, &inner, kept, left);
            continue;
        }
        if erase(root, dir.as_fd(), name, &mut |_| {}).is_err() {
            left.push(path);
        }
    }
}

fn root_of(home: &OwnedFd) -> Result<Root> {
    Root::from_fd(rustix::io::fcntl_dupfd_cloexec(home, 0).map_err(Error::os("fcntl"))?)
}

/// Returns whether a run still has its mark locked.
fn is_under_way(marks: &OwnedFd, file: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(mark) = rustix::fs::openat(marks, file, flags, Mode::empty()) else {
        return false;
    };
    flock(&mark, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

/// Returns the content of a mark, which a run wrote for the next one.
fn read_mark(marks: &OwnedFd, file: &str) -> Vec<u8> {
    /// More than all logins of a profile take.
    const MAX_MARK_BYTES: u64 = 64 << 10;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut content = Vec::new();
    if let Ok(mark) = rustix::fs::openat(marks, file, flags, Mode::empty()) {
        let mut mark = File::from(mark).take(MAX_MARK_BYTES);
        let _ = mark.read_to_end(&mut content);
    }
    content
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
pub(super) fn directory(
    from: std::os::fd::BorrowedFd<'_>,
    name: &str,
    owner: Option<(u32, u32)>,
) -> Result<OwnedFd> {
    match rustix::fs::mkdirat(from, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(Error::os("mkdirat")(errno)),
    }
    let dir = match open(from, name) {
        // It belongs to whoever asks, and a program has closed it.
        Err(error) if error.is_denial() => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let closed = open_beneath(from, name.as_bytes(), flags, Mode::empty())?;
            make_usable(Root::from_fd(closed)?)?;
            open(from, name)?
        }
        dir => dir?,
    };
    if let Some((uid, gid)) = owner.filter(|_| rustix::process::geteuid().is_root()) {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::fchown(&dir, uid, gid).map_err(Error::os("fchown"))?;
    }
    Ok(dir)
}
