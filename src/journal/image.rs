//! Whether a process still runs the program that it was seen with.
//!
//! A descriptor of `/proc/PID/pagemap` belongs to the address space that the process had when it was opened. An execve(2) gives the
//! process another one, and the old one ends; so does the process. A read then gives nothing, and before that one of a length that is no
//! multiple of an entry's is `EINVAL`. The kernel takes no lock for this answer, so a worker may ask while its caller waits for it.
//! Opening takes the `exec_update_lock` of the process: only a thread for which nobody waits for long may do it.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// What can be known of the program that a process runs.
#[derive(Debug)]
pub(super) enum Look {
    /// Whether it still runs can be told.
    At(Image),
    /// The process shares its address space with its parent, which goes on with it when the process runs another program.
    Shared,
    /// It may not be looked at, or has just ended or begun another program.
    Refused,
}

/// The program that a process was running when it was looked at.
#[derive(Debug)]
pub(super) struct Image {
    pagemap: File,
}

impl Image {
    /// Looks at a process.
    pub(super) fn of(pid: u32, parent: Option<u32>) -> Look {
        let Ok(pagemap) = File::open(format!("/proc/{pid}/pagemap")) else {
            return Look::Refused;
        };
        if let Some(parent) = parent
            && crate::sys::process::share_memory(pid, parent) == Ok(true)
        {
            return Look::Shared;
        }
        Look::At(Image { pagemap })
    }

    /// Returns whether the process still runs it.
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
        let look = Image::of(shell.id(), Some(std::process::id()));
        let Look::At(image) = look else {
            shell.kill().unwrap();
            shell.wait().unwrap();
            return println!("SKIPPED: /proc/PID/pagemap cannot be opened");
        };
        assert!(image.runs());
        let stdin = shell.stdin.as_mut().unwrap();
        writeln!(stdin).unwrap();
        // Of the same name and file, and yet another.
        assert_eq!(said.next().unwrap().unwrap(), "other");
        assert!(!image.runs());
        let again = Image::of(shell.id(), Some(std::process::id()));
        assert!(matches!(&again, Look::At(image) if image.runs()));
        writeln!(shell.stdin.take().unwrap()).unwrap();
        shell.wait().unwrap();
        assert!(matches!(&again, Look::At(image) if !image.runs()));
    }
}
