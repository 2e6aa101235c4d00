//! The process behind a home: mounting, requests, signals, the control socket, coherence.
//!
//! [`start`] is what `trumanfs mount` calls. The background daemon is this program started anew, with its options sent
//! over a pipe instead of as arguments: the process list must not show the path of a store.

mod atime;
mod connection;
pub mod connection_runs;
mod control;
mod daemon_log;
pub mod dir_watcher;
pub mod follow;
mod handover;
mod home_holders;
mod home_keeper;
mod home_mount;
mod live_backend;
mod lock_watch;
mod mount_options;
mod mountpoint;
pub mod preflight;
mod privileges;
mod session;
mod user_homes;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{Error, FailureKind, Result};
pub use crate::world::KeepOptions;
pub use atime::{AccessTimeSetting, AccessTimes};
pub use home_keeper::{KEEPER_WORD, run_keeper};
pub use mount_options::MountOptions;
pub use mountpoint::HomeMountFlags;
pub use user_homes::{expect_not_nested, user_homes};

/// The word that makes a program the background daemon: [`helper::run`](crate::helper::run) recognises it.
pub const BACKGROUND_WORD: &str = "__daemon";

/// The one message of the background daemon on its pipe.
#[derive(Debug, Serialize, Deserialize)]
enum ReadyMessage {
    /// The home answers; with the findings after a crash.
    Ready(Vec<String>),
    /// The home could not be mounted.
    Failed {
        kind: FailureKind,
        what: String,
        remedy: String,
    },
}

/// True if this program, started anew, becomes the background daemon.
static BACKGROUND_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Says that this program, started anew with [`BACKGROUND`], becomes the background daemon.
pub(crate) fn allow_background() {
    BACKGROUND_ALLOWED.store(true, Ordering::Relaxed);
}

/// Mounts a home and returns once it answers, leaving a daemon in the background. Returns the findings after an
/// earlier crash, in plain English.
///
/// # Errors
/// [`Error::Refused`] with the remedy if it cannot be mounted; also in a program that does not begin with
/// [`helper::run`](crate::helper::run).
pub fn start(wanted: &MountOptions) -> Result<Vec<String>> {
    if !BACKGROUND_ALLOWED.load(Ordering::Relaxed) {
        return Err(Error::refused(
            "the daemon cannot be started: it would be this program, which does not call trumanfs::helper::run",
            "Call trumanfs::helper::run first in `main`, and return what it returns.",
        ));
    }
    let failed =
        |what: String| Error::refused(format!("the daemon could not be started: {what}"), "");
    let mut child = Command::new("/proc/self/exe")
        .arg0("trumanfs")
        .arg(BACKGROUND_WORD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let text = serde_json::to_string(wanted).map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(text.as_bytes())
            .map_err(|error| failed(error.to_string()))?;
    }
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| failed(error.to_string()))?;
    }
    match serde_json::from_str(&line) {
        Ok(ReadyMessage::Ready(settled)) => Ok(settled),
        Ok(ReadyMessage::Failed { kind, what, remedy }) => {
            let _ = child.wait();
            Err(kind.error(what, remedy))
        }
        Err(_) => {
            let status = child
                .wait()
                .map(|status| status.to_string())
                .unwrap_or_default();
            Err(failed(format!("it ended without a word ({status})")))
        }
    }
}

/// Runs the background daemon: reads its options from the standard input, and reports on the standard output.
pub fn run_in_background() {
    let _ = rustix::process::setsid();
    // A program started through /proc is called "exe" in the process list.
    let _ = rustix::thread::set_name(c"trumanfs");
    let mut text = String::new();
    let wanted = std::io::Read::read_to_string(&mut std::io::stdin(), &mut text)
        .map_err(|error| error.to_string())
        .and_then(|_| {
            serde_json::from_str::<MountOptions>(&text).map_err(|error| error.to_string())
        });
    let outcome = match wanted {
        Ok(wanted) => session::run(&wanted, daemon_log::LogTarget::Session, |settled| {
            report(&ReadyMessage::Ready(settled))
        }),
        Err(what) => Err(Error::refused(what, "")),
    };
    if let Err(error) = outcome {
        // The parent reads it if it still waits; later only the log has it.
        log::error!("{error}");
        let kind = error.kind();
        let (what, remedy) = error.into_words();
        report(&ReadyMessage::Failed { kind, what, remedy });
    }
}

/// Writes the one line that the parent waits for, then detaches from the terminal. Later reports go nowhere.
fn report(report: &ReadyMessage) {
    let line = serde_json::to_string(report).unwrap_or_default();
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Ok(null) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Mounts a home and serves it until it is unmounted. `ready` is called once the home answers.
///
/// # Errors
/// As [`start`].
pub fn run_in_foreground(wanted: &MountOptions, ready: impl FnOnce(Vec<String>)) -> Result<()> {
    session::run(wanted, daemon_log::LogTarget::Stderr, ready)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A program that knew nothing of the daemon was started anew, and did from its beginning what it does: mount.
    #[test]
    fn a_program_that_would_only_start_itself_is_refused() {
        let error = start(&MountOptions::default()).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Refused);
        assert!(error.to_string().contains("helper::run"), "{error}");
    }
}
