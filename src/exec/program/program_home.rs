//! [`ProgramHome`]: a home in which real programs run under a policy.
//!
//! Owns what has to be open for that: the home, which stays mounted meanwhile, and what the policy looks paths up in.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::AtFlags;

use super::command::ProgramCommand;
use super::decision::{HomeDecision, decide_at};
use super::policy::{AllowedCommand, Policy, RootPaths};
use super::runnable::RunnableCommand;
use super::sandbox::{self, FurtherHome, LaunchError, Launcher, NetworkAccess, SandboxPlan, Step};
use crate::client::{
    self, Client, DirectorySite, HeldFor, HomeHold, PinnedDir, RunRegistry, state_dirs,
};
use crate::error::{Error, Result};
use crate::exec::held_home::HeldHome;
use crate::exec::home_context::HomeContext;
use crate::name::escape;
use crate::world::Root;
use crate::world::store::layout::STATE;

/// A home in which real programs run. It stays mounted while this lives.
pub struct ProgramHome {
    pub(super) place: HomeContext,
    /// The mounted home.
    home: OwnedFd,
    pub(super) launcher: Launcher,
    paths: RootPaths,
    runs: Arc<RunRegistry>,
    /// The homes of further stores that programs work in.
    further: Vec<HeldHome>,
    /// The last to be dropped: descriptors in a home keep it from being unmounted.
    hold: HomeHold,
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
        let fits = |home: &Path| {
            sandbox::check_home(home).map_err(|error| Error::refused(error.to_string(), ""))
        };
        // A program will run, and its sandbox begins beside the rest of this.
        let held = HeldHome::open(target, pinned, entered_by(&launcher), &fits, &|hold| {
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
        let client = hold.client();
        // Of the store, because root may not get into the home of another user; what it shows besides is no danger: a
        // decision says what is meant, not what can be reached.
        let paths = rustix::io::fcntl_dupfd_cloexec(client.root()?, 0);
        let paths = paths.map_err(Error::os("fcntl"))?;
        let scratch = rustix::io::fcntl_dupfd_cloexec(hold.scratch(), 0);
        let scratch = scratch.map_err(Error::os("fcntl"))?;
        Ok(ProgramHome {
            hold,
            place,
            home,
            launcher,
            paths: RootPaths::from(paths).with_scratch(scratch),
            runs,
            further: Vec::new(),
        })
    }

    /// Opens the home behind another TARGET, as [`ProgramHome::open`]: the programs see it at its own path, and what they
    /// change there belongs to their runs.
    ///
    /// # Errors
    /// As [`ProgramHome::open`]; [`Error::Refused`] where it lies in a home that they have already or around one, is for
    /// another user, or is read-only.
    pub fn add_further(&mut self, target: &Path, pinned: Option<&PinnedDir>) -> Result<()> {
        ProgramHome::is_for(target)?;
        let refused = |home: &Path, why: &str| {
            let what = format!("{}: {why}", home.display());
            Err(Error::refused(what, "Give another directory."))
        };
        let taken: Vec<&Path> = self.paths().collect();
        let fits = |home: &Path| {
            let is_taken = |taken: &&Path| taken.starts_with(home) || home.starts_with(taken);
            match taken.iter().find(|taken| is_taken(taken)) {
                Some(taken) => {
                    let why = format!("the agent works in {} already", taken.display());
                    refused(home, &why)
                }
                None => {
                    sandbox::check_home(home).map_err(|error| Error::refused(error.to_string(), ""))
                }
            }
        };
        let entered = entered_by(&self.launcher);
        let held = HeldHome::open(target, pinned, entered, &fits, &|_| ())?;
        let home = held.hold.path();
        // Of one that is mounted already nobody was asked.
        fits(home)?;
        if held.hold.owner() != self.hold.owner() {
            return refused(home, "it belongs to another user than the agent's home");
        }
        if held.hold.is_read_only() {
            return refused(home, "the home is mounted read-only");
        }
        self.runs.add_further(held.runs.clone());
        self.further.push(held);
        Ok(())
    }

    fn holds(&self) -> impl Iterator<Item = &HomeHold> {
        std::iter::once(&self.hold).chain(self.further.iter().map(|held| &held.hold))
    }

    /// Returns the paths of all homes as programs see them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.holds().map(HomeHold::path)
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
        prepare(&self.launcher, &self.hold);
    }

    /// Returns whether nothing in the home can be changed.
    pub(super) fn is_read_only(&self) -> bool {
        self.hold.is_read_only()
    }

    /// Opens the scratch directory of the session.
    ///
    /// # Errors
    /// Errors of `fcntl(2)` and `statx(2)`.
    pub fn scratch(&self) -> Result<Root> {
        let again = rustix::io::fcntl_dupfd_cloexec(self.hold.scratch(), 0);
        Root::from_fd(again.map_err(Error::os("fcntl"))?)
    }

    /// Returns whether the daemon of a home has ended, and the home with it.
    pub fn is_lost(&self) -> bool {
        self.holds().any(HomeHold::is_lost)
    }

    /// Returns the store behind the home.
    pub fn client(&self) -> &Client {
        self.hold.client()
    }

    /// Returns the user and the group that the home is for.
    pub fn owner(&self) -> (u32, u32) {
        self.hold.owner()
    }

    /// Returns whether the root of a home has an entry of this name.
    pub fn has_entry(&self, name: &str) -> bool {
        let further = self.further.iter().map(|held| &held.home);
        let mut homes = std::iter::once(&self.home).chain(further);
        homes.any(|home| rustix::fs::statat(home, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Returns the home's path as programs in it see it.
    pub fn path(&self) -> &Path {
        self.hold.path()
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
        let again = |fd: &OwnedFd| Ok::<_, LaunchError>(rustix::io::fcntl_dupfd_cloexec(fd, 0)?);
        let (uid, gid) = self.hold.owner();
        let shown = |hold: &HomeHold, home: &OwnedFd| match hold.only_in_sandboxes() {
            true => hold
                .open_home()
                .map_err(|error| LaunchError::refused(Step::Source, error.to_string())),
            false => again(home),
        };
        let mut further_homes = Vec::with_capacity(self.further.len());
        for held in &self.further {
            further_homes.push(FurtherHome {
                home: shown(&held.hold, &held.home)?,
                is_detached: held.hold.only_in_sandboxes(),
                path: held.hold.path().to_owned(),
            });
        }
        Ok(SandboxPlan {
            home: shown(&self.hold, &self.home)?,
            home_is_detached: self.hold.only_in_sandboxes(),
            further_homes,
            home_path: self.hold.path().to_owned(),
            cwd: self.hold.path().to_owned(),
            read_only: self.is_read_only(),
            scratch: again(self.hold.scratch())?,
            argv: Vec::new(),
            env: Vec::new(),
            search_path: None,
            bind_ro: Vec::new(),
            private: self
                .holds()
                .flat_map(|hold| state_dirs(hold.client()))
                .collect(),
            state_name: STATE,
            writable: Vec::new(),
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

/// Returns who enters a home: bubblewrap finds it by its path.
fn entered_by(launcher: &Launcher) -> HeldFor {
    match launcher.needs_paths() {
        true => HeldFor::Host,
        false => HeldFor::Sandboxes,
    }
}

fn prepare(launcher: &Launcher, hold: &HomeHold) {
    let (uid, gid) = hold.owner();
    launcher.prepare(uid, gid);
}
