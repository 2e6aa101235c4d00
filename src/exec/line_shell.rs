//! [`LineShell`]: whatever runs lines: the bundled shell, or one of this machine.

use super::pipeline::{self, RequestStreams};
use super::program::SystemShell;
use super::request::{Outcome, Request};
use super::shell::Shell;
use crate::error::Result;
use crate::world::RunId;

/// A shell that runs lines.
pub enum LineShell {
    /// The bundled shell.
    Bundled(Box<Shell>),
    /// A shell of this machine, in a sandbox.
    System(Box<SystemShell>),
}

impl LineShell {
    /// Returns a request for a line, with the shell's limits.
    #[must_use]
    pub fn request(&self, line: &[u8]) -> Request {
        match self {
            LineShell::Bundled(shell) => shell.request(line),
            LineShell::System(shell) => shell.request(line),
        }
    }

    /// Runs a request, with these streams.
    pub fn run(&mut self, request: &Request, streams: RequestStreams) -> Outcome {
        match self {
            LineShell::Bundled(shell) => pipeline::execute(&mut **shell, request, streams).0,
            LineShell::System(shell) => pipeline::execute(&mut **shell, request, streams).0,
        }
    }

    /// Returns whether the last line has ended the shell of a session by itself.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        match self {
            LineShell::Bundled(_) => false,
            LineShell::System(shell) => shell.has_exited(),
        }
    }

    /// Returns the run of the last line, where something that it has left running may have changed something by now.
    #[must_use]
    pub fn changed_run(&self) -> Option<RunId> {
        match self {
            LineShell::Bundled(_) => None,
            LineShell::System(shell) => shell.changed_run(),
        }
    }

    /// Returns, once, the run that ended when the last line began, where it had changed something.
    pub fn take_ended_run(&mut self) -> Option<RunId> {
        match self {
            LineShell::Bundled(_) => None,
            LineShell::System(shell) => shell.take_ended_run(),
        }
    }

    /// Prepares the next line, while the caller waits for it; returns at once.
    pub fn prepare(&self) {
        match self {
            LineShell::Bundled(shell) => shell.prepare(),
            LineShell::System(shell) => shell.prepare(),
        }
    }

    /// Returns the working directory, as `pwd` prints it.
    #[must_use]
    pub fn cwd(&self) -> Vec<u8> {
        match self {
            LineShell::Bundled(shell) => shell.cwd(),
            LineShell::System(shell) => shell.cwd(),
        }
    }

    /// Returns the working directory as a prompt shows it: the root is `~`.
    #[must_use]
    pub fn cwd_from_home(&self) -> Vec<u8> {
        match self {
            LineShell::Bundled(shell) => shell.cwd_from_home(),
            LineShell::System(shell) => shell.cwd_from_home(),
        }
    }

    /// Returns the completions of a path, as [`Shell::completions`].
    #[must_use]
    pub fn completions(&self, typed: &[u8]) -> Vec<Vec<u8>> {
        match self {
            LineShell::Bundled(shell) => shell.completions(typed),
            LineShell::System(shell) => shell.completions(typed),
        }
    }

    /// Changes the working directory; that of a shell of this machine before its first line.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, as with `cd`.
    pub fn set_cwd(&mut self, typed: &[u8]) -> Result<()> {
        match self {
            LineShell::Bundled(shell) => shell.set_cwd(typed),
            LineShell::System(shell) => shell.set_cwd(typed),
        }
    }

    /// Forgets variables of the bundled shell that are larger than so many bytes together, and returns their names. Those
    /// of another shell count as its memory.
    pub fn forget_large_variables(&mut self, most: usize) -> Vec<Vec<u8>> {
        match self {
            LineShell::Bundled(shell) => shell.forget_large_variables(most),
            LineShell::System(_) => Vec::new(),
        }
    }
}
