//! The interface by which the shell runs real programs: [`Programs`] knows their names, [`LinePrograms`] runs those of one
//! line. The shell does not know the implementation.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::home::Home;
use super::request::ProgramReport;
use crate::world::RunId;

/// The real programs that lines may run.
pub trait Programs: Send + Sync {
    /// Returns whether there is a program of this name.
    fn knows(&self, name: &[u8]) -> bool;

    /// Begins a line, whose changes belong to a run in this home.
    fn begin(&self, home: Arc<dyn Home>, run: RunId) -> Arc<dyn LinePrograms>;
}

/// What one line runs. Everything that still runs ends when this is dropped.
pub trait LinePrograms: Send + Sync {
    /// Runs a program to its end. `go_on` is called repeatedly.
    ///
    /// # Errors
    /// Why it does not run, or no further.
    fn run(&self, program: Program<'_>, go_on: &dyn Fn() -> bool) -> Result<u8, NotRun>;

    /// Returns the report on the programs of this line, if any ran or was refused.
    fn report(&self) -> Option<Box<ProgramReport>>;
}

/// A variable and its value.
pub type Variable = (Vec<u8>, Vec<u8>);

/// A program that a line runs.
#[derive(Debug)]
pub struct Program<'a> {
    /// Its words; the first is its name.
    pub words: &'a [Vec<u8>],
    /// The variables that the line gives it.
    pub env: &'a [Variable],
    /// Its working directory, an absolute path in the home.
    pub cwd: Vec<u8>,
    /// Standard input, output and error.
    pub streams: [OwnedFd; 3],
}

/// Why a program did not run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    /// The reason, and the status.
    Refused(Vec<u8>, u8),
    /// The line has to end.
    Over,
}
