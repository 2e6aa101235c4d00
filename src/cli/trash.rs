//! `trash list` and `trash restore`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::{ExitReason, with_advice};
use super::inspect::process_words;
use super::output::{Printer, bytes};
use super::purge;
use super::shown_time::time;
use crate::client::Client;
use crate::error::Result;
use crate::name::escape;
use crate::operator::trash::TrashEntry;

/// Subcommands of `trumanfs trash`.
#[derive(Subcommand, Debug)]
pub(super) enum TrashCommand {
    /// Lists what was removed: entry, where it was, when, by whom, and how big it is
    List(TrashListArgs),
    /// Puts something back to where it was, or to another place
    Restore(TrashRestoreArgs),
    /// Says what the trash and the former contents take, by session and by program
    Usage(purge::UsageArgs),
    /// Deletes entries of the trash, or former contents, for good
    Purge(purge::PurgeArgs),
}

/// Arguments of `trumanfs trash list`.
#[derive(Args, Debug)]
pub(super) struct TrashListArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Arguments of `trumanfs trash restore`.
#[derive(Args, Debug)]
pub(super) struct TrashRestoreArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// The entry, as `trash list` names it; or something in one, as ENTRY/PATH
    entry: std::ffi::OsString,
    /// Where to, as a path in the home; where it was if absent
    #[arg(long, value_name = "PATH")]
    to: Option<std::ffi::OsString>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Looks into the trash, or takes something out of it.
pub(super) fn trash(command: TrashCommand) -> Result<ExitReason> {
    match command {
        TrashCommand::List(args) => list(&args),
        TrashCommand::Restore(args) => restore(&args),
        TrashCommand::Usage(args) => purge::print_usage(&args),
        TrashCommand::Purge(args) => purge::purge(args),
    }
}

fn list(args: &TrashListArgs) -> Result<ExitReason> {
    let listed = Client::open(&args.target)?.trash()?;
    let mut printer = Printer::new();
    for entry in &listed {
        if args.json {
            printer.json(entry)?
        } else {
            print_entry(&mut printer, entry)
        }
    }
    Ok(if listed.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}

fn print_entry(printer: &mut Printer, entry: &TrashEntry) {
    let path = entry
        .path
        .as_ref()
        .map_or_else(|| "?".to_owned(), ToString::to_string);
    let who = entry
        .actor
        .as_ref()
        .map_or_else(String::new, |actor| process_words(&actor.comm, actor.pid));
    printer.line(format_args!("{}", escape(&entry.entry.0)));
    printer.line(format_args!(
        "    was {path}{}, {}, removed {} {who}",
        if entry.directory { "/" } else { "" },
        bytes(entry.size),
        time(&entry.time),
    ));
}

fn restore(args: &TrashRestoreArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let to = args.to.as_ref().map(|to| client.in_home(to)).transpose()?;
    let next =
        "`trumanfs trash list` shows whether the entry is still there; if it is, restore it again.";
    let restored = client
        .trash_restore(args.entry.as_bytes(), to.as_ref())
        .map_err(|error| with_advice(error, next))?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&restored)?
    } else {
        printer.line(format_args!(
            "restored {} to {}",
            escape(&restored.entry.0),
            restored.to
        ))
    }
    Ok(ExitReason::Ok)
}
