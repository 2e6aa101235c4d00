//! `restore` and `checkpoint`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::output::{json, quote, time};
use super::place::in_home;
use super::wish::{ask_to_change, in_process, into_error};
use super::{Exit, open_store, say};
use crate::daemon::control::{Answer, Request};
use crate::error::Result;
use crate::operator::undo::restore::{RestoreRequest, Restored, restore as put_back};
use crate::operator::{checkpoint, point};
use crate::world::Caller;

/// What `trumanfs restore` takes.
#[derive(Args, Debug)]
pub(super) struct RestoreArgs {
    /// A store or a home
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

/// What `trumanfs checkpoint` can do.
#[derive(Subcommand, Debug)]
pub(super) enum CheckpointCommand {
    /// Gives this moment a name, for --to, --at and diff
    Create(CreateArgs),
    /// Lists the names that were given, the newest first
    List(ListArgs),
}

/// What `trumanfs checkpoint create` takes.
#[derive(Args, Debug)]
pub(super) struct CreateArgs {
    /// A store or a home
    target: PathBuf,
    /// The name
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `trumanfs checkpoint list` takes.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// A store or a home
    target: PathBuf,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Puts a file or a tree back as it was.
pub(super) fn restore(args: &RestoreArgs) -> Result<Exit> {
    let (path, store) = open_store(&args.target)?;
    let at = args.at.as_ref().map(|text| point::point(&store, text));
    let in_home = |typed: &OsString| in_home(&args.target, &path, &store, typed);
    let to = args.to.as_ref().map(in_home);
    let wish = RestoreRequest {
        path: in_home(&args.path)?,
        at: at.transpose()?,
        to: to.transpose()?,
        dry_run: args.dry_run,
    };
    let target = quote(args.target.as_os_str().as_bytes());
    let go_on = format!(
        "`trumanfs redo {target}` takes back what was done, if anything was; then restore again."
    );
    let restored = if wish.dry_run {
        put_back(&store, &wish, None, Caller::myself())?
    } else if store.is_served()? {
        match ask_to_change(&store, &Request::RestoreRequest(wish.clone()), &go_on)? {
            Answer::RestoreRequest(restored) => restored,
            other => return Err(into_error(other)),
        }
    } else {
        if store.copied()?.is_some() {
            // What cannot be told here is refused before a session begins.
            put_back(&store, &wish, None, Caller::myself())?;
        }
        in_process(&path, |store, applier| {
            put_back(store, &wish, Some(applier), Caller::myself())
        })?
    };
    if args.json {
        say(format_args!("{}", json(&restored)?));
    } else {
        print_restored(&wish, &restored, &go_on);
    }
    Ok(match (&restored.failed, restored.notes.is_empty()) {
        (Some(_), _) | (_, false) => Exit::Partly,
        _ if restored.same => Exit::Nothing,
        _ => Exit::Ok,
    })
}

fn print_restored(wish: &RestoreRequest, restored: &Restored, go_on: &str) {
    for note in &restored.notes {
        eprintln!("trumanfs: {note}");
    }
    let (path, to, at) = (&wish.path, &restored.to, &restored.at);
    if let Some(error) = &restored.failed {
        eprintln!("trumanfs: stopped half-way: {error}\n  {go_on}");
        return;
    }
    if restored.same {
        say(format_args!("nothing to do: {to} is as {path} was at {at}"));
        return;
    }
    let would = if wish.dry_run {
        "would restore"
    } else {
        "restored"
    };
    match path == to {
        true => say(format_args!("{would} {path} as it was at {at}")),
        false => say(format_args!("{would} {path} as it was at {at} to {to}")),
    }
    if let Some(entry) = &restored.replaced {
        say(format_args!("  what stood there is in the trash: {entry}"));
    }
}

/// Gives points names, or lists them.
pub(super) fn checkpoint(command: CheckpointCommand) -> Result<Exit> {
    match command {
        CheckpointCommand::Create(args) => create(&args),
        CheckpointCommand::List(args) => list(&args),
    }
}

fn create(args: &CreateArgs) -> Result<Exit> {
    let (path, store) = open_store(&args.target)?;
    let seq = if store.is_served()? {
        let name = args.name.clone();
        let go_on = "`trumanfs checkpoint list` shows whether it was made.";
        match ask_to_change(&store, &Request::Checkpoint { name }, go_on)? {
            Answer::Checkpoint(seq) => seq,
            other => return Err(into_error(other)),
        }
    } else {
        in_process(&path, |store, applier| {
            checkpoint::create(store, applier.world(), &args.name, Caller::myself())
        })?
    };
    match args.json {
        true => say(format_args!(
            "{}",
            json(&serde_json::json!({ "name": args.name, "seq": seq }))?
        )),
        false => say(format_args!("checkpoint {} (operation {seq})", args.name)),
    }
    Ok(Exit::Ok)
}

fn list(args: &ListArgs) -> Result<Exit> {
    let (_, store) = open_store(&args.target)?;
    let listed = checkpoint::list(&store)?;
    for one in &listed {
        match args.json {
            true => say(format_args!("{}", json(one)?)),
            false => say(format_args!(
                "{}  {}  {}:{}",
                time(&one.time),
                one.name,
                one.session,
                one.seq
            )),
        }
    }
    Ok(match listed.is_empty() {
        true => Exit::Nothing,
        false => Exit::Ok,
    })
}
