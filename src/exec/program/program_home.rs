//! [`ProgramHome`]: a home in which real programs run under a policy.
//!
//! Owns what has to be open for that: the home, which stays mounted meanwhile, and what the policy looks paths up in.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::AtFlags;

use super::command::ProgramCommand;
use super::decision::{HomeDecision, decide_at};
use super::home_backing::{HomeBacking, for_sandbox};
use super::policy::{AllowedCommand, Policy, RootPaths};
use super::runnable::RunnableCommand;
use super::sandbox::{
    self, FurtherHome, LaunchError, Launcher, NetworkAccess, SandboxPlan, Step, WritableDir,
};
use crate::client::{
    self, AgentFork, Client, DirectorySite, HeldFor, HomeHold, PinnedDir, state_dirs,
};
use crate::error::{Error, Result};
use crate::exec::audit::StoreAuditLog;
use crate::exec::held_home::HeldHome;
use crate::exec::home_context::HomeContext;
use crate::exec::mounted_home::MountedHome;
use crate::name::escape;
use crate::world::store::layout::STATE;
use crate::world::{Root, SessionPatterns};

/// A home in which real programs run. It stays mounted while this lives.
pub struct ProgramHome {
    pub(super) place: HomeContext,
    /// The mounted home.
    home: OwnedFd,
    pub(super) launcher: Launcher,
    paths: RootPaths,
    /// The homes of further stores that programs work in.
    further: Vec<HeldHome>,
    /// The last to be dropped: descriptors in a home keep it from being unmounted.
    backing: HomeBacking,
}

impl ProgramHome {
    /// Opens the home behind a TARGET: a store, which is mounted for this where it is not, or a mounted home. `pinned` is
    /// the directory that TARGET must still be.
    ///
    /// # Errors
    /// As [`ProgramHome::is_for`] and [`HeldHome::open`].
    pub fn open(
        target: &Path,
        pinned: Option<&PinnedDir>,
        launcher: Launcher,
    ) -> Result<ProgramHome> {
        ProgramHome::open_with(target, pinned, &SessionPatterns::default(), launcher)
    }

    /// Opens the home behind a TARGET, as [`ProgramHome::open`]; these patterns hide and protect more as long as it is
    /// mounted.
    ///
    /// # Errors
    /// As [`ProgramHome::open`]; [`Error::Refused`] where it is mounted already without them.
    pub fn open_with(
        target: &Path,
        pinned: Option<&PinnedDir>,
        patterns: &SessionPatterns,
        launcher: Launcher,
    ) -> Result<ProgramHome> {
        let fits = |home: &Path| {
            sandbox::check_home(home).map_err(|error| Error::refused(error.to_string(), ""))
        };
        // A program will run, and its sandbox begins beside the rest of this.
        let entered = (entered_by(&launcher), patterns);
        let held = HeldHome::open(target, pinned, entered, &fits, &|hold| {
            prepare(&launcher, hold)
        })?;
        // The daemon answers, so its home can be looked at.
        ProgramHome::is_for(target)?;
        let HeldHome {
            place,
            home,
            runs,
            hold,
        } = held;
        let paths = rustix::io::fcntl_dupfd_cloexec(hold.client().root()?, 0);
        ProgramHome::over(
            HomeBacking::Mounted { runs, hold },
            (place, home),
            paths.map_err(Error::os("fcntl"))?,
            launcher,
        )
    }

    /// Makes a fork of a store, which must be no mounted home, for an agent to work in. `directory` is the store's.
    ///
    /// # Errors
    /// As [`PinnedDir::open_or_begin`] and [`Client::fork_for_agent`].
    pub fn forked(directory: &PinnedDir, launcher: Launcher) -> Result<ProgramHome> {
        let fork = directory.open_or_begin()?;
        let fork = fork.fork_for_agent(launcher.is_in_place())?;
        let again = || rustix::io::fcntl_dupfd_cloexec(fork.root(), 0).map_err(Error::os("fcntl"));
        let root = Root::from_fd(again()?)?;
        let audit = StoreAuditLog::new(fork.client().root()?, false);
        let place = HomeContext::new(
            Arc::new(MountedHome::over(root, None)),
            fork.home().as_os_str().as_bytes(),
            Some(Arc::new(audit)),
        );
        let (home, paths) = (again()?, again()?);
        let backing = HomeBacking::Forked(fork);
        ProgramHome::over(backing, (place, home), paths, launcher)
    }

    /// `paths`: where the policy looks paths up. In the store of a mounted home, because root may not get into the home of
    /// another user; what it shows besides is no danger: a decision says what is meant, not what can be reached.
    fn over(
        backing: HomeBacking,
        (place, home): (HomeContext, OwnedFd),
        paths: OwnedFd,
        launcher: Launcher,
    ) -> Result<ProgramHome> {
        let scratch = backing.scratch()?;
        Ok(ProgramHome {
            backing,
            place,
            home,
            launcher,
            paths: RootPaths::from(paths).with_scratch(scratch),
            further: Vec::new(),
        })
    }

