//! [`AgentFork`]: the fork of a project in which an agent works where no home can be mounted.
//!
//! Owns where such a fork lies (in the state home of the project's owner), what lies beside it, and how its changes come
//! into the project: as one run, when the agent has ended. The fork's own `.trumanfs` lies beside it meanwhile, where no
//! sandbox shows it: what it says of the fork's origin decides what counts as changed there. A killed agent leaves its
//! fork behind; the next one in the project finds it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, flock};
use rustix::io::Errno;

use super::target::{Client, PinnedDir};
use crate::error::{Error, FailureKind, Result};
use crate::name::{EscapedBytes, Name, escape};
use crate::operator::closed_nodes::make_usable;
use crate::operator::merge::{MergeReport, MergeRequest};
use crate::operator::undo::OnConflict;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::forked::ForkMethod;
use crate::world::store::layout::{STATE, TRASH, is_unfinished_fork};
use crate::world::store::place::{AgentForks, agent_forks, known_agent_forks};
use crate::world::trash::erase::erase;
use crate::world::{Root, Run, RunId, World};

/// The fork's own directories, and their names beside it.
const MOVED: [(&[u8], &str); 2] = [(STATE, "state"), (TRASH, "trash")];
/// The directory that is `/tmp` for the agent, beside the fork.
const TMP: &str = "tmp";
/// The directory that the fork lies in, alone: its name is the project's.
const FORKS: &str = "fork";
/// The name of the fork of a project whose directory has no name.
const UNNAMED: &str = "project";

const DIR_FLAGS: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A fork that an agent works in.
#[derive(Debug)]
pub struct AgentFork {
    origin: Client,
    /// The path at which programs see the fork.
    home: PathBuf,
    above: AgentForks,
    /// The directory of the fork and of what lies beside it. Locked as long as this lives.
    dir: OwnedFd,
    /// The name of that directory.
    name: String,
    /// The path of the fork from there.
    fork: Vec<u8>,
    root: OwnedFd,
    scratch: OwnedFd,
    owner: (u32, u32),
    /// True once something may have been changed in it.
    is_used: AtomicBool,
}

impl Drop for AgentFork {
    /// Removes a fork that nothing was begun in.
    fn drop(&mut self) {
        if !self.is_used.load(Ordering::Relaxed) {
            let _ = remove(&self.above, &self.name);
        }
    }
}

impl PinnedDir {
    /// Opens the directory as a store; one that nobody has mounted yet becomes a store first, as by mounting it.
    ///
    /// # Errors
    /// As [`PinnedDir::is_store`], and those of making its `.trumanfs`.
    pub fn open_or_begin(&self) -> Result<Client> {
        if !self.is_store()? {
            let (world, _) = World::open_offline_root(self.root().duplicate_for_changes()?)?;
            world.close();
        }
        self.client()
    }
}

