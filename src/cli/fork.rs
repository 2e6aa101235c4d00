//! `fork`: a second store of everything that a store has now.

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::output::{Printer, count, warn};
use crate::client::{Client, Forked, Means};
use crate::error::Result;

/// What `trumanfs fork` takes.
#[derive(Args, Debug)]
pub(super) struct ForkArgs {
    /// A store or a home
    target: PathBuf,
    /// The new store: a name for a directory beside the store, or a path; nothing may be there yet
    name: PathBuf,
    /// Copy every byte where the file system cannot share blocks (ext4, tmpfs, another disk)
    #[arg(long)]
    copy: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes a fork.
pub(super) fn fork(args: &ForkArgs) -> Result<Exit> {
    let client = Client::open(&args.target)?;
    let means = match args.copy {
        true => Means::Copied,
        false => Means::Cloned,
    };
    let forked = client.fork(&args.name, means)?;
    match args.json {
        true => Printer::new().json(&forked)?,
        false => print(&forked),
    }
    Ok(match forked.notes.is_empty() {
        true => Exit::Ok,
        false => Exit::Partly,
    })
}

fn print(forked: &Forked) {
    for note in &forked.notes {
        warn(false, note);
    }
    let counts = &forked.counts;
    let shares = match (forked.means, counts.copied) {
        (Means::Cloned, 0) => "sharing all contents with the origin".to_owned(),
        (Means::Cloned, copied) => format!(
            "sharing contents with the origin but for {}",
            count(copied, "file")
        ),
        (Means::Copied, _) => "copied".to_owned(),
    };
    let mut printer = Printer::new();
    printer.line(format_args!(
        "forked {} to {}: {} and {}, {shares}",
        forked.origin,
        forked.store,
        count(counts.files, "file"),
        match counts.directories {
            1 => "1 directory".to_owned(),
            n => format!("{n} directories"),
        },
    ));
}
