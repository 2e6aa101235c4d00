//! [`Confirmation`]: asking the user for each signature, by the program that `ssh-add -c` asks by.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::session::SignatureRequest;
use crate::network::stop_signal::{StopSignal, WaitOutcome};

/// The program that asks, one question at a time.
#[derive(Debug)]
pub struct Confirmation {
    program: PathBuf,
    /// Held while the user is asked.
    asking: Mutex<()>,
}

impl Confirmation {
    /// Takes the value of `SSH_ASKPASS`.
    ///
    /// # Errors
    /// In words, why nobody can be asked.
    pub fn new(program: Option<OsString>) -> Result<Confirmation, String> {
        let program = program.filter(|program| !program.is_empty());
        let program = PathBuf::from(program.ok_or("SSH_ASKPASS names no program to ask by")?);
        if !program.is_absolute() || !program.is_file() {
            let program = program.display();
            return Err(format!("SSH_ASKPASS={program}: it is no path of a program"));
        }
        Ok(Confirmation {
            program,
            asking: Mutex::new(()),
        })
    }

    /// Returns the program that asks.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Asks the user about a signature. A program that fails, or whose sandbox ends meanwhile, is a no.
    pub(super) fn ask(&self, request: &SignatureRequest, agent: &str, stop: &StopSignal) -> bool {
        let _asking = self.asking.lock();
        if stop.wait(&[], Some(Instant::now())) == WaitOutcome::Stopped {
            return false;
        }
        let SignatureRequest { host, user, key } = request;
        let question = format!("Allow {agent} to log in to {host} as {user} with the key {key}?");
        let mut command = Command::new(&self.program);
        command.arg(question).env("SSH_ASKPASS_PROMPT", "confirm");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            return false;
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let has_ended = |end: OwnedFd| {
            let waited = stop.wait(&[(&end, PollFlags::IN)], None);
            matches!(waited, WaitOutcome::Ready(_))
        };
        if !end.is_some_and(has_ended) {
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        child.wait().is_ok_and(|status| status.success())
    }
}
