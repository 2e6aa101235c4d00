//! `stores`: which stores have their state in the state home, `stores forget` and `stores move`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::exit::ExitReason;
use super::output::{Printer, bytes, name_store};
use crate::client;
use crate::error::Result;
use crate::name::escape;

/// Arguments of `trumanfs stores`.
#[derive(Args, Debug)]
pub(super) struct StoresArgs {
    #[command(subcommand)]
    command: Option<StoresCommand>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Subcommands of `trumanfs stores`.
#[derive(Subcommand, Debug)]
enum StoresCommand {
    /// Deletes a store's history, trash, former contents and agents' logins for good; its files stay
    Forget(StoreArgs),
    /// Moves the state that lies in a store into the state home of its owner
    Move(StoreArgs),
}

#[derive(Args, Debug)]
struct StoreArgs {
    /// A store that nobody has mounted; the one that encloses the working directory if absent
    #[arg(value_name = "STORE", value_hint = ValueHint::DirPath)]
    target: PathBuf,
}

/// Lists stores, forgets one, or moves the state of one.
pub(super) fn stores(args: &StoresArgs) -> Result<ExitReason> {
    let mut printer = Printer::new();
    match &args.command {
        None => return list(args.json),
        Some(StoresCommand::Forget(args)) => {
            let directory = client::named_directory(&args.target)?;
            name_store(&directory);
            client::forget_store(&directory)?;
            let store = escape(directory.as_os_str().as_bytes());
            printer.line(format_args!("{store} is no store any more"));
        }
        Some(StoresCommand::Move(args)) => {
            let state = client::move_store_state(&client::named_directory(&args.target)?)?;
            let state = escape(state.as_os_str().as_bytes());
            printer.line(format_args!("its state lies in {state}"));
        }
    }
    Ok(ExitReason::Ok)
}

fn list(json: bool) -> Result<ExitReason> {
    let known = client::known_stores()?;
    let mut printer = Printer::new();
    for store in &known {
        if json {
            printer.json(store)?;
            continue;
        }
        let last = store.last.as_deref().unwrap_or("none");
        let place = if store.is_at_path {
            ""
        } else {
            ", not at its path"
        };
        printer.line(format_args!("{}", escape(&store.path.0)));
        printer.line(format_args!(
            "    {}, last session {last}{place}",
            bytes(store.size)
        ));
    }
    Ok(match known.is_empty() {
        true => ExitReason::Nothing,
        false => ExitReason::Ok,
    })
}
