//! `agent --hide`, `--read-only` and `--volatile`: what an agent does not see, what it cannot change, and what of its work
//! is not kept, for its session alone.

use std::fs;
use std::process::{Command, Output};

use super::{LIMIT, Store, begin, err, good, until};
use crate::common::{binary, describe, need_mount, run_limited, trumanfs};

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

/// What an agent makes again and again is not kept, and its runs can be taken back all the same.
#[test]
fn what_an_agent_makes_again_is_not_kept() {
    need_mount!();
    let store = project();
    let volatile = ["--volatile", "target/"];
    let build = "mkdir -p target; rm -rf target/*; seq 1000 >target/out; echo built >>file";
    for _ in 0..3 {
        let output = agent(&store, &volatile, build);
        assert!(output.status.success(), "{}", describe(&output));
    }
    let names = || {
        let trash = fs::read_dir(store.store.join(".trash")).unwrap();
        let names = trash.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name != ".gitignore")
            .collect::<Vec<_>>()
    };
    store.is_left_alone();
    assert_eq!(names(), [""; 0]);
    let target = store.store.to_str().unwrap();
    let output = trumanfs(&["undo", target, "--run", "last"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", describe(&output));
    assert!(
        text.contains("not brought back, as volatile: 1 thing in /target"),
        "{text}"
    );
    let read = fs::read_to_string(store.store.join("file")).unwrap();
    assert_eq!(read, "x\nbuilt\nbuilt\n");
    // Without the option everything is kept, whatever was made with it.
    let output = agent(&store, &[], "seq 9 >target/more; rm -r target");
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(
        names().len(),
        1 + 1,
        "what the undo removed, and the directory"
    );
    let said = err(&output);
    assert!(!said.contains("what it keeps"), "{said}");
}

#[test]
fn run_that_keeps_much_says_so() {
    need_mount!();
    let store = project();
    let output = agent(&store, &[], "fallocate -l 110M big && rm big");
    assert!(output.status.success(), "{}", describe(&output));
    let said = err(&output);
    assert!(said.contains("what it keeps:     110.0 MiB"), "{said}");
    assert!(!said.contains("--volatile"), "{said}");
    let script =
        "mkdir -p a/node_modules && fallocate -l 500M a/node_modules/big && rm -r a/node_modules";
    let output = agent(&store, &[], script);
    assert!(output.status.success(), "{}", describe(&output));
    let said = err(&output);
    assert!(said.contains("volatile = [\"node_modules/\"]"), "{said}");
}
