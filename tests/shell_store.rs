//! What the bundled shell leaves behind in a store that nobody has mounted: its records and its sessions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trumanfs::error::Error;
use trumanfs::exec::Home;
use trumanfs::exec::home::Writing;
use trumanfs::exec::unmounted::StoredHome;
use trumanfs::name::WorldPath;

/// The word of each record of all sessions, in order.
fn words(store: &Path) -> Vec<String> {
    let mut sessions: Vec<_> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|session| session.unwrap().path().join("journal.jsonl"))
        .collect();
    sessions.sort();
    let lines = sessions
        .iter()
        .map(|file| fs::read_to_string(file).unwrap());
    let lines: String = lines.collect();
    let word = |line: &str| {
        let (_, rest) = line.split_once("\"op\":\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    lines.lines().map(word).collect()
}

/// A file that is there is not tried to be made first, which would leave a record of something that did not happen.
#[test]
fn writing_to_what_is_there_leaves_one_record() {
    let store = tempfile::tempdir().unwrap();
    let home = StoredHome::open(store.path()).unwrap();
    let path = WorldPath::parse(b"f").unwrap();
    for how in [
        Writing::Truncate,
        Writing::Truncate,
        Writing::Append,
        Writing::Truncate,
    ] {
        let mut file = home.write(&path, how, 0o644).unwrap();
        file.write_all(b"x\n").unwrap();
    }
    assert_eq!(fs::read(store.path().join("f")).unwrap(), b"x\n");
    drop(home);
    let wanted = ["begin", "create", "truncate", "write", "truncate", "end"];
    assert_eq!(words(store.path()), wanted);
}

/// Somebody outside makes and removes the file all the time: each write still finds it or makes it.
#[test]
fn writing_to_what_comes_and_goes_never_says_that_it_is_absent() {
    let store = tempfile::tempdir().unwrap();
    let home = StoredHome::open(store.path()).unwrap();
    let path = WorldPath::parse(b"f").unwrap();
    let (file, over) = (store.path().join("f"), AtomicBool::new(false));
    let mut answers = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = fs::write(&file, "outside");
                // Without a pause the two fall into step, and each look comes at the wrong moment.
                std::thread::sleep(Duration::from_micros(50));
                let _ = fs::remove_file(&file);
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for _ in 0..2000 {
            for how in [Writing::Truncate, Writing::Append] {
                let opened = home.write(&path, how, 0o644);
                answers.extend(opened.err().as_ref().map(Error::errno));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let first = answers.first();
    assert!(answers.is_empty(), "{} times, {first:?}", answers.len());
}
