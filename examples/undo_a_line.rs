//! Runs a line of the bundled shell in a store that nobody has mounted, says what the line has changed, and takes it back.
//!
//! ```sh
//! cargo run --example undo_a_line -- STORE 'echo gone > notes.txt; rm -r src'
//! ```

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use trumanfs::client::{Client, UndoOptions, UndoQuery};
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{self, Limits, StoreAccess};
use trumanfs::operator::filter::RecordFilter;
use trumanfs::operator::undo::OnConflict;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let store = PathBuf::from(words.next().ok_or("which store?")?);
    let line = words.next().ok_or("which line?")?;

    // The shell has the store for itself from its first change until it is dropped.
    let place = exec::open(&store, &StoreAccess::default())?;
    let mut shell = Shell::at(place, Limits::default());
    let outcome = shell.run(line.as_encoded_bytes());
    drop(shell);
    std::io::stdout().write_all(&outcome.stdout)?;
    std::io::stderr().write_all(&outcome.stderr)?;
    println!("the line has ended: {:?}", outcome.status);

    // Each line is a run, and whatever a run changes is recorded.
    let client = Client::open(&store)?;
    let run = outcome.run.to_string();
    let filter = RecordFilter {
        run: client.run(&run).ok(),
        ..RecordFilter::default()
    };
    if filter.run.is_none() {
        println!("it has changed nothing");
        return Ok(());
    }
    let mut log = client.log(&filter)?;
    while let Some((_session, record)) = log.next_record()? {
        println!("changed: {}", record.op.word());
    }

    let what = UndoQuery {
        run: Some(run),
        ..UndoQuery::default()
    };
    let how = UndoOptions {
        on_conflict: OnConflict::Stop,
        dry_run: false,
    };
    let report = client.undo(&client.undo_request(&what, how)?)?;
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
