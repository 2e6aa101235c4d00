//! [`ProgramHome`]: a home in which real programs run under a policy.
//!
//! Owns what has to be open for that: the home, which stays mounted meanwhile, and what the policy looks paths up in.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::AtFlags;

use super::command::ProgramCommand;
use super::decision::{HomeDecision, decide_at};
use super::policy::{AllowedCommand, Policy, RootPaths};
use super::runnable::RunnableCommand;
use super::sandbox::{self, LaunchError, Launcher, NetworkAccess, SandboxPlan, Step};
use crate::client::{self, Client, DirectorySite, HeldFor, HomeHold, PinnedDir, state_dirs};
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
        // Bubblewrap finds the home by its path.
        let entered = match launcher.needs_paths() {
            true => HeldFor::Host,
            false => HeldFor::Sandboxes,
        };
        // A program will run, and its sandbox begins beside the rest of this.
        let held = HeldHome::open(target, pinned, entered, &fits, &|hold| {
            prepare(&launcher, hold)
        })?;
        // The daemon answers, so its home can be looked at.
        ProgramHome::is_for(target)?;
        let HeldHome { place, home, hold } = held;
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
        })
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

    /// Returns whether the home's daemon has ended, and the home with it.
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Returns the store behind the home.
    pub fn client(&self) -> &Client {
        self.hold.client()
    }

    /// Returns the user and the group that the home is for.
    pub fn owner(&self) -> (u32, u32) {
        self.hold.owner()
    }

    /// Returns whether the home's root has an entry of this name.
    pub fn has_entry(&self, name: &str) -> bool {
        rustix::fs::statat(&self.home, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
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
        let detached = self.hold.only_in_sandboxes();
        let home = match detached {
            true => self
                .hold
                .open_home()
                .map_err(|error| LaunchError::refused(Step::Source, error.to_string()))?,
            false => again(&self.home)?,
        };
        Ok(SandboxPlan {
            home,
            home_is_detached: detached,
            home_path: self.hold.path().to_owned(),
            cwd: self.hold.path().to_owned(),
            read_only: self.is_read_only(),
            scratch: again(self.hold.scratch())?,
            argv: Vec::new(),
            env: Vec::new(),
            search_path: None,
            bind_ro: Vec::new(),
            private: state_dirs(self.client()),
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

fn prepare(launcher: &Launcher, hold: &HomeHold) {
    let (uid, gid) = hold.owner();
    launcher.prepare(uid, gid);
}
