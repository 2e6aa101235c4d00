//! `trash list` and `trash restore`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::inspect::{bytes, json};
use super::wish::{ask_to_change, into_error};
use super::{Exit, open_store, purge, say};
use crate::daemon::control::{Answer, Request};
use crate::error::{Error, Result};
use crate::name::{Escaped, WorldPath, escape};
use crate::operator::{self, Store};
use crate::world::{Caller, World, WorldOptions, new_session_id};

/// What `trumanfs trash` can do.
#[derive(Subcommand, Debug)]
pub(super) enum TrashCommand {
    /// Lists what was removed: entry, where it was, when, by whom, and how big it is
    List(ListArgs),
    /// Puts something back to where it was, or to another place
    Restore(RestoreArgs),
    /// Says what the trash and the former contents take, by session and by program
    Usage(purge::UsageArgs),
    /// Deletes entries of the trash, or former contents, for good
    Purge(purge::PurgeArgs),
}

/// What `trumanfs trash list` takes.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// A store or a home
    target: PathBuf,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// What `trumanfs trash restore` takes.
#[derive(Args, Debug)]
pub(super) struct RestoreArgs {
    /// A store or a home
    target: PathBuf,
    /// The entry, as `trash list` names it; or something in one, as ENTRY/PATH
    entry: std::ffi::OsString,
    /// Where to, as a path in the home; where it was if absent
    #[arg(long, value_name = "PATH")]
    to: Option<std::ffi::OsString>,
}

/// Looks into the trash, or takes something out of it.
pub(super) fn trash(command: TrashCommand) -> Result<Exit> {
    match command {
        TrashCommand::List(args) => list(&args),
        TrashCommand::Restore(args) => restore(&args),
        TrashCommand::Usage(args) => purge::print_usage(&args),
        TrashCommand::Purge(args) => purge::purge(args),
    }
}

fn list(args: &ListArgs) -> Result<Exit> {
    let (_, store) = open_store(&args.target)?;
    let listed = operator::trash::list(&store)?;
    for entry in &listed {
        if args.json {
            say(format_args!("{}", json(entry)?));
            continue;
        }
        let path = entry
            .path
            .as_ref()
            .map_or_else(|| "?".to_owned(), ToString::to_string);
        let who = entry.actor.as_ref().map_or_else(String::new, |actor| {
            format!("{}[{}]", actor.comm, actor.pid)
        });
        say(format_args!(
            "{}\n    was {path}{}, {}, removed {} {who}",
            escape(&entry.entry.0),
            if entry.directory { "/" } else { "" },
            bytes(entry.size),
            entry.time.get(..19).unwrap_or_default().replace('T', " "),
        ));
    }
    Ok(if listed.is_empty() {
        Exit::Nothing
    } else {
        Exit::Ok
    })
}

fn restore(args: &RestoreArgs) -> Result<Exit> {
    let (path, store) = open_store(&args.target)?;
    let entry = args.entry.as_bytes();
    let to = match &args.to {
        Some(to) => WorldPath::parse(to.as_bytes())?,
        None => operator::trash::origin(&store, entry).map_err(|error| match error {
            Error::NotFound => missing(entry),
            error => error,
        })?,
    };
    if store.is_served()? {
        ask_daemon(&store, entry, &to)?;
    } else {
        let options = WorldOptions {
            session: new_session_id(),
            ..WorldOptions::default()
        };
        let (world, _) = World::open(&path, options)?;
        let restored = operator::trash::restore(&world, entry, &to, Caller::myself());
        world.close();
        restored.map_err(|error| match error {
            Error::NotFound => missing(entry),
            error => error,
        })?;
    }
    say(format_args!("restored {} to {to}", escape(entry)));
    Ok(Exit::Ok)
}

fn ask_daemon(store: &Store, entry: &[u8], to: &WorldPath) -> Result<()> {
    let request = Request::Restore {
        entry: Escaped(entry.to_vec()),
        to: to.clone(),
    };
    let go_on =
        "`trumanfs trash list` shows whether the entry is still there; if it is, restore it again.";
    match ask_to_change(store, &request, go_on)? {
        Answer::Done => Ok(()),
        other => Err(into_error(other)),
    }
}

fn missing(entry: &[u8]) -> Error {
    Error::Missing {
        what: format!("{}: no such entry in the trash", escape(entry)),
        remedy: "`trumanfs trash list` names them.".to_owned(),
    }
}
