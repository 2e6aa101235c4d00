//! Detecting whether a process still runs the same program.
//!
//! A descriptor of `/proc/PID/pagemap` belongs to the address space that the process had when it was opened.
//! execve(2) gives the process another one, and the old one ends, as it does when the process ends. A read then
//! returns nothing; before, a read of a length that is not a multiple of an entry's fails with `EINVAL`. The kernel
//! takes no lock for this answer, so a worker may ask while its caller waits for it. Opening takes the process's
//! `exec_update_lock`: only a thread on which nobody waits for long may do that.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// The result of inspecting a process's program.
#[derive(Debug)]
pub(super) enum ProgramProbe {
    /// A handle that can tell whether the program still runs.
    At(ProgramImage),
    /// The process shares its address space with its parent, which keeps it when the process runs another program.
    Shared,
    /// The process may not be inspected, or has just ended or executed another program.
    Refused,
}

/// The program that a process was running when it was inspected.
#[derive(Debug)]
pub(super) struct ProgramImage {
    pagemap: File,
}

impl ProgramImage {
    /// Inspects a process.
    pub(super) fn of(pid: u32, parent: Option<u32>) -> ProgramProbe {
        let Ok(pagemap) = File::open(format!("/proc/{pid}/pagemap")) else {
            return ProgramProbe::Refused;
        };
        if let Some(parent) = parent
            && crate::sys::process::share_memory(pid, parent) == Ok(true)
        {
            return ProgramProbe::Shared;
        }
        ProgramProbe::At(ProgramImage { pagemap })
    }

    /// Returns whether the process still runs the program.
    pub(super) fn runs(&self) -> bool {
        let mut byte = [0];
        rustix::io::pread(self.pagemap.as_fd(), &mut byte, 0) == Err(Errno::INVAL)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_runs_until_another_takes_its_place() {
        let mut shell = Command::new("sh")
            .args([
                "-c",
                "echo ready; read line; exec sh -c 'echo other; read line'",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "ready");
        let look = ProgramImage::of(shell.id(), Some(std::process::id()));
        let ProgramProbe::At(image) = look else {
            shell.kill().unwrap();
            shell.wait().unwrap();
            crate::need::skip!("kernel", "/proc/PID/pagemap cannot be opened");
        };
        assert!(image.runs());
        let stdin = shell.stdin.as_mut().unwrap();
        writeln!(stdin).unwrap();
        // The same name and file, but another execution.
        assert_eq!(said.next().unwrap().unwrap(), "other");
        assert!(!image.runs());
        let again = ProgramImage::of(shell.id(), Some(std::process::id()));
        assert!(matches!(&again, ProgramProbe::At(image) if image.runs()));
        writeln!(shell.stdin.take().unwrap()).unwrap();
        shell.wait().unwrap();
        assert!(matches!(&again, ProgramProbe::At(image) if !image.runs()));
    }
}
