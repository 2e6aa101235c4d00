//! The interface by which the shell runs real programs: [`Programs`] knows their names, [`LinePrograms`] runs those of one
//! line. The shell does not know the implementation.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::home::Home;
use super::request::ProgramReport;
use trumanfs_types::origin::RunId;

/// The real programs that lines may run.
pub trait Programs: Send + Sync {
    /// Returns whether there is a program of this name.
    fn knows(&self, name: &[u8]) -> bool;

    /// Makes ready what programs of the next line need whatever they are. Called where another line is waited for; returns
    /// at once.
    fn prepare(&self);

    /// Begins a line, whose changes belong to a run in this home.
    fn begin(&self, home: Arc<dyn Home>, run: RunId) -> Arc<dyn LinePrograms>;
}

/// What one line runs. Everything that still runs ends when this is dropped.
pub trait LinePrograms: Send + Sync {
    /// Decides about a program.
    ///
    /// # Errors
    /// Why it does not run.
    fn admit(&self, program: Program<'_>) -> Result<Box<dyn AdmittedProgram + '_>, NotRun>;

    /// Returns whether the home is gone, because its daemon has ended: then the line has to end, too.
    fn is_lost(&self) -> bool;

    /// Returns the report on the programs of this line, if any ran or was refused.
    fn report(&self) -> Option<Box<ProgramReport>>;
}

/// A program that may run.
pub trait AdmittedProgram {
    /// Returns what becomes of that part of its output that leaves the line.
    fn output(&self) -> OutputRule;

    /// Runs it to its end, with these streams: standard input, output and error. `go_on` is called repeatedly. Returns the
    /// status.
    ///
    /// # Errors
    /// Why it does not run, or no further.
    fn run(&self, streams: [OwnedFd; 3], go_on: &dyn Fn() -> bool) -> Result<u8, NotRun>;
}

/// What becomes of what a program writes to the streams of the line itself. What goes into a pipe, a file or a variable is
/// not concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRule {
    /// How many bytes of each stream leave.
    pub bytes: u64,
    /// Whether nothing leaves where the program succeeds.
    pub only_of_failures: bool,
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
}

/// Why a program did not run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    /// The reason, and the status.
    Refused(Vec<u8>, u8),
    /// The line has to end.
    Over,
}
