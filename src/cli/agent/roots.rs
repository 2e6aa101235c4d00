//! The directories that an agent works in: the project, and further ones, each a store of its own.
//!
//! Owns which further ones there are: those that were asked for, and the git directory of a project that has it elsewhere
//! and is named there.

use std::path::Path;

use super::super::output::warn;
use super::args::AgentArgs;
use crate::client::{OuterGitDirectory, PinnedDir, SessionPatterns};
use crate::error::{Error, Result};
use crate::exec::program::ProgramHome;

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
    /// As [`PinnedDir::with_new_place`], where `state` names a place.
    pub(super) fn look_up(path: &Path, state: Option<&Path>) -> Result<AgentRoot> {
        let pinned = PinnedDir::open(path).and_then(|dir| dir.with_new_place(state));
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
        let root = AgentRoot::look_up(path, None)?;
        let added = programs.add_further(path, root.pinned.as_ref(), &args.patterns());
        roots.push(root);
        added?;
    }
    let Some(git) = OuterGitDirectory::of(programs.client().path()) else {
        return Ok(());
    };
    let shown = git.path.display();
    let is_there = |client: &crate::client::Client| {
        std::fs::canonicalize(client.path()).is_ok_and(|path| git.path.starts_with(path))
    };
    if programs.further_clients().any(is_there) {
        return Ok(());
    }
    if !git.points_back {
        warn(
            false,
            &format!(
                "git will not work: `.git` leads to {shown}, which does not name this directory. --also {shown} brings it"
            ),
        );
        return Ok(());
    }
    let root = AgentRoot::look_up(&git.path, None)?;
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
