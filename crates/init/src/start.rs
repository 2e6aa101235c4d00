//! Starting a program as ordered, and hearing whether it began.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Step, StepFailure};
use crate::orders::StartOrder;
use crate::sys::landlock::Ruleset;
use crate::sys::program::{self, ProgramSpec, StartFailure};
use rustix::process::{Resource, Rlimit};

/// The pipe in which a program says why it could not begin; it is closed when the program has begun.
pub(crate) struct StartReport(OwnedFd);

impl StartReport {
    /// Reads why the program could not begin; nothing if it could, or has not yet come so far.
    pub(crate) fn failure(&self) -> Option<StartFailure> {
        let mut bytes = [0; 5];
        let len = rustix::io::read(&self.0, &mut bytes).ok()?;
        StartFailure::from_bytes(bytes.get(..len)?)
    }
}

impl AsFd for StartReport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Starts a program with these streams, or at a terminal of this session, by the rules about files and within these
/// limits. Returns its number in this PID namespace.
pub(crate) fn start(
    order: &StartOrder,
    streams: &[OwnedFd],
    (terminal, rules): (Option<&OwnedFd>, Option<&Ruleset>),
    rlimits: &[(Resource, Rlimit)],
) -> Result<(i32, StartReport), StepFailure> {
    let control = |errno| StepFailure::new(Step::Control, "", errno);
    let [input, output, error] =
        <&[OwnedFd; 3]>::try_from(streams).map_err(|_| control(Errno::BADF))?;
    let (report, reporting) = pipe_with(PipeFlags::CLOEXEC).map_err(control)?;
    let pid = program::spawn(&ProgramSpec {
        candidates: &order.candidates,
        arguments: &order.arguments,
        environment: &order.environment,
        directory: &order.directory,
        streams: match terminal {
            Some(terminal) => [terminal.as_fd(); 3],
            None => [input.as_fd(), output.as_fd(), error.as_fd()],
        },
        terminal: terminal.is_some(),
        rlimits,
        rules: rules.map(Ruleset::as_fd),
        report: reporting.as_fd(),
    })
    .map_err(|errno| StepFailure::new(Step::Program, "", errno))?;
    Ok((pid, StartReport(report)))
}