impl Client {
    /// Makes a fork of this store for an agent, which sees it at the store's path, or `in_place`, at its own. It shares the contents of the store's files where the file system can,
    /// else it has copies.
    ///
    /// # Errors
    /// As [`Client::fork`]; [`Error::Refused`] where there is no state home for it.
    pub fn fork_for_agent(self, in_place: bool) -> Result<AgentFork> {
        let meta = stat_fd(self.store.root().as_fd())?;
        let above = agent_forks(&meta).map_err(|error| no_place_error(&self.path, &error))?;
        let home = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let fork = home.file_name().unwrap_or(OsStr::new(UNNAMED));
        let fork = [FORKS.as_bytes(), fork.as_bytes()].join(&b'/');
        let name = format!("{}.{}", above.id, RunId::random());
        let make = |dir: &OwnedFd, name: &str| {
            rustix::fs::mkdirat(dir, name, Mode::RWXU).map_err(Error::os("mkdirat"))?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let made = open_beneath(dir.as_fd(), name.as_bytes(), flags, Mode::empty())?;
            if let Some((uid, gid)) = above.owner {
                let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                rustix::fs::fchown(&made, uid, gid).map_err(Error::os("fchown"))?;
            }
            Ok(made)
        };
        let dir = make(&above.dir, &name)?;
        flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("flock"))?;
        let place = above.path.join(&name).join(OsStr::from_bytes(&fork));
        let made = make(&dir, TMP).and_then(|scratch| {
            make(&dir, FORKS)?;
            match self.fork(&place, ForkMethod::Cloned) {
                // Blocks cannot be shared here.
                Err(error) if error.kind() == FailureKind::Refused => {
                    self.fork(&place, ForkMethod::Copied)?;
                }
                forked => drop(forked?),
            }
            let root = open_beneath(dir.as_fd(), &fork, DIR_FLAGS, Mode::empty())?;
            for (own, beside) in MOVED {
                match rustix::fs::renameat(&root, own, &dir, beside) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(Error::os("renameat")(errno)),
                }
            }
            Ok((root, scratch))
        });
        let (root, scratch) = made.inspect_err(|_| drop(remove(&above, &name)))?;
        let home = if in_place { place } else { home };
        Ok(AgentFork {
            owner: (meta.uid, meta.gid),
            origin: self,
            home,
            above,
            dir,
            name,
            fork,
            root,
            scratch,
            is_used: AtomicBool::new(false),
        })
    }

    /// Returns the forks that killed agents have left with changes that the project may not have. Each is a store again.
    ///
    /// # Errors
    /// Those of reading the directory of forks.
    pub fn forks_of_killed_agents(&self) -> Result<Vec<PathBuf>> {
        let meta = stat_fd(self.store.root().as_fd())?;
        let Some(above) = known_agent_forks(&meta) else {
            return Ok(Vec::new());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = rustix::fs::openat(&above.dir, ".", flags, Mode::empty());
        let mut found = Vec::new();
        for entry in Dir::new(listed.map_err(Error::os("openat"))?).map_err(Error::os("readdir"))? {
            let entry = entry.map_err(Error::os("readdir"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.split('.').next() != Some(&above.id) {
                continue;
            }
            let dir =
                rustix::fs::openat(&above.dir, &name, flags | OFlags::NOFOLLOW, Mode::empty());
            let Ok(dir) = dir else { continue };
            if flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            match fork_in(&dir) {
                Some(fork) => {
                    put_state_back(&dir, &fork)?;
                    found.push(above.path.join(&name).join(OsStr::from_bytes(&fork)));
                }
                // It was killed before there was a fork.
                None => remove(&above, &name)?,
            }
        }
        found.sort();
        Ok(found)
    }
}

impl AgentFork {
    /// Returns the store behind the project.
    pub fn client(&self) -> &Client {
        &self.origin
    }

    /// Returns the path at which programs see the fork.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the fork's path.
    pub fn path(&self) -> PathBuf {
        let dir = self.above.path.join(&self.name);
        dir.join(OsStr::from_bytes(&self.fork))
    }

    /// Returns the fork, open.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Returns the directory that is `/tmp` for the agent.
    pub fn scratch(&self) -> &OwnedFd {
        &self.scratch
    }

    /// Returns the path of the directory that is `/tmp` for the agent.
    pub fn scratch_path(&self) -> PathBuf {
        self.above.path.join(&self.name).join(TMP)
    }

    /// Returns the user and the group that the project is for.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }

    /// Notes that the agent begins: the fork stays until its changes are in the project.
    pub fn begin_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Brings what the agent has changed into the project, as this run, once nothing of the agent is left. What was
    /// changed in the project meanwhile stays: a fork's file for which there is another one now comes beside it
    /// (`NAME.from-FORK`). The fork goes, unless something did not come.
    ///
    /// # Errors
    /// As [`Client::merge`]; the fork is there then.
    pub fn bring_in(&self, run: &Run) -> Result<MergeReport> {
        put_state_back(&self.dir, &self.fork)?;
        let path = self.path();
        let fork = Client::open(&path)?;
        let request = MergeRequest {
            fork: EscapedBytes(path.as_os_str().as_bytes().to_vec()),
            paths: Vec::new(),
            choice: OnConflict::KeepBoth,
            dry_run: false,
            run: Some(run.clone()),
        };
        let report = self.origin.merge(&fork, &request)?;
        drop(fork);
        if report.failed.is_none() {
            remove(&self.above, &self.name)?;
        }
        Ok(report)
    }

    /// Removes a fork in which nothing has run.
    ///
    /// # Errors
    /// Those of removing.
    pub fn discard(&self) -> Result<()> {
        remove(&self.above, &self.name)
    }
}

fn no_place_error(project: &Path, error: &Error) -> Error {
    Error::refused(
        format!(
            "{}: there is no place for the agent's fork in the state home: {error}",
            project.display()
        ),
        "Set XDG_STATE_HOME to a directory that can be written to, outside the project.",
    )
}

/// Returns the name of the fork in its directory, if there is one.
fn fork_in(dir: &OwnedFd) -> Option<Vec<u8>> {
    let (own, beside) = MOVED[0];
    let is_moved = rustix::fs::statat(dir, beside, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let forks = open_beneath(dir.as_fd(), FORKS.as_bytes(), flags, Mode::empty()).ok()?;
    let mut names = Dir::new(forks).ok()?.flatten();
    let fork = names.find(|entry| {
        let name = entry.file_name().to_bytes();
        !matches!(name, b"." | b"..") && !is_unfinished_fork(name)
    })?;
    let fork = [FORKS.as_bytes(), fork.file_name().to_bytes()].join(&b'/');
    let state = [&fork, own].join(&b'/');
    let has_state = || open_beneath(dir.as_fd(), &state, DIR_FLAGS, Mode::empty()).is_ok();
    (is_moved || has_state()).then_some(fork)
}

/// Puts the fork's own directories back into it. What the agent has made by such a name is moved out of their way.
fn put_state_back(dir: &OwnedFd, fork: &[u8]) -> Result<()> {
    let root = open_beneath(dir.as_fd(), fork, DIR_FLAGS, Mode::empty())?;
    for (own, beside) in MOVED {
        let put = || rustix::fs::renameat_with(dir, beside, &root, own, RenameFlags::NOREPLACE);
        let mut done = put();
        if done == Err(Errno::EXIST) {
            let away = format!("{beside}-of-agent.{}", RunId::random());
            rustix::fs::renameat(&root, own, &root, &away).map_err(Error::os("renameat"))?;
            done = put();
        }
        match done {
            // It is there already, or there is none.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(Error::os("renameat2")(errno)),
        }
    }
    Ok(())
}

/// Removes the directory of a fork, with all in it.
fn remove(above: &AgentForks, name: &str) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = open_beneath(above.dir.as_fd(), name.as_bytes(), flags, Mode::empty())?;
    make_usable(Root::from_fd(dir)?)?;
    let again = rustix::io::fcntl_dupfd_cloexec(&above.dir, 0).map_err(Error::os("fcntl"))?;
    let root = Root::from_fd(again)?.for_operator();
    erase(
        &root,
        root.as_fd(),
        Name::new(name.as_bytes())?,
        &mut |_| {},
    )
    .map_err(|error| Error::System {
        what: format!(
            "{}: {error}",
            escape(above.path.join(name).as_os_str().as_bytes())
        ),
        remedy: "Remove it by hand: nothing needs it any more.".to_owned(),
    })
}
