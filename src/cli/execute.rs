//! `exec` and `shell`: the bundled shell, for one line or for a person at a terminal.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::failed;
use crate::client::{self, Site};
use crate::error::{Error, Result};
use crate::exec::mounted_home::MountedHome;
use crate::exec::offline_home::OfflineHome;
use crate::exec::shell::Shell;
use crate::exec::{Home, Limits};
use crate::world::ViewOptions;

mod prompt;

/// How long after its time a line that does not end by itself is ended with the program: something below it hangs.
const GRACE: Duration = Duration::from_secs(2);
/// How long other commands that work on a store are waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The status of a line whose time was up, as timeout(1) has it.
const LATE: i32 = 124;

/// Where the shell works, and what a line may use.
#[derive(Args, Debug)]
struct Place {
    /// A mounted home, or a store that nobody has mounted; nothing outside it exists for the shell
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The working directory to begin in, from the root or below it
    #[arg(long, value_name = "D")]
    cwd: Option<OsString>,
    /// What the pattern names does not exist (gitignore syntax); for a store that nobody has mounted
    #[arg(long, value_name = "PATTERN")]
    hide: Vec<String>,
    /// What the pattern names cannot be changed (gitignore syntax); for a store that nobody has mounted
    #[arg(long, value_name = "PATTERN")]
    read_only: Vec<String>,
    /// Wait so long for other commands that work on a store that nobody has mounted [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// End a line that would hold more than so many MiB in memory (status 1); 0 is no limit
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().memory >> 20)]
    max_memory: u64,
    /// End a line that takes longer than so many seconds (status 124)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// What `trumanfs exec` takes.
#[derive(Args, Debug)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    place: Place,
    /// Let so many lines out at most; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().lines)]
    max_lines: u64,
    /// Let so many bytes out at most; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().bytes)]
    max_bytes: u64,
    /// Where the output has to be cut, keep its end too: half of what may leave
    #[arg(long)]
    tail: bool,
    /// The line, as one word: quote it
    line: OsString,
}

/// What `trumanfs shell` takes.
#[derive(Args, Debug)]
pub(super) struct ShellArgs {
    #[command(flatten)]
    place: Place,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("{text}: not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{text}: {error}"))
}

/// Runs one line. Returns its status.
pub(super) fn exec(args: &ExecArgs) -> ExitCode {
    let limits = Limits {
        time: args.place.timeout,
        memory: args.place.max_memory.saturating_mul(1 << 20),
        lines: args.max_lines,
        bytes: args.max_bytes,
        tail: args.tail,
    };
    let (mut shell, stored) = match open(&args.place, limits) {
        Ok(opened) => opened,
        Err(error) => return failed(&error),
    };
    let patience = args.place.wait.unwrap_or(PATIENCE);
    if let Some(time) = limits.time {
        std::thread::spawn(move || {
            std::thread::sleep(time.saturating_add(GRACE).saturating_add(patience));
            std::process::exit(LATE);
        });
    }
    let ran = shell.run_with(
        args.line.as_bytes(),
        stdin(),
        std::io::stdout(),
        std::io::stderr(),
    );
    let _ = std::io::stdout().flush();
    match tell_refusal(stored.as_deref()) {
        Some(code) if ran.refused => code,
        _ => ExitCode::from(ran.status),
    }
}

/// Reads lines and runs each: from a person at a terminal, or from whatever standard input is. Nothing of the output is
/// cut, for a person can stop it.
pub(super) fn shell(args: &ShellArgs) -> ExitCode {
    let limits = Limits {
        time: args.place.timeout,
        memory: args.place.max_memory.saturating_mul(1 << 20),
        lines: 0,
        bytes: 0,
        tail: false,
    };
    let status = open(&args.place, limits).and_then(|(shell, stored)| {
        if std::io::stdin().is_terminal() {
            prompt::converse(shell, stored.as_deref())
        } else {
            prompt::read_all(shell, stored.as_deref())
        }
    });
    match status {
        Ok(status) => ExitCode::from(status),
        Err(error) => failed(&error),
    }
}

/// Returns this program's standard input as commands read it.
fn stdin() -> Option<OwnedFd> {
    std::io::stdin().as_fd().try_clone_to_owned().ok()
}

/// Says after a line why the store could not be had for changing; the shell has said only that it is busy. Returns the exit code
/// of that.
fn tell_refusal(stored: Option<&OfflineHome>) -> Option<ExitCode> {
    stored
        .and_then(OfflineHome::refusal)
        .map(|error| failed(&error))
}

/// Returns the shell; and the store, where it works in one that nobody has mounted.
fn open(place: &Place, limits: Limits) -> Result<(Shell, Option<Arc<OfflineHome>>)> {
    let root = std::path::absolute(&place.root).map_err(|error| Error::io("getcwd", &error))?;
    let (home, stored) = home(place, &root)?;
    let mut shell = Shell::new(home, root.as_os_str().as_bytes(), limits);
    if let Some(cwd) = &place.cwd {
        shell.set_cwd(cwd.as_bytes()).map_err(|error| {
            let what = format!("{}: {error}", Path::new(cwd).display());
            error
                .kind()
                .error(what, "Give a directory below the root.".to_owned())
        })?;
    }
    Ok((shell, stored))
}

type Opened = (Arc<dyn Home>, Option<Arc<OfflineHome>>);

fn home(place: &Place, root: &Path) -> Result<Opened> {
    if client::site(root)? == Site::Store {
        let patience = place.wait.unwrap_or(PATIENCE);
        let view = ViewOptions {
            hide: place.hide.clone(),
            read_only: place.read_only.clone(),
            ..ViewOptions::default()
        };
        let home = Arc::new(OfflineHome::with(root, view, patience)?);
        return Ok((home.clone(), Some(home)));
    }
    if !place.hide.is_empty() || !place.read_only.is_empty() || place.wait.is_some() {
        return Err(Error::refused(
            format!("{} lies in a mounted home", root.display()),
            "What it hides and protects was said when it was mounted, and nobody has it alone: leave --hide, --read-only and --wait out.",
        ));
    }
    MountedHome::open(root).map(|home| (Arc::new(home) as Arc<dyn Home>, None))
}
