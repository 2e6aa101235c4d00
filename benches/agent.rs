//! What `trumanfs agent -- true` costs from start to end, and its parts: the program itself, the mount, the sandbox, what
//! is said at the end. Prints medians; the requests alternate, so that all meet the same machine.
//!
//! `cargo bench --bench agent [-- REQUESTS]`, where homes can be mounted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trumanfs");

/// What is measured, how it is done once, and how long it took each time.
type Kind<'a> = (&'a str, Box<dyn Fn() -> Duration + 'a>, Vec<Duration>);

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let count: usize = given.unwrap_or(100);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (cold, warm, home, empty) = (at("cold"), at("warm"), at("home"), at("empty"));
    done(&["mount".as_ref(), &warm, &home]);
    let agent = |store: &Path, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(["agent", "--store"])
            .arg(store)
            .arg("--")
            .args(words);
        timed(command)
    };
    let mut kinds: Vec<Kind<'_>> = vec![
        (
            "the program alone (--version)",
            Box::new(|| {
                let mut command = Command::new(PROGRAM);
                command.arg("--version");
                timed(command)
            }),
            Vec::new(),
        ),
        (
            "mount and umount",
            Box::new(|| {
                let began = Instant::now();
                done(&["mount".as_ref(), &cold, &empty]);
                done(&["umount".as_ref(), &empty]);
                began.elapsed()
            }),
            Vec::new(),
        ),
        (
            "agent -- true, mounted already",
            Box::new(|| agent(&home, &["true"])),
            Vec::new(),
        ),
        (
            "the same with a change to tell of",
            Box::new(|| agent(&home, &["sh", "-c", "date +%N >file"])),
            Vec::new(),
        ),
        (
            "agent -- true, from start to end",
            Box::new(|| agent(&cold, &["true"])),
            Vec::new(),
        ),
    ];
    for _ in 0..count {
        for (_, run, times) in &mut kinds {
            times.push(run());
        }
    }
    for (name, _, times) in &mut kinds {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 100).unwrap().as_secs_f64() * 1e3;
        let (median, tenth, ninetieth) = (at(50), at(10), at(90));
        println!(
            "{name:35} median {median:6.1} ms   tenth {tenth:6.1} ms   ninetieth {ninetieth:6.1} ms"
        );
    }
    drop(kinds);
    done(&["umount".as_ref(), &home]);
}

fn done(words: &[&Path]) {
    let mut command = Command::new(PROGRAM);
    command.args(words);
    timed(command);
}

fn timed(mut command: Command) -> Duration {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
    began.elapsed()
}
