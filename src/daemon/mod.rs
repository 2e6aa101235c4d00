//! The running process behind a home: mounting, requests, signals, the control socket, coherence.
//!
//! [`start`] is what `trumanfs mount` calls. In the background the daemon is this program started anew, with its
//! choices sent over a pipe instead of as arguments: the process list is no place for the path of a store.

mod ask;
mod atime;
pub mod control;
pub mod follow;
pub mod handover;
mod live_applier;
mod mountpoint;
pub mod preflight;
mod session;
pub mod watch;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::world::KeepOptions;
pub use ask::ask;
pub use atime::{Access, AccessTimes};
pub use mountpoint::MountFlagsWanted;

/// The hidden sub-command that the background daemon is started with.
pub const BACKGROUND: &str = "__daemon";

/// Everything that was chosen for one mount.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// The store.
    #[serde(with = "any_bytes")]
    pub store: PathBuf,
    /// The home.
    #[serde(with = "any_bytes")]
    pub home: PathBuf,
    /// How it is mounted.
    pub mount: MountFlagsWanted,
    /// The user the home is for; this process's own where absent.
    pub owner: Option<String>,
    /// Patterns of what does not exist.
    pub hide: Vec<String>,
    /// Patterns of what cannot be changed.
    pub read_only: Vec<String>,
    /// Whether symlinks that stay inside exist.
    pub symlinks_inside: bool,
    /// Whether `.trash` is listed.
    pub list_trash: bool,
    /// How long the kernel may believe what it was told.
    pub cache_ttl: Option<Duration>,
    /// Whether extended attributes are offered.
    pub xattr: bool,
    /// Whether each record is on the disk before its act.
    pub durable: bool,
    /// What is kept of contents.
    pub keep: KeepOptions,
    /// Whether the workers may follow the caller to its processor.
    pub follow: bool,
    /// Whether the kernel may go to the store's files by itself.
    pub passthrough: bool,
}

/// A path may be any bytes; JSON is UTF-8.
mod any_bytes {
    use super::{Deserialize, PathBuf, Serialize};
    use crate::name::Escaped;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    pub(super) fn serialize<S: serde::Serializer>(
        path: &std::path::Path,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Escaped(path.as_os_str().as_bytes().to_vec()).serialize(to)
    }

    pub(super) fn deserialize<'a, D: serde::Deserializer<'a>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        Escaped::deserialize(from).map(|path| std::ffi::OsString::from_vec(path.0).into())
    }
}

/// What the background daemon says on its pipe once.
#[derive(Debug, Serialize, Deserialize)]
enum Readiness {
    /// The home answers; what was found after a crash.
    Ready(Vec<String>),
    /// It could not be mounted.
    Failed { what: String, remedy: String },
}

/// Mounts a home and returns once it answers, leaving a daemon in the background. Returns what was found after an
/// earlier crash, in plain English.
///
/// # Errors
/// [`Error::Refused`] with the remedy where it cannot be mounted.
pub fn start(wanted: &Wanted) -> Result<Vec<String>> {
    let failed =
        |what: String| Error::refused(format!("the daemon could not be started: {what}"), "");
    let mut child = Command::new("/proc/self/exe")
        .arg0("trumanfs")
        .arg(BACKGROUND)
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
        Ok(Readiness::Ready(settled)) => Ok(settled),
        Ok(Readiness::Failed { what, remedy }) => {
            let _ = child.wait();
            Err(Error::Refused { what, remedy })
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

/// The background daemon itself: reads its choices from the standard input, and reports on the standard output.
pub fn run_in_background() {
    let _ = rustix::process::setsid();
    // Started by way of /proc, it would be called "exe" in the process list.
    let _ = rustix::thread::set_name(c"trumanfs");
    let mut text = String::new();
    let wanted = std::io::Read::read_to_string(&mut std::io::stdin(), &mut text)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str::<Wanted>(&text).map_err(|error| error.to_string()));
    let outcome = match wanted {
        Ok(wanted) => session::run(&wanted, session::LogTo::Session, |settled| {
            report(&Readiness::Ready(settled))
        }),
        Err(what) => Err(Error::refused(what, "")),
    };
    if let Err(error) = outcome {
        // The parent hears it if it still waits; later only the log does.
        log::error!("{error}");
        report(&match error {
            Error::Refused { what, remedy } | Error::Conflict { what, remedy } => {
                Readiness::Failed { what, remedy }
            }
            error => Readiness::Failed {
                what: error.told(),
                remedy: String::new(),
            },
        });
    }
}

/// Says the one line that the parent waits for, then lets go of the terminal. Later reports go nowhere.
fn report(report: &Readiness) {
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
pub fn run_in_foreground(wanted: &Wanted, ready: impl FnOnce(Vec<String>)) -> Result<()> {
    session::run(wanted, session::LogTo::Stderr, ready)
}
