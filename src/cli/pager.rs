//! The pager of verbs that print much: as git has it, on a terminal only.
//!
//! Owns standard output and standard error while a pager reads them. Nothing else knows of it but the printer, which
//! writes for the terminal behind it.

use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::exit::ExitReason;

/// The settings that name a pager, the first one first.
const SETTINGS: [&str; 2] = ["TRUMANFS_PAGER", "PAGER"];
/// The pager where none is named.
const DEFAULT_PAGER: &str = "less";
/// The options that less gets where its user has set none: leave at once if all fits on the screen, pass colours, keep
/// the screen.
const LESS: (&str, &str) = ("LESS", "FRX");

static RUNNING: Mutex<Option<PagerProcess>> = Mutex::new(None);
static IS_PAGED: AtomicBool = AtomicBool::new(false);
static IS_FINISHING: AtomicBool = AtomicBool::new(false);

/// A pager that reads what this process writes.
struct PagerProcess {
    /// The thread that waits for the pager. A pager that is left early ends this process, whatever it is doing.
    watcher: JoinHandle<()>,
    /// The streams as they were.
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

/// Has a pager show what is printed from now on, if standard output is a terminal on which one can work, and there is
/// a pager.
pub(super) fn start() {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if is_dumb || !std::io::stdout().is_terminal() {
        return;
    }
    let Some(command) = pager_command() else {
        return;
    };
    let Some(pager) = PagerProcess::start(command) else {
        return;
    };
    IS_PAGED.store(true, Ordering::Relaxed);
    if let Ok(mut running) = RUNNING.lock() {
        *running = Some(pager);
    }
}

/// Returns whether what is written to standard output reaches a terminal.
pub(super) fn is_terminal() -> bool {
    IS_PAGED.load(Ordering::Relaxed) || std::io::stdout().is_terminal()
}

/// Waits until the pager, if there is one, has been left. What is printed afterwards goes where it went before.
pub(super) fn finish() {
    let pager = RUNNING.lock().ok().and_then(|mut running| running.take());
    if let Some(pager) = pager {
        pager.finish();
    }
}

impl PagerProcess {
    fn start(mut command: Command) -> Option<PagerProcess> {
        let stdout = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
        let stderr = std::io::stderr();
        let stderr = stderr
            .is_terminal()
            .then(|| stderr.as_fd().try_clone_to_owned());
        let stderr = stderr.transpose().ok()?;
        let mut process = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = process.stdin.take()?;
        // The pager has the interrupts of the terminal: this process must not end before it.
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
            let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
        }
        rustix::stdio::dup2_stdout(&input).ok()?;
        if stderr.is_some() {
            let _ = rustix::stdio::dup2_stderr(&input);
        }
        let watcher = std::thread::spawn(move || {
            let _ = process.wait();
            if !IS_FINISHING.load(Ordering::SeqCst) {
                std::process::exit(ExitReason::Ok as i32);
            }
        });
        Some(PagerProcess {
            watcher,
            stdout,
            stderr,
        })
    }

    fn finish(self) {
        let _ = std::io::stdout().flush();
        IS_FINISHING.store(true, Ordering::SeqCst);
        // With these the last writers of the pipe are gone, and the pager finds its end.
        let _ = rustix::stdio::dup2_stdout(&self.stdout);
        if let Some(stderr) = &self.stderr {
            let _ = rustix::stdio::dup2_stderr(stderr);
        }
        let _ = self.watcher.join();
    }
}

/// Returns the command of the pager; `None` where none is wanted, or none is found.
fn pager_command() -> Option<Command> {
    let named = SETTINGS.iter().find_map(std::env::var_os);
    let line = named.map_or_else(
        || Some(DEFAULT_PAGER.to_owned()),
        |named| named.into_string().ok(),
    )?;
    let line = line.trim();
    if line.is_empty() || line == "cat" {
        return None;
    }
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=, ".contains(c);
    let mut command = if line.chars().all(is_plain) {
        let mut words = line.split_whitespace();
        let program = words.next().filter(|program| is_program(program))?;
        let mut command = Command::new(program);
        command.args(words);
        command
    } else {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        command
    };
    let (name, value) = LESS;
    if std::env::var_os(name).is_none() {
        command.env(name, value);
    }
    Some(command)
}

/// Returns whether a program can be started by this name.
fn is_program(name: &str) -> bool {
    let is_executable = |path: &std::path::Path| {
        let meta = std::fs::metadata(path);
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return is_executable(name.as_ref());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_executable(&dir.join(name)))
}