    /// Returns whether programs see everything at its path outside, as they get no namespaces.
    pub fn is_in_place(&self) -> bool {
        self.launcher.is_in_place()
    }

    /// Returns the path of `/tmp` as programs see it.
    pub(super) fn scratch_path(&self) -> PathBuf {
        match self.fork() {
            Some(fork) if self.is_in_place() => fork.scratch_path(),
            None if self.is_in_place() => self.backing.scratch_path(),
            _ => "/tmp".into(),
        }
    }

    /// Returns that directory, at that path.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn scratch_dir(&self) -> std::result::Result<WritableDir, LaunchError> {
        let dir = self.backing.scratch();
        Ok(WritableDir {
            path: self.scratch_path(),
            dir: dir.map_err(|error| LaunchError::refused(Step::Source, error.to_string()))?,
        })
    }

    /// Returns the fork that the programs work in, if it is one.
    pub fn fork(&self) -> Option<&AgentFork> {
        match &self.backing {
            HomeBacking::Forked(fork) => Some(fork),
            HomeBacking::Mounted { .. } => None,
        }
    }

    /// Opens the home behind another TARGET, as [`ProgramHome::open`]: the programs see it at its own path, and what they
    /// change there belongs to their runs.
    ///
    /// # Errors
    /// As [`ProgramHome::open`]; [`Error::Refused`] where it lies in a home that they have already or around one, is for
    /// another user, or is read-only.
    pub fn add_further(
        &mut self,
        target: &Path,
        pinned: Option<&PinnedDir>,
        patterns: &SessionPatterns,
    ) -> Result<()> {
        ProgramHome::is_for(target)?;
        let HomeBacking::Mounted { runs, .. } = &self.backing else {
            return Err(ProgramHome::one_directory_error(target));
        };
        let runs = runs.clone();
        let taken: Vec<&Path> = self.paths().collect();
        let fits = |home: &Path| ProgramHome::expect_beside(home, &taken);
        let entered = (entered_by(&self.launcher), patterns);
        let held = HeldHome::open(target, pinned, entered, &fits, &|_| ())?;
        let home = held.hold.path();
        // Of one that is mounted already nobody was asked.
        fits(home)?;
        ProgramHome::expect_owner(home, held.hold.owner(), self.owner())?;
        if held.hold.is_read_only() {
            return Err(unfit_error(home, "the home is mounted read-only"));
        }
        runs.add_further(held.runs.clone());
        self.further.push(held);
        Ok(())
    }

    /// Checks that programs can have a home at a path, beside those at other ones.
    ///
    /// # Errors
    /// [`Error::Refused`] where it lies in one of these or around one, or where no home can be.
    pub fn expect_beside(home: &Path, taken: &[&Path]) -> Result<()> {
        let is_taken = |taken: &&&Path| taken.starts_with(home) || home.starts_with(taken);
        if let Some(taken) = taken.iter().find(is_taken) {
            let why = format!("the agent works in {} already", taken.display());
            return Err(unfit_error(home, &why));
        }
        sandbox::check_home(home).map_err(|error| Error::refused(error.to_string(), ""))
    }

    /// Checks that a further home belongs to the user and the group of the first one.
    ///
    /// # Errors
    /// [`Error::Refused`] where it does not.
    pub fn expect_owner(home: &Path, owner: (u32, u32), first: (u32, u32)) -> Result<()> {
        if owner == first {
            return Ok(());
        }
        let why = "it belongs to another user than the agent's home";
        Err(unfit_error(home, why))
    }

    /// Returns the error for a further directory of an agent in a fork.
    pub fn one_directory_error(target: &Path) -> Error {
        let what = "an agent in a fork works in one directory";
        Error::refused(
            format!("{}: {what}", target.display()),
            "Leave --also out, or --home fork.",
        )
    }

    /// Returns the paths of all homes as programs see them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let further = self.further.iter().map(|held| held.hold.path());
        std::iter::once(self.path()).chain(further)
    }

    /// Returns the stores behind the further homes.
    pub fn further_clients(&self) -> impl Iterator<Item = &Client> {
        self.further.iter().map(|held| held.hold.client())
    }

    /// Checks that TARGET is not a directory in a home: programs see the whole of one.
    ///
    /// # Errors
    /// [`Error::Usage`] where it is one.
    pub fn is_for(target: &Path) -> Result<()> {
        let below = match client::site(target)? {
            DirectorySite::Store => return Ok(()),
            DirectorySite::Home => Client::open(target)?
                .in_home(OsStr::new(""))
                .unwrap_or_default(),
        };
        if below.is_root() {
            return Ok(());
        }
        let below = escape(below.bytes());
        Err(Error::usage(
            format!(
                "{}: it lies in a home, and is {below} there",
                target.display()
            ),
            format!(
                "A program sees the whole of a home: give the home. `trumanfs run` takes `--cwd {below}`."
            ),
        ))
    }

    /// Decides about a command, and whether it can run in this home with the network that it asks for.
    ///
    /// # Errors
    /// The rule that refuses it; those of [`RunnableCommand::new`].
    pub(super) fn ready(&self, policy: &Policy, command: &ProgramCommand) -> HomeDecision {
        let allowed = decide_at(&self.paths, self.place.root(), policy, command)?;
        self.runnable(allowed, command)
    }

    /// Returns a command that the policy allows as it can run in this home.
    ///
    /// # Errors
    /// As [`RunnableCommand::new`].
    pub(super) fn runnable(
        &self,
        allowed: AllowedCommand,
        command: &ProgramCommand,
    ) -> HomeDecision {
        RunnableCommand::new(allowed, self.is_read_only(), command.network.as_ref())
    }

    /// Has the next sandbox begun ahead, while nothing runs; returns at once.
    pub(super) fn prepare(&self) {
        let (uid, gid) = self.owner();
        self.launcher.prepare(uid, gid);
    }

    /// Returns whether nothing in the home can be changed.
    pub(super) fn is_read_only(&self) -> bool {
        self.backing.is_read_only()
    }

    /// Opens the scratch directory of the session.
    ///
    /// # Errors
    /// Errors of `fcntl(2)` and `statx(2)`.
    pub fn scratch(&self) -> Result<Root> {
        Root::from_fd(self.backing.scratch()?)
    }

    /// Returns whether the daemon of a home has ended, and the home with it.
    pub fn is_lost(&self) -> bool {
        self.backing.is_lost() || self.further.iter().any(HeldHome::is_lost)
    }

    /// Returns the store behind the home.
    pub fn client(&self) -> &Client {
        self.backing.client()
    }

    /// Returns the user and the group that the home is for.
    pub fn owner(&self) -> (u32, u32) {
        self.backing.owner()
    }

    /// Returns whether the root of a home has an entry of this name.
    pub fn has_entry(&self, name: &str) -> bool {
        let further = self.further.iter().map(|held| &held.home);
        let mut homes = std::iter::once(&self.home).chain(further);
        homes.any(|home| rustix::fs::statat(home, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Returns the home's path as programs in it see it.
    pub fn path(&self) -> &Path {
        self.backing.path()
    }

    /// Returns where the programs work.
    pub fn place(&self) -> &HomeContext {
        &self.place
    }

    /// Makes the plan of a sandbox in this home, with these streams and no program.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn plan(
        &self,
        [stdin, stdout, stderr]: [OwnedFd; 3],
    ) -> std::result::Result<SandboxPlan, LaunchError> {
        let (uid, gid) = self.owner();
        let mut further_homes = Vec::with_capacity(self.further.len());
        let mut private = self.backing.state_dirs();
        for held in &self.further {
            let is_detached = held.hold.only_in_sandboxes();
            further_homes.push(FurtherHome {
                home: for_sandbox(&held.hold, &held.home)?,
                is_detached,
                path: held.hold.path().to_owned(),
            });
            private.extend(state_dirs(held.hold.client()));
        }
        let scratch = self.backing.scratch();
        Ok(SandboxPlan {
            home: self.backing.for_sandbox(&self.home)?,
            home_is_detached: self.backing.only_in_sandboxes(),
            further_homes,
            home_path: self.path().to_owned(),
            cwd: self.path().to_owned(),
            read_only: self.is_read_only(),
            scratch: scratch
                .map_err(|error| LaunchError::refused(Step::Source, error.to_string()))?,
            argv: Vec::new(),
            env: Vec::new(),
            search_path: None,
            bind_ro: Vec::new(),
            private,
            state_name: STATE,
            writable: Vec::new(),
            placed: Vec::new(),
            etc_files: Vec::new(),
            ptrace: false,
            uid,
            gid,
            limits: sandbox::ResourceLimits::default(),
            stdin,
            stdout,
            stderr,
            terminal: None,
            network: NetworkAccess::None,
        })
    }
}

fn unfit_error(home: &Path, why: &str) -> Error {
    let what = format!("{}: {why}", home.display());
    Error::refused(what, "Give another directory.")
}

/// Returns who enters a home: bubblewrap finds it by its path.
fn entered_by(launcher: &Launcher) -> HeldFor {
    match launcher.needs_paths() {
        true if launcher.is_in_place() => HeldFor::Programs,
        true => HeldFor::Host,
        false => HeldFor::Sandboxes,
    }
}

fn prepare(launcher: &Launcher, hold: &HomeHold) {
    let (uid, gid) = hold.owner();
    launcher.prepare(uid, gid);
}
