//! `status`: what is mounted, and how it is going.

use std::path::PathBuf;

use clap::Args;

use super::super::output::{bytes, json};
use super::super::{Exit, open_store, say};
use crate::daemon;
use crate::daemon::control::{Answer, Request, Status};
use crate::error::{Error, Result};
use crate::mounts::{registry, table};

/// What `trumanfs status` takes.
#[derive(Args, Debug)]
pub(in crate::cli) struct StatusArgs {
    /// A home or a store; all homes of this machine where absent
    target: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Says how mounts are going.
pub(in crate::cli) fn status(args: &StatusArgs) -> Result<Exit> {
    let Some(target) = &args.target else {
        return status_of_all(args.json);
    };
    match ask(target)? {
        Some(status) if args.json => say(format_args!("{}", json(&status)?)),
        Some(status) => print_status(&status),
        None => {
            say(format_args!("{} is not mounted", target.display()));
            return Ok(Exit::Nothing);
        }
    }
    Ok(Exit::Ok)
}

fn status_of_all(as_json: bool) -> Result<Exit> {
    let mut found = Vec::new();
    for mounted in table::mounted() {
        let Some(entry) = registry::find(&mounted.device) else {
            eprintln!(
                "trumanfs: {}: mounted by somebody else",
                mounted.path.display()
            );
            continue;
        };
        match ask(&entry.store()) {
            Ok(Some(status)) => found.push(status),
            Ok(None) => eprintln!(
                "trumanfs: {}: its daemon has died; `trumanfs umount` cleans up, nothing is lost",
                mounted.path.display()
            ),
            Err(error) => eprintln!("trumanfs: {}: {error}", mounted.path.display()),
        }
    }
    match as_json {
        true => say(format_args!("{}", json(&found)?)),
        false => found.iter().for_each(print_status),
    }
    Ok(if found.is_empty() {
        Exit::Nothing
    } else {
        Exit::Ok
    })
}

fn ask(target: &std::path::Path) -> Result<Option<Status>> {
    let (_, store) = open_store(target)?;
    if !store.is_served()? {
        return Ok(None);
    }
    match daemon::ask(store.state(), &Request::Status, "")? {
        Answer::Status(status) => Ok(Some(*status)),
        _ => Err(Error::refused(
            "the daemon gave an answer to another question",
            "",
        )),
    }
}

fn print_status(status: &Status) {
    say(format_args!("{}", status.home));
    say(format_args!("  store       {}", status.store));
    say(format_args!(
        "  session     {} since {}, process {}",
        status.session, status.since, status.pid
    ));
    say(format_args!(
        "  changes     {} recorded; the trash takes {}, former contents {}",
        status.records,
        bytes(status.trash_bytes),
        bytes(status.kept_bytes)
    ));
    if status.refused > 0 {
        say(format_args!(
            "  refused     {} writes, because former contents have reached their limit (--keep-max); \
             `trumanfs trash purge --versions` makes room",
            status.refused
        ));
    }
    let words = |value: &serde_json::Value| match value {
        serde_json::Value::Object(map) => map
            .iter()
            .filter(|(_, v)| **v != serde_json::Value::Bool(false))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        _ => Vec::new(),
    };
    let names = |value| {
        words(value)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    say(format_args!("  mechanisms  {}", names(&status.mechanisms)));
    say(format_args!(
        "  known       {} files and directories, {} open, {} directories watched",
        status.known, status.open, status.watched
    ));
    let counts: Vec<_> = words(&status.counters)
        .into_iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    say(format_args!("  requests    {}", counts.join(", ")));
}
