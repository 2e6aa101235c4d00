//! Tries two lines in forks of a store, and brings the work of the first that succeeds into the store.
//!
//! ```sh
//! cargo run --example fork_and_merge -- STORE 'cat missing > result' 'wc -l notes.txt > result'
//! ```

use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use trumanfs::client::{Client, ForkMethod};
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{self, Limits, Status, StoreAccess};
use trumanfs::name::EscapedBytes;
use trumanfs::operator::merge::MergeRequest;
use trumanfs::operator::undo::OnConflict;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let store = PathBuf::from(words.next().ok_or("which store?")?);
    let client = Client::open_or_begin(&store)?;
    for (number, line) in words.enumerate() {
        // Beside the store. Where the file system can, `ForkMethod::Cloned` shares the blocks instead.
        let mut name = store.clone().into_os_string();
        name.push(format!(".try-{number}"));
        let fork = PathBuf::from(name);
        client.fork(&fork, ForkMethod::Copied)?;

        let mut shell = Shell::at(
            exec::open(&fork, &StoreAccess::default())?,
            Limits::default(),
        );
        let outcome = shell.run(line.as_encoded_bytes());
        drop(shell);
        if outcome.status != Status::Success {
            println!(
                "try {number} has failed: {}",
                String::from_utf8_lossy(&outcome.stderr).trim_end()
            );
            continue;
        }
        let request = MergeRequest {
            fork: EscapedBytes(fork.as_os_str().as_bytes().to_vec()),
            paths: Vec::new(),
            choice: OnConflict::Stop,
            dry_run: false,
            run: None,
        };
        let report = client.merge(&Client::open(&fork)?, &request)?;
        if let Some(failed) = report.failed {
            return Err(failed.into());
        }
        println!(
            "try {number} has succeeded, and {} paths are brought in",
            report.changed
        );
        return Ok(());
    }
    Err("no line has succeeded".into())
}
