//! The ways in which a program ends.

use std::time::Duration;

use rustix::process::Signal;
use trumanfs_init::background::BackgroundProcesses;
use trumanfs_init::limit::LimitKind;

use super::error::LaunchError;

/// The way in which a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// Its time was over.
    Deadline,
    /// Somebody cancelled it.
    Cancelled,
    /// The first process of its sandbox was killed by somebody else, and everything with it.
    Killed,
    /// The program used more than it may, and was ended for that.
    Limit(LimitKind),
    /// The program was never started: its working directory or its file is not there.
    NotStarted(LaunchError),
}

/// The outcome of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutcome {
    /// The way in which the program ended.
    pub end: ProgramEnd,
    /// Processor time that it and its descendants used; without that of processes that were still there at a deadline.
    pub cpu: Duration,
    /// The largest resident memory of one of its processes, in bytes.
    pub memory: u64,
    /// True if everything in the sandbox has ended. If not, something waits in the kernel for a file system that does
    /// not answer; it was killed, and ends when the file system does.
    pub all_gone: bool,
    /// Limits that were hit, whatever the program's end: one of its processes was killed, or could not be made.
    pub hit: Vec<LimitKind>,
    /// The processes that still ran when the program had exited, and were ended with it.
    pub background: BackgroundProcesses,
}

/// Returns the limit as the end where a process that was killed by force may have hit it, else the end as it is.
pub(super) fn end_by_limit(end: ProgramEnd, hit: &[LimitKind]) -> ProgramEnd {
    let killed = Signal::KILL.as_raw();
    match (&end, hit) {
        (ProgramEnd::Killed, hit) if hit.contains(&LimitKind::Memory) => {
            ProgramEnd::Limit(LimitKind::Memory)
        }
        (ProgramEnd::Signalled(signal), _)
            if *signal == killed && hit.contains(&LimitKind::Memory) =>
        {
            ProgramEnd::Limit(LimitKind::Memory)
        }
        (ProgramEnd::Signalled(_), hit) if hit.contains(&LimitKind::FileSize) => {
            ProgramEnd::Limit(LimitKind::FileSize)
        }
        (ProgramEnd::Signalled(_), hit) if hit.contains(&LimitKind::Cpu) => {
            ProgramEnd::Limit(LimitKind::Cpu)
        }
        _ => end,
    }
}

/// Returns the end of a program from its wait status.
pub(super) fn end_of(status: i32) -> ProgramEnd {
    use std::os::unix::process::ExitStatusExt;
    let status = std::process::ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Exited(code),
        (_, Some(signal)) => ProgramEnd::Signalled(signal),
        _ => ProgramEnd::Killed,
    }
}
