//! The interface by which the shell runs real programs: [`ProgramProvider`] knows their names, [`LinePrograms`] runs
//! those of one line. The shell does not know the implementation.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::home::Home;
use super::request::ProgramReport;
use trumanfs_types::origin::RunId;

/// The real programs that lines may run.
pub trait ProgramProvider: Send + Sync {
    /// Returns whether there is a program of this name.
    fn has_program(&self, name: &[u8]) -> bool;

    /// Prepares the part that any program of the next line will need. Called while the caller waits for that line;
    /// returns at once.
    fn prepare(&self);

    /// Begins a line, whose changes belong to a run in this home.
    fn begin_line(&self, home: Arc<dyn Home>, run: RunId) -> Arc<dyn LinePrograms>;
}

/// The programs of one line. Those that still run end when this is dropped.
pub trait LinePrograms: Send + Sync {
    /// Decides about a program.
    ///
    /// # Errors
    /// The refusal of the program.
    fn admit(
        &self,
        program: ProgramRequest<'_>,
    ) -> Result<Box<dyn AdmittedProgram + '_>, ProgramError>;

    /// Returns whether the home is gone because its daemon has ended: the line then has to end too.
    fn is_lost(&self) -> bool;

    /// Returns the report on the programs of this line, if any ran or was refused.
    fn report(&self) -> Option<Box<ProgramReport>>;
}

/// A program that may run.
pub trait AdmittedProgram {
    /// Returns the rule for the part of its output that leaves the line.
    fn output(&self) -> OutputRule;

    /// Runs the program to its end, with these streams: standard input, output and error. `go_on` is called repeatedly,
    /// and the program is ended once it returns false. Returns the status.
    ///
    /// # Errors
    /// The refusal of the program, or the end of the line.
    fn run(&self, streams: [OwnedFd; 3], go_on: &dyn Fn() -> bool) -> Result<u8, ProgramError>;
}

/// The rule for output that a program writes to the streams of the line itself. Output into a pipe, a file or a
/// variable is not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRule {
    /// The maximum number of bytes of each stream that leave the line.
    pub bytes: u64,
    /// True if the output of a program that succeeds is dropped.
    pub failures_only: bool,
}

/// An environment variable and its value.
pub type EnvVariable = (Vec<u8>, Vec<u8>);

/// A program that a line runs.
#[derive(Debug)]
pub struct ProgramRequest<'a> {
    /// The words; the first is the program's name.
    pub words: &'a [Vec<u8>],
    /// The variables that the line gives it.
    pub env: &'a [EnvVariable],
    /// The working directory, an absolute path in the home.
    pub cwd: Vec<u8>,
}

/// The reason for which a program did not run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramError {
    /// The reason, and the status.
    Refused(Vec<u8>, u8),
    /// The line has to end.
    LineEnded,
}
