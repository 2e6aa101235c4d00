//! The command line: what was typed becomes a resolved request, and what came of it becomes words and an exit code.
//!
//! clap lives here and nowhere else, and so does every word that is printed.

mod check;
mod execute;
mod inspect;
mod mount;
mod output;
mod place;
mod purge;
mod recover;
mod report;
mod restore;
mod undo;
mod wish;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::daemon::{self, control};
use crate::error::Error;
use crate::mounts::{registry, table};
use crate::operator::Store;

/// What a command's end means, for scripts. A public contract: numbers never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It was done.
    Ok = 0,
    /// Nothing was found; or, of a comparison, something differs.
    Nothing = 1,
    /// It was typed wrongly.
    Usage = 2,
    /// The thing is not there.
    Missing = 3,
    /// Something is in the way; nothing was changed.
    Conflict = 4,
    /// Part of it was done.
    Partly = 5,
    /// It was refused before anything was done.
    Refused = 6,
    /// The system could not.
    System = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[derive(Parser, Debug)]
#[command(name = "trumanfs", version, about, max_term_width = 100, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
TARGET is a store, mounted or not, or a home.
Exit codes: 0 ok, 1 differs or nothing found, 2 usage, 3 not found, 4 conflict (nothing changed), 5 partly done,
6 refused before anything was done, 7 the system could not. `exec` and `shell` end with their last command's status.";

#[derive(Subcommand, Debug)]
enum Command {
    /// Mounts a store as a home
    Mount(mount::MountArgs),
    /// Unmounts a home, also one whose daemon has died
    Umount(mount::UmountArgs),
    /// Says what is mounted, and how it is going
    Status(inspect::StatusArgs),
    /// Says which sessions there were
    #[command(subcommand)]
    Session(inspect::SessionCommand),
    /// Prints what was changed, by whom, and when
    Log(inspect::LogArgs),
    /// Says everything about one operation: who, when, what was there before, how to get it back
    Show(inspect::ShowArgs),
    /// Says what differs between two points: sessions, operations, checkpoints, times, now
    Diff(inspect::DiffArgs),
    /// Lists the former contents of a path, and how to get each
    Versions(inspect::VersionsArgs),
    /// Writes what a path held, now or at an earlier point, to standard output
    Cat(inspect::CatArgs),
    /// Takes back what was done: operations, a program's or a process's doing, a session, everything since a point
    Undo(undo::UndoArgs),
    /// Takes the last undo or restore back; again, the one before
    Redo(undo::RedoArgs),
    /// Puts a file or a tree back as it was
    Restore(restore::RestoreArgs),
    /// Gives points names, and lists them
    #[command(subcommand)]
    Checkpoint(restore::CheckpointCommand),
    /// Looks into the trash, and takes things out of it
    #[command(subcommand)]
    Trash(recover::TrashCommand),
    /// Writes a session down as a page: what happened, what is different, how to get things back
    Report(report::ReportArgs),
    /// Checks that journal, trash and former contents of a store agree with each other
    Fsck(check::FsckArgs),
    /// Runs one line of the bundled shell in a home, or in a store that nobody has mounted
    Exec(execute::ExecArgs),
    /// The bundled shell in a home, or in a store that nobody has mounted
    Shell(execute::ShellArgs),
    #[command(name = daemon::BACKGROUND, hide = true)]
    Background,
}

/// Runs the command that was typed.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse_from(std::env::args_os().map(inspect::ago)) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Ok.into()
            };
        }
    };
    if !matches!(cli.command, Command::Background | Command::Mount(_)) {
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    }
    let outcome = match cli.command {
        Command::Mount(args) => mount::mount(args),
        Command::Umount(args) => mount::umount(&args),
        Command::Status(args) => inspect::status(&args),
        Command::Session(command) => inspect::session(command),
        Command::Log(args) => inspect::log(&args),
        Command::Show(args) => inspect::show(&args),
        Command::Diff(args) => inspect::diff(&args),
        Command::Versions(args) => inspect::versions(&args),
        Command::Cat(args) => inspect::cat(&args),
        Command::Undo(args) => undo::undo(&args),
        Command::Redo(args) => undo::redo(&args),
        Command::Restore(args) => restore::restore(&args),
        Command::Checkpoint(command) => restore::checkpoint(command),
        Command::Trash(command) => recover::trash(command),
        Command::Report(args) => report::report(&args),
        Command::Fsck(args) => check::fsck(&args),
        Command::Exec(args) => return execute::exec(&args),
        Command::Shell(args) => return execute::shell(&args),
        Command::Background => {
            daemon::run_in_background();
            Ok(Exit::Ok)
        }
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => failed(&error),
    }
}

/// Says what went wrong. Returns the exit code that stands for it.
fn failed(error: &Error) -> ExitCode {
    eprintln!("trumanfs: {}", error.told());
    exit_of(error).into()
}

fn exit_of(error: &Error) -> Exit {
    match error {
        Error::NotFound | Error::NotDirectory | Error::Missing { .. } => Exit::Missing,
        Error::Conflict { .. } | Error::Exists => Exit::Conflict,
        Error::Partly { .. } => Exit::Partly,
        Error::Refused { .. } => Exit::Refused,
        _ => Exit::System,
    }
}

/// Finds the store that a TARGET stands for: the store itself, a home, or anything in a home.
fn store_of(target: &Path) -> crate::error::Result<PathBuf> {
    if let Some(mounted) = table::find(target) {
        return of_device(target, &mounted.device);
    }
    let meta = std::fs::metadata(target).map_err(|error| Error::Refused {
        what: format!("{}: {}", target.display(), plain(&error)),
        remedy: "Give a store, or the home it is mounted at.".to_owned(),
    })?;
    use std::os::unix::fs::MetadataExt;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let device = format!("{major}:{minor}");
    if table::mounted()
        .iter()
        .any(|mounted| mounted.device == device)
    {
        return of_device(target, &device);
    }
    Ok(target.to_owned())
}

fn of_device(target: &Path, device: &str) -> crate::error::Result<PathBuf> {
    registry::find(device)
        .map(|entry| entry.store())
        .ok_or_else(|| {
            Error::refused(
                format!(
                    "{} is a home, but its store is known only to whoever mounted it",
                    target.display()
                ),
                "Run this as that user or as root, or give the store instead of the home.",
            )
        })
}

fn open_store(target: &Path) -> crate::error::Result<(PathBuf, Store)> {
    let path = store_of(target)?;
    let store = Store::open(&path).map_err(|error| match error {
        Error::NotFound | Error::NotDirectory => Error::refused(
            format!("{}: no such directory", path.display()),
            "Give a store or a home.",
        ),
        error => error,
    })?;
    Ok((path, store))
}

/// Has the journal sealed where the store is mounted: what is about to be read of it is vouched for then. Who may not ask,
/// or asks a daemon that knows no seals, reads it as it is.
fn seal(store: &Store) {
    if store.is_served().unwrap_or(false)
        && let Err(error) = daemon::ask(store.state(), &control::Request::Seal, "")
    {
        log::debug!("the journal is read as it is: {error}");
    }
}

/// A number of bytes, as operators write it: 4096, 500K, 20M, 3G, 1T (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size(u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let bad = || format!("{text}: not a size; write it as in 500K, 20M or 3G");
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text.get(number.len()..).unwrap_or_default();
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(bad()),
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(bad)
    }
}

fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Prints a line; a reader that has gone (`| head`) ends the program quietly, as it does every Unix tool.
fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
