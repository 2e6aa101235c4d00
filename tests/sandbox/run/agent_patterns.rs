//! `agent --hide` and `--read-only`: what an agent does not see and cannot change, for its session alone.

use std::fs;
use std::process::{Command, Output};

use super::{LIMIT, Store, begin, err, good, until};
use crate::common::{binary, describe, need_mount, run_limited};

fn agent_command(store: &Store, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(options).args(["--", "sh", "-c", script]);
    command
}

fn agent(store: &Store, options: &[&str], script: &str) -> Output {
    run_limited(agent_command(store, options, script), LIMIT)
}

fn project() -> Store {
    let store = Store::new();
    for (name, text) in [
        (".env", "KEY=secret\n"),
        ("Makefile", "all:\n"),
        ("file", "x\n"),
    ] {
        fs::write(store.store.join(name), text).unwrap();
    }
    store
}

const PATTERNS: [&str; 4] = ["--hide", ".env", "--read-only", "Makefile"];

#[test]
fn agent_sees_nothing_hidden_and_later_sessions_do() {
    need_mount!();
    let store = project();
    let script =
        "ls -A; cat .env; echo x >>Makefile; rm -f Makefile; echo y >.env; echo y >file; true";
    let output = agent(&store, &PATTERNS, script);
    assert_eq!(good(&output), "Makefile\nfile\n", "{}", describe(&output));
    let said = err(&output);
    assert!(said.contains(".env: No such file or directory"), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    let read = |name: &str| fs::read_to_string(store.store.join(name)).unwrap();
    assert_eq!(
        (read(".env"), read("Makefile")),
        ("KEY=secret\n".into(), "all:\n".into())
    );
    assert_eq!(read("file"), "y\n");
    let output = agent(&store, &[], "cat .env; echo later >>Makefile");
    assert_eq!(good(&output), "KEY=secret\n", "{}", describe(&output));
    assert_eq!(read("Makefile"), "all:\nlater\n");
}

#[test]
fn home_that_is_mounted_without_a_pattern_is_refused() {
    need_mount!();
    let store = project();
    let wait = "touch ready; until [ -e go ]; do sleep 0.05; done";
    let ready = || store.store.join("ready").exists();
    let first = begin(agent_command(&store, &[], wait));
    until("the first agent has begun", ready);
    let output = agent(&store, &PATTERNS, "cat .env");
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    let said = err(&output);
    let wanted = "is mounted already, without --hide .env --read-only Makefile";
    assert!(said.contains(wanted) && output.stdout.is_empty(), "{said}");
    fs::write(store.store.join("go"), "").unwrap();
    assert!(first.wait_with_output().unwrap().status.success());
    fs::remove_file(store.store.join("ready")).unwrap();
    fs::remove_file(store.store.join("go")).unwrap();
    store.is_left_alone();
    // Two with the same patterns work side by side, and so does one that asks for less.
    let first = begin(agent_command(&store, &PATTERNS, wait));
    until("the first agent has begun", ready);
    for options in [&PATTERNS[..], &PATTERNS[..2], &[]] {
        let output = agent(&store, options, "cat .env");
        assert!(output.stdout.is_empty(), "{}", describe(&output));
        assert!(
            err(&output).contains("No such file or directory"),
            "{}",
            describe(&output)
        );
    }
    fs::write(store.store.join("go"), "").unwrap();
    assert!(first.wait_with_output().unwrap().status.success());
}

#[test]
fn pattern_that_is_none_is_an_error_before_anything_begins() {
    need_mount!();
    let store = project();
    for options in [&["--hide", "a{"][..], &["--hide", ".env", "--home", "fork"]] {
        let output = agent(&store, options, "echo ran");
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(
            output.stdout.is_empty() && err(&output).contains("--"),
            "{}",
            describe(&output)
        );
    }
}
