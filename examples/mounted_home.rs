//! Mounts a store for as long as a program works in it, and takes back what the program did.
//!
//! ```sh
//! cargo run --example mounted_home -- STORE sh -c 'rm -r src; echo gone > notes.txt'
//! ```
//!
//! The program is an ordinary process of this user that has the home as its working directory. What keeps it from the rest of the
//! machine is a sandbox: `trumanfs::exec::program`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use trumanfs::client::{self, UndoOptions, UndoQuery};
use trumanfs::operator::undo::OnConflict;

fn main() -> ExitCode {
    // The daemon behind the home is this program, started anew.
    if let Some(code) = trumanfs::helper::run() {
        return code;
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mounted_home: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let store = PathBuf::from(words.next().ok_or("which store?")?);
    let program = words.next().ok_or("which program?")?;

    // Mounted by somebody already, or now, and then until `held` is dropped.
    let held = client::hold(
        &store,
        None,
        (client::HeldFor::Host, &Default::default()),
        &|_: &Path| Ok(()),
    )?;
    let client = held.client();
    client.checkpoint("before the program")?;
    let status = Command::new(program)
        .args(words)
        .current_dir(held.mounted_at())
        .status()?;
    println!("the program has ended: {status}");

    let what = UndoQuery {
        to: Some("before the program".to_owned()),
        ..UndoQuery::default()
    };
    let how = UndoOptions {
        on_conflict: OnConflict::Stop,
        dry_run: false,
    };
    let report = client.undo(&client.undo_request(&what, how)?)?;
    for note in &report.notes {
        println!("note: {note}");
    }
    match report.failed {
        Some(failed) => Err(failed.into()),
        None if report.stopped => {
            Err("later changes are in the way, so nothing was taken back".into())
        }
        None => {
            println!("taken back: {} operations", report.operations);
            Ok(())
        }
    }
}
