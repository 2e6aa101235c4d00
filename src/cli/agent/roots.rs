//! The directories that an agent works in: the project, and further ones, each a store of its own.
//!
//! Owns which further ones there are: those that were asked for, and the git directory of a project that has it elsewhere
//! and is named there.

use std::path::{Path, PathBuf};

use super::super::output::warn;
use super::args::AgentArgs;
use crate::client::{Client, ForeseenHome, OuterGitDirectory, PinnedDir, SessionPatterns};
use crate::error::{Error, Result};
use crate::exec::program::ProgramHome;

/// The directories that an agent works in, for rules about what else it gets: those of open homes, or of homes that would
/// be opened.
pub(super) struct AgentHomes {
    /// The user and the group that it works as.
    pub(super) owner: (u32, u32),
    /// The homes' paths, as the agent sees them; its own first.
    pub(super) paths: Vec<PathBuf>,
    /// The stores behind them.
    pub(super) stores: Vec<PathBuf>,
}

impl AgentHomes {
    /// Returns those of open homes.
    pub(super) fn open(programs: &ProgramHome) -> AgentHomes {
        let clients = std::iter::once(programs.client()).chain(programs.further_clients());
        AgentHomes {
            owner: programs.owner(),
            paths: programs.paths().map(Path::to_owned).collect(),
            stores: clients.map(|client| client.path().to_owned()).collect(),
        }
    }

    /// Returns those of homes that would be opened.
    pub(super) fn foreseen(own: &ForeseenHome, further: &[ForeseenHome]) -> AgentHomes {
        let all = || std::iter::once(own).chain(further);
        AgentHomes {
            owner: own.owner,
            paths: all().map(|home| home.path.clone()).collect(),
            stores: all().map(|home| home.store.clone()).collect(),
        }
    }

    /// Returns whether the project is the caller's, who then lets the agent have some of their own things.
    pub(super) fn are_callers(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.owner.0
    }

    /// Returns the caller's home directory, if the project is theirs.
    pub(super) fn caller_home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|_| self.are_callers())
    }
}

/// A directory that an agent works in, as it was found.
pub(super) struct AgentRoot {
    /// `None` for a home that this user may not look at, which is no directory to be made a store.
    pub(super) pinned: Option<PinnedDir>,
    was_store: bool,
}

impl AgentRoot {
    /// Looks a directory up, once: below another user's directory the path may be given to another one at any time.
    ///
    /// # Errors
    /// As [`AgentRoot::of`].
    fn look_up(path: &Path) -> Result<AgentRoot> {
        AgentRoot::of(PinnedDir::open(path), None)
    }

    /// Gives a directory that was looked up a place for its state.
    ///
    /// # Errors
    /// As [`PinnedDir::with_new_place`], where `state` names a place.
    pub(super) fn of(found: Result<PinnedDir>, state: Option<&Path>) -> Result<AgentRoot> {
        let pinned = found.and_then(|dir| dir.with_new_place(state));
        let pinned = match (pinned, state) {
            (Err(error), Some(_)) => return Err(error),
            (pinned, _) => pinned.ok(),
        };
        let is_store = |dir: &PinnedDir| dir.is_store().unwrap_or(true);
        Ok(AgentRoot {
            was_store: pinned.as_ref().is_none_or(is_store),
            pinned,
        })
    }

    /// Removes what was made for a store in which no agent could start.
    pub(super) fn leave_as_found(self) {
        if !self.was_store
            && let Some(Err(error)) = self.pinned.map(|dir| dir.unmake_store())
            && error != Error::NotFound
        {
            let what = "what was made for the store could not be removed";
            warn(false, &format!("{what}: {}", error.full_message()));
        }
    }
}

/// Returns the git directory of a project that has it elsewhere, unless it lies in one of the further stores.
pub(super) fn git_directory(store: &Path, further: &[&Path]) -> Option<OuterGitDirectory> {
    let git = OuterGitDirectory::of(store)?;
    let is_there =
        |path: &&Path| std::fs::canonicalize(path).is_ok_and(|path| git.path.starts_with(path));
    (!further.iter().any(is_there)).then_some(git)
}

/// Opens the further directories of an agent, and adds them to `roots` once they are looked up.
///
/// # Errors
/// As [`ProgramHome::add_further`], for one that was asked for. A git directory that cannot come along is named.
pub(super) fn add_further_roots(
    args: &AgentArgs,
    programs: &mut ProgramHome,
    roots: &mut Vec<AgentRoot>,
) -> Result<()> {
    for path in &args.also {
        let root = AgentRoot::look_up(path)?;
        let added = programs.add_further(path, root.pinned.as_ref(), &args.patterns());
        roots.push(root);
        added?;
    }
    let stores: Vec<&Path> = programs.further_clients().map(Client::path).collect();
    let Some(git) = git_directory(programs.client().path(), &stores) else {
        return Ok(());
    };
    let shown = git.path.display();
    if !git.points_back {
        warn(
            false,
            &format!(
                "git will not work: `.git` leads to {shown}, which does not name this directory. --also {shown} brings it"
            ),
        );
        return Ok(());
    }
    let root = AgentRoot::look_up(&git.path)?;
    match programs.add_further(&git.path, root.pinned.as_ref(), &SessionPatterns::default()) {
        Ok(()) => roots.push(root),
        Err(error) => {
            root.leave_as_found();
            let (why, _) = error.into_words();
            warn(false, &format!("git will not work without {shown}: {why}"));
        }
    }
    Ok(())
}
