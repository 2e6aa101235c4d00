//! `review`, `accept` and `reject`: what is listed, what accepting means, and that rejecting is an undo with its conflicts.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Home, describe, need_mount, trumanfs};

#[track_caller]
pub(crate) fn done(code: i32, args: &[&str]) -> (String, String) {
    let output = trumanfs(args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}",
        describe(&output)
    );
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// Runs a line of the shell as a run of its own, and returns the run's id.
#[track_caller]
pub(crate) fn run(home: &Home, line: &str) -> String {
    let at = home.home().to_str().unwrap();
    done(0, &["exec", "--root", at, "--", line]);
    let journal = home.journal();
    let last = journal.iter().rev().find(|record| record["op"] == "run");
    last.unwrap()["origin"]["run"].as_str().unwrap().to_owned()
}

/// Returns what is listed: letters and paths.
#[track_caller]
pub(crate) fn listed(target: &str, more: &[&str]) -> Vec<String> {
    let output = trumanfs(&[&["review", target, "--json"], more].concat());
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(
        output.status.code(),
        Some(i32::from(!lines.is_empty())),
        "{}",
        describe(&output)
    );
    let of = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let status = value["status"]
            .as_str()
            .unwrap()
            .get(..1)
            .unwrap()
            .to_owned();
        format!("{status} {}", value["path"].as_str().unwrap())
    };
    lines.lines().map(of).collect()
}

fn three_files(store: &Path) {
    for name in ["a", "b", "c"] {
        fs::write(store.join(name), "one\n").unwrap();
    }
}

