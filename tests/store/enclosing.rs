//! TARGET left out: the store that encloses the working directory, and a first word that is a path in it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{COMMAND_LIMIT, Home, binary, describe, need_mount, need_root, run_limited};

/// Runs the program in a directory.
fn run_in(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(words).current_dir(directory);
    command.env("XDG_STATE_HOME", directory.join("no-state-home"));
    run_limited(command, COMMAND_LIMIT)
}

/// Runs the program in a directory, expects an exit code, and returns what it printed.
#[track_caller]
fn expect(code: i32, directory: &Path, words: &[&str]) -> (String, String) {
    let output = run_in(directory, words);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{words:?}: {}",
        describe(&output)
    );
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

fn files(store: &Path) {
    fs::create_dir_all(store.join("src/deep")).unwrap();
    fs::write(store.join("README.md"), "first\n").unwrap();
    fs::write(store.join("src/main.rs"), "one\n").unwrap();
}

fn change(home: &Path) {
    fs::write(home.join("README.md"), "second\n").unwrap();
    fs::write(home.join("src/main.rs"), "two\n").unwrap();
    fs::remove_file(home.join("src/main.rs")).unwrap();
}

#[test]
fn first_word_that_is_no_store_is_a_path() {
    need_mount!();
    let mut home = Home::prepared(files, &[]);
    change(home.home());
    let question = |top: &Path| {
        let src = top.join("src");
        let (all, _) = expect(0, top, &["log", "--all"]);
        assert!(all.contains("/README.md") && all.contains("/src/main.rs"));
        for (directory, path) in [(top, "src/main.rs"), (&src, "main.rs"), (&src, "../src")] {
            let (log, _) = expect(0, directory, &["log", "--all", path]);
            assert!(log.contains("/src/main.rs"), "{path}: {log}");
            assert!(!log.contains("/README.md"), "{path}: {log}");
        }
        let (both, _) = expect(0, &src, &["log", "--all", "main.rs", "../README.md"]);
        let both = ["/README.md", "/src/main.rs"].map(|path| both.contains(path));
        assert_eq!(both, [true, true]);
        // A file that is not there any more, too; and options in any place.
        for (directory, path) in [(top, "src/main.rs"), (&src, "main.rs")] {
            let (versions, _) = expect(0, directory, &["versions", path]);
            assert!(versions.starts_with("/src/main.rs  not there now"));
            let (content, _) = expect(0, directory, &["cat", "--at", "last", path]);
            assert_eq!(content, "one\n");
        }
        let (differ, _) = expect(1, &src, &["diff", "--name-only", "."]);
        assert_eq!(differ, "/README.md\n/src/main.rs\n");
        let (differ, _) = expect(1, top, &["diff", "src", "last..now", "--name-only"]);
        assert_eq!(differ, "/src/main.rs\n");
        let (shown, _) = expect(0, &src, &["show", "2"]);
        assert!(shown.contains("/README.md"), "{shown}");
        // The command that it prints works where it is printed.
        let command = shown.split("trumanfs undo ").nth(1).unwrap().trim();
        let words: Vec<&str> = ["undo", "--dry-run"]
            .into_iter()
            .chain(command.split(' '))
            .collect();
        expect(0, &src, &words);
        expect(0, &src.join("deep"), &["session", "show", "last"]);
        expect(0, &src, &["fsck", "--quick"]);
    };
    question(home.home());
    question(home.store());
    home.umount();
    question(home.store());
    let (_, named) = expect(0, home.store(), &["trash", "purge", "--all"]);
    let store = fs::canonicalize(home.store()).unwrap();
    assert_eq!(
        named.lines().next(),
        Some(&*format!("store {}", store.display()))
    );
    let src = store.join("src");
    let (_, named) = expect(0, &src, &["stores", "forget"]);
    assert_eq!(named, format!("store {}\n", store.display()));
    let (_, why) = expect(2, &src, &["log"]);
    assert!(
        why.contains("no store encloses the working directory"),
        "{why}"
    );
    assert!(why.contains("trumanfs log TARGET"), "{why}");
}

#[test]
fn word_with_two_meanings_is_refused() {
    need_mount!();
    let mut home = Home::prepared(files, &[]);
    change(home.home());
    home.umount();
    let store = home.store();
    // A copy of a store in another one.
    let mut copy = Command::new("cp");
    copy.args(["-a", "store", "copy"]).current_dir(home.base());
    assert!(copy.status().unwrap().success());
    fs::rename(home.base().join("copy"), store.join("copy")).unwrap();
    let (_, why) = expect(2, store, &["log", "copy"]);
    let around = fs::canonicalize(store).unwrap();
    for part in [
        "copy is a store, and also a path in the store",
        &format!("`trumanfs log {} copy`", around.display()),
        "`cd copy`, then `trumanfs log`",
    ] {
        assert!(why.contains(part), "{why}");
    }
    expect(1, store, &["log", around.to_str().unwrap(), "copy"]);
    expect(0, &store.join("copy"), &["log"]);
    expect(0, home.base(), &["log", "store"]);
    expect(2, home.base(), &["log"]);
    // What is wrong is named as ever.
    let (_, why) = expect(2, home.base(), &["log", "--no-such-option"]);
    assert!(
        why.contains("unexpected argument '--no-such-option'"),
        "{why}"
    );
    let (_, why) = expect(6, store, &["log", home.home().to_str().unwrap()]);
    assert!(why.contains("is not a store"), "{why}");
}

#[test]
fn merge_finds_its_store() {
    need_mount!();
    let mut home = Home::prepared(files, &[]);
    change(home.home());
    home.umount();
    let store = home.store();
    expect(0, &store.join("src"), &["fork", "attempt", "--copy"]);
    let fork = home.base().join("attempt");
    expect(
        0,
        &fork,
        &["exec", "--root", ".", "--", "echo new > src/new"],
    );
    expect(
        0,
        &store.join("src"),
        &["merge", "../../attempt", "--dry-run"],
    );
    expect(
        0,
        home.base(),
        &["merge", "store", "attempt", "src", "--dry-run"],
    );
    let (_, why) = expect(2, store, &["merge", "../attempt", "src", "--dry-run"]);
    assert!(why.contains("may be the store to merge into"), "{why}");
    expect(0, store, &["merge", ".", "../attempt", "src", "--dry-run"]);
}

#[test]
fn store_of_a_stranger_is_not_found_upwards() {
    need_mount!();
    need_root!("to give files away");
    let mut home = Home::prepared(files, &[]);
    change(home.home());
    home.umount();
    let state = home.store().join(".trumanfs");
    let given = Command::new("chown")
        .args(["-R", "12345"])
        .arg(&state)
        .status();
    assert!(given.unwrap().success());
    let (_, why) = expect(6, &home.store().join("src"), &["log"]);
    assert!(why.contains("belongs to user 12345"), "{why}");
    expect(0, home.base(), &["log", "store"]);
}
