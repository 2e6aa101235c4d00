//! `restore` and `checkpoint`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::{ExitReason, with_advice};
use super::output::{Printer, print_line, quote, warn};
use super::shown_time::time;
use crate::client::Client;
use crate::error::Result;
use crate::operator::undo::restore::{RestoreReport, RestoreRequest};

/// Arguments of `trumanfs restore`.
#[derive(Args, Debug)]
pub(super) struct RestoreArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// What, as a path in the home
    path: OsString,
    /// As it was when: a point; before its last change if absent
    #[arg(long, value_name = "POINT", allow_hyphen_values = true)]
    at: Option<String>,
    /// Where to, as a path in the home; to where it was if absent
    #[arg(long, value_name = "PATH")]
    to: Option<OsString>,
    /// Say which point would be taken, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Subcommands of `trumanfs checkpoint`.
#[derive(Subcommand, Debug)]
pub(super) enum CheckpointCommand {
    /// Gives this moment a name, for --to, --at and diff
    Create(CheckpointCreateArgs),
    /// Lists the names that were given, the newest first
    List(CheckpointListArgs),
}

/// Arguments of `trumanfs checkpoint create`.
#[derive(Args, Debug)]
pub(super) struct CheckpointCreateArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// The name
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `trumanfs checkpoint list`.
#[derive(Args, Debug)]
pub(super) struct CheckpointListArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Puts a file or a tree back as it was.
pub(super) fn restore(args: &RestoreArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let at = args.at.as_ref().map(|text| client.point(text));
    let to = args.to.as_ref().map(|to| client.in_home(to));
    let request = RestoreRequest {
        path: client.in_home(&args.path)?,
        at: at.transpose()?,
        to: to.transpose()?,
        dry_run: args.dry_run,
    };
    let target = quote(args.target.as_os_str().as_bytes());
    let next = format!(
        "`trumanfs redo {target}` takes back what was done, if anything was; then restore again."
    );
    let restored = client
        .restore(&request)
        .map_err(|error| with_advice(error, &next))?;
    if args.json {
        Printer::new().json(&restored)?
    } else {
        print_restored(&request, &restored, &next)
    }
    Ok(match (&restored.failed, restored.notes.is_empty()) {
        (Some(_), _) | (_, false) => ExitReason::Partly,
        _ if restored.same => ExitReason::Nothing,
        _ => ExitReason::Ok,
    })
}

fn print_restored(request: &RestoreRequest, restored: &RestoreReport, next: &str) {
    for note in &restored.notes {
        warn(false, note);
    }
    let (path, to, at) = (&request.path, &restored.to, &restored.at);
    if let Some(error) = &restored.failed {
        warn(false, &format!("stopped half-way: {error}\n  {next}"));
        return;
    }
    if restored.same {
        print_line(format_args!("nothing to do: {to} is as {path} was at {at}"));
        return;
    }
    let would = if request.dry_run {
        "would restore"
    } else {
        "restored"
    };
    if path == to {
        print_line(format_args!("{would} {path} as it was at {at}"))
    } else {
        print_line(format_args!("{would} {path} as it was at {at} to {to}"))
    }
    if let Some(entry) = &restored.replaced {
        print_line(format_args!("  what stood there is in the trash: {entry}"));
    }
}

/// Gives points names, or lists them.
pub(super) fn checkpoint(command: CheckpointCommand) -> Result<ExitReason> {
    match command {
        CheckpointCommand::Create(args) => create(&args),
        CheckpointCommand::List(args) => list(&args),
    }
}

fn create(args: &CheckpointCreateArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let next = "`trumanfs checkpoint list` shows whether it was made.";
    let made = client
        .checkpoint(&args.name)
        .map_err(|error| with_advice(error, next))?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&made)?
    } else {
        printer.line(format_args!(
            "checkpoint {} (operation {})",
            made.name, made.seq
        ))
    }
    Ok(ExitReason::Ok)
}

fn list(args: &CheckpointListArgs) -> Result<ExitReason> {
    let listed = Client::open(&args.target)?.checkpoints()?;
    let mut printer = Printer::new();
    for one in &listed {
        if args.json {
            printer.json(one)?
        } else {
            printer.line(format_args!(
                "{}  {}  {}:{}",
                time(&one.time),
                one.name,
                one.session,
                one.seq
            ))
        }
    }
    Ok(if listed.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}