/// Two runs and a process of neither: each review has its own, and all of them are in the session's.
#[test]
fn each_change_is_listed_with_whose_it_is() {
    need_mount!();
    let home = Home::prepared(three_files, &[]);
    let at = home.home().to_str().unwrap();
    let first = run(&home, "echo two > a; rm b");
    let second = run(&home, "mkdir d; echo x > d/f; echo three >> a");
    home.sh("echo by-hand > c; mv d e");
    assert_eq!(listed(at, &["--run", &first]), ["m /a", "r /b"]);
    assert_eq!(listed(at, &["--run", &second]), ["m /a", "a /e", "a /e/f"]);
    assert_eq!(listed(at, &[]), ["m /a", "r /b", "m /c", "a /e", "a /e/f"]);
    let (all, _) = done(1, &["review", at, "--json"]);
    let by = |path: &str| {
        let mut values = all
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = values.rfind(|value| value["path"] == path).unwrap();
        let by = found["by"].as_array().unwrap().clone();
        by.iter()
            .map(|by| by["run"].as_str().unwrap_or("nobody").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(by("/a"), [second.clone(), first.clone()]);
    assert_eq!(by("/c"), ["nobody"]);
    // Moved along with its directory: it was not touched by the `mv`.
    assert_eq!(by("/e/f"), std::slice::from_ref(&second));
    assert_eq!(by("/e"), ["nobody".to_owned(), second]);
}

/// What is accepted leaves the list, mounted or not; a later change brings it back; undo and redo do not confuse that.
#[test]
fn what_is_accepted_leaves_the_list_until_it_changes_again() {
    need_mount!();
    let mut home = Home::prepared(three_files, &[]);
    let (at, store) = (
        home.home().to_str().unwrap().to_owned(),
        home.store().to_str().unwrap().to_owned(),
    );
    let first = run(&home, "echo two > a; echo two > b; mkdir d; echo x > d/f");
    done(0, &["accept", &at, &first, "a", "/d"]);
    assert_eq!(listed(&at, &["--run", &first]), ["m /b"]);
    assert_eq!(
        listed(&at, &["--run", &first, "--all"]),
        ["m /a", "m /b", "a /d", "a /d/f"]
    );
    let (_, said) = done(3, &["accept", &at, &first, "a"]);
    assert!(said.contains("/a is not among the changes"), "{said}");
    // Rejecting the rest leaves what was accepted.
    done(0, &["reject", &at, &first]);
    assert_eq!(fs::read_to_string(home.path("b")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(home.path("a")).unwrap(), "two\n");
    assert!(listed(&at, &["--run", &first]).is_empty());
    // A redo brings the change of b back, and nobody has accepted that.
    done(0, &["redo", &at]);
    assert_eq!(listed(&at, &["--run", &first]), ["m /b"]);
    // Taken back and redone, what was accepted stays accepted.
    done(0, &["undo", &at, "--run", &first]);
    done(0, &["redo", &at]);
    assert_eq!(listed(&at, &["--run", &first]), ["m /b"]);
    home.umount();
    done(0, &["accept", &store, &first]);
    assert!(listed(&store, &["--run", &first]).is_empty());
    let (_, said) = done(3, &["accept", &store, &first]);
    assert!(said.contains("nothing is left to be reviewed"), "{said}");
    let (_, said) = done(3, &["reject", &store, &first]);
    assert!(said.contains("nothing is left to be reviewed"), "{said}");
    done(0, &["exec", "--root", &store, "--", "echo four > a"]);
    assert_eq!(listed(&store, &[]), ["m /a"]);
    let (fsck, _) = done(0, &["fsck", &store]);
    assert!(fsck.contains("everything agrees"), "{fsck}");
}

/// Rejecting is by identity, brings a directory back where a path needs it, and meets the conflicts of any undo.
#[test]
fn rejecting_a_path_is_an_undo_of_what_was_done_to_it() {
    need_mount!();
    let files = |store: &Path| {
        three_files(store);
        fs::create_dir(store.join("d")).unwrap();
        fs::write(store.join("d/f"), "f\n").unwrap();
        fs::write(store.join("d/g"), "g\n").unwrap();
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    let first = run(
        &home,
        "echo two > a; mv a moved; rm -r d; echo new > [x]; echo two > b",
    );
    assert_eq!(
        listed(at, &[]),
        ["a /[x]", "m /b", "r /d", "r /d/f", "r /d/g", "r /moved"]
    );
    // The change under its old name goes with it.
    done(0, &["reject", at, &first, "moved"]);
    assert_eq!(fs::read_to_string(home.path("a")).unwrap(), "one\n");
    done(0, &["reject", at, &first, "/d/f"]);
    assert_eq!(fs::read_to_string(home.path("d/f")).unwrap(), "f\n");
    assert!(!home.path("d/g").exists());
    // A name is a name, and no pattern.
    done(0, &["reject", at, &first, "[x]"]);
    assert!(!home.path("[x]").exists());
    home.sh("echo by-hand >> b");
    let before = home.journal().len();
    let (_, said) = done(4, &["reject", at, &first, "b"]);
    assert!(said.contains("/b was written to later"), "{said}");
    assert!(said.contains("write /b by"), "{said}");
    assert_eq!(home.journal().len(), before, "a conflict writes nothing");
    assert_eq!(
        fs::read_to_string(home.path("b")).unwrap(),
        "two\nby-hand\n"
    );
    done(0, &["reject", at, &first, "b", "--dry-run", "--force"]);
    assert_eq!(
        fs::read_to_string(home.path("b")).unwrap(),
        "two\nby-hand\n"
    );
}

/// Nothing is guessed.
#[test]
fn whose_changes_has_to_be_said() {
    need_mount!();
    let home = Home::prepared(three_files, &[]);
    let at = home.home().to_str().unwrap();
    run(&home, "echo two > a");
    for (code, args) in [
        (2, &["accept", at][..]),
        (2, &["reject", at]),
        (3, &["accept", at, "zzzz"]),
        (3, &["review", at, "--run", "zzzz"]),
        (3, &["accept", at, "last", "nothing"]),
        (2, &["review", at, "--run", "last", "--session", "last"]),
    ] {
        done(code, args);
    }
    assert_eq!(listed(at, &[]), ["m /a"]);
    done(0, &["accept", at, "--session", "last", "a"]);
    assert!(listed(at, &[]).is_empty());
}

/// A file that was changed and got another name, or lost one, was not listed as changed: only the name was.
#[test]
fn a_second_name_hides_no_change() {
    need_mount!();
    let files = |store: &Path| {
        three_files(store);
        fs::hard_link(store.join("c"), store.join("d")).unwrap();
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    home.sh("echo two > a; ln a second; ln b third; echo two > c; rm d; mv third moved");
    assert_eq!(
        listed(at, &[]),
        ["m /a", "m /c", "r /d", "a /moved", "a /second"]
    );
    let diff = trumanfs(&["diff", at]);
    let text = String::from_utf8_lossy(&diff.stdout).into_owned();
    for path in ["M  /a", "M  /c", "A  /second"] {
        assert!(text.contains(path), "{path}: {}", describe(&diff));
    }
    done(0, &["reject", at, "--session", "last", "/a", "--hunk", "1"]);
    assert_eq!(fs::read(home.path("second")).unwrap(), b"one\n");
    assert_eq!(listed(at, &[]), ["m /c", "r /d", "a /moved", "a /second"]);
}
