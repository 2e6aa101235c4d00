//! `versions` and `cat`: what a path held before.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::super::exit::ExitReason;
use super::super::output::{Printer, TextStyle, bytes, quote, warn};
use super::super::shown_time::time_and_zone;
use super::words::process_words;
use crate::client::Client;
use crate::error::Result;
use crate::journal::KeepMethod;
use crate::name::{WorldPath, escape};
use crate::operator::versions::{ContentLocation, FormerContent};

/// The number of bytes written at once.
const WRITE_BYTES: usize = 1 << 16;

/// Arguments of `trumanfs versions`.
#[derive(Args, Debug)]
pub(in crate::cli) struct VersionsArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// A path in the home
    path: OsString,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Arguments of `trumanfs cat`.
#[derive(Args, Debug)]
pub(in crate::cli) struct CatArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// A path in the home
    path: OsString,
    /// As it was at this point: an operation (just after it), a session (its start), a checkpoint, a time
    #[arg(
        long,
        value_name = "POINT",
        default_value = "now",
        allow_hyphen_values = true
    )]
    at: String,
}

/// Lists the former contents of a path, the newest first.
pub(in crate::cli) fn versions(args: &VersionsArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let path = client.in_home(&args.path)?;
    let found = client.versions(&path)?;
    let mut printer = Printer::new();
    let target = quote(args.target.as_os_str().as_encoded_bytes());
    if !args.json {
        let now = found.now.map_or_else(
            || "not there now".to_owned(),
            |size| format!("{} now", bytes(size)),
        );
        let path = printer.style(TextStyle::Heading, &path.to_string());
        printer.line(format_args!("{path}  {now}"));
    }
    for version in &found.former {
        if args.json {
            printer.json(version)?
        } else {
            print_entry(&mut printer, version, &target, &path)
        }
    }
    printer.flush();
    if let Some(error) = &found.older {
        warn(args.json, &error.to_string());
    }
    Ok(if found.older.is_some() {
        ExitReason::Partly
    } else if found.former.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}

fn print_entry(printer: &mut Printer, version: &FormerContent, target: &str, path: &WorldPath) {
    let size = version.size.map_or_else(|| "?".to_owned(), bytes);
    let by = match &version.actor {
        Some(actor) => format!(" by {}", process_words(&actor.comm, actor.pid)),
        None => String::new(),
    };
    let kept = match (&version.lost, &version.place) {
        (Some(lost), _) => printer.style(TextStyle::Removed, &format!("lost: {lost}")),
        (
            None,
            ContentLocation::Version {
                how: KeepMethod::Moved,
                ..
            },
        ) => "kept: the file itself".to_owned(),
        (
            None,
            ContentLocation::Version {
                how: KeepMethod::Cloned,
                ..
            },
        ) => "kept: a clone".to_owned(),
        (
            None,
            ContentLocation::Version {
                how: KeepMethod::Copied,
                ..
            },
        ) => "kept: a copy".to_owned(),
        (
            None,
            ContentLocation::Version {
                how: KeepMethod::Blocks,
                ..
            },
        ) => "kept: the blocks that were overwritten".to_owned(),
        (
            None,
            ContentLocation::Version {
                how: KeepMethod::Length,
                ..
            },
        ) => "kept: its length, only appending followed".to_owned(),
        (None, ContentLocation::Trash { entry }) => format!("in the trash: {}", escape(&entry.0)),
        (None, ContentLocation::Elsewhere) => "the file went to another path".to_owned(),
        (None, ContentLocation::Empty) => "was empty".to_owned(),
    };
    let until = time_and_zone(&version.time);
    printer.line(format_args!(
        "  {size:<12} until {until}, {} {}{by}; {kept}",
        version.op, version.until
    ));
    if let Some(missing) = &version.missing {
        let missing = printer.style(TextStyle::Removed, missing);
        printer.line(format_args!("               {missing}"));
    }
    if version.lost.is_none() {
        let path = quote(&[b"/", path.bytes()].concat());
        let command = format!("trumanfs cat {target} {path} --at {}", version.at);
        let command = printer.style(TextStyle::Faint, &command);
        printer.line(format_args!("               {command}"));
    }
}

/// Writes the content that a path had to standard output.
pub(in crate::cli) fn cat(args: &CatArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let path = client.in_home(&args.path)?;
    let content = client.content_at(&path, &args.at)?;
    let mut printer = Printer::new();
    let mut piece = vec![0; WRITE_BYTES];
    let mut offset = 0;
    loop {
        let read = content.read_at(&mut piece, offset)?;
        if read == 0 {
            break;
        }
        printer.bytes(piece.get(..read).unwrap_or_default());
        offset += read as u64;
    }
    Ok(match content.missing_part() {
        None => ExitReason::Ok,
        Some(missing) => {
            printer.flush();
            warn(false, &format!("{path}: {missing}"));
            ExitReason::Partly
        }
    })
}
