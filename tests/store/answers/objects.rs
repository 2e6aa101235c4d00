//! Every verb with `--json`: what it prints is what `docs/JSON.md` says.

use std::fs;
use std::process::Output;

use serde_json::Value;

use super::page::Page;
use crate::common::{Home, describe, need_mount, trumanfs};

/// Runs a verb with `--json` and returns its objects. One that lists has one a line, any other has one.
#[track_caller]
fn objects(args: &[&str], code: i32) -> Vec<Value> {
    let output: Output = trumanfs(&[args, &["--json"]].concat());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}",
        describe(&output)
    );
    let out = String::from_utf8(output.stdout).unwrap();
    let object = |line: &str| {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{args:?}: {line:?}: {e}"));
        assert!(value.is_object(), "{args:?}: {line}");
        value
    };
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        object(line);
    }
    out.lines().map(object).collect()
}

fn session(home: &Home) -> String {
    home.status().unwrap()["session"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Goes through all verbs once. What they change is there to be changed by the next.
fn go_through(page: &Page, target: &str, first: &str) {
    let check = |name: &str, args: &[&str], code: i32| {
        let found = objects(args, code);
        assert!(!found.is_empty(), "{args:?} printed nothing");
        for object in &found {
            page.compare(name, object)
                .unwrap_or_else(|why| panic!("{args:?}: {why}"));
        }
        found
    };
    check("session list", &["session", "list", target], 0);
    check("session list", &["session", "show", target, first], 0);
    let log = check("log", &["log", target], 0);
    check("log", &["log", target, "--op", "unlink"], 0);
    check("diff", &["diff", target, &format!("{first}..")], 1);
    check("versions", &["versions", target, "/file"], 0);
    let of = |op: &str| {
        let path = if op == "unlink" { "/gone" } else { "/file" };
        let fits = |record: &&Value| record["op"] == op && record["path"] == path;
        let record = log.iter().rev().find(fits).unwrap();
        format!("{}:{}", record["session"].as_str().unwrap(), record["seq"])
    };
    for op in ["create", "truncate", "unlink"] {
        check("show", &["show", target, &of(op)], 0);
    }
    let listed = check(
        "review",
        &["review", target, "--session", first, "--all"],
        1,
    );
    check(
        "review",
        &["review", target, "--session", first, "--all", "--patch"],
        1,
    );
    let path = listed[0]["path"].as_str().unwrap();
    if listed[0]["accepted"] == false {
        check("accept", &["accept", target, "--session", first, path], 0);
    }
    let name = format!("point-{}", log.len());
    let made = check(
        "checkpoint list",
        &["checkpoint", "create", target, &name],
        0,
    );
    let listed = check("checkpoint list", &["checkpoint", "list", target], 0);
    assert_eq!(made[0], listed[0]);
    check(
        "restore",
        &[
            "restore",
            target,
            "/file",
            "--at",
            &of("create"),
            "--to",
            "/as-created",
            "--dry-run",
        ],
        0,
    );
    check(
        "restore",
        &[
            "restore",
            target,
            "/file",
            "--at",
            &of("create"),
            "--to",
            "/as-created",
        ],
        0,
    );
    check("undo", &["redo", target, "--dry-run"], 0);
    check("undo", &["redo", target], 0);
    check("undo", &["undo", target, &of("unlink"), "--dry-run"], 0);
    let undone = check("undo", &["undo", target, &of("unlink")], 0);
    check(
        "show",
        &["show", target, undone[0]["record"].as_str().unwrap()],
        0,
    );
    check("show", &["show", target, &of("unlink")], 0);
    // What was taken back cannot be while something else is there.
    check("undo", &["redo", target], 0);
    let fork = format!("fork-{}", log.len());
    let forked = check("fork", &["fork", "--copy", target, &fork], 0);
    let fork = forked[0]["store"].as_str().unwrap();
    let line = trumanfs(&["exec", "--root", fork, "--", "echo theirs >of-the-fork"]);
    assert!(line.status.success(), "{}", describe(&line));
    let merged = check("merge", &["merge", target, fork, "/of-the-fork"], 0);
    let run = merged[0]["run"].as_str().unwrap();
    check("undo", &["undo", target, "--run", run], 0);
    let entries = check("trash list", &["trash", "list", target], 0);
    let entry = entries
        .iter()
        .find(|entry| entry["path"] == "/gone")
        .unwrap();
    let entry = entry["entry"].as_str().unwrap();
    check(
        "trash restore",
        &["trash", "restore", target, entry, "--to", "/back"],
        0,
    );
    let conflict = check("undo", &["undo", target, &of("unlink")], 4);
    assert_eq!(conflict[0]["stopped"], true);
    check("trash usage", &["trash", "usage", target], 0);
    check("usage", &["usage", target, "--depth", "2"], 0);
    check(
        "trash purge --dry-run",
        &["trash", "purge", target, "--all", "--versions", "--dry-run"],
        0,
    );
    check("fsck", &["fsck", target], 0);
    // Where there can be no sandbox, it ends with 1, and has the same object.
    let code = trumanfs(&["doctor"]).status.code().unwrap();
    check("doctor", &["doctor"], code);
    check(
        "exec",
        &["exec", "--root", target, "echo one; cat nothing"],
        1,
    );
    check("exec", &["exec", "--root", target, "touch made-by-exec"], 0);
}

#[test]
fn every_object_is_as_documented_mounted_and_not() {
    need_mount!();
    let page = Page::read();
    let mut home = Home::mount();
    let first = session(&home);
    home.sh("echo one >file; echo two >file; echo three >gone; rm gone; mkdir dir; mv dir other; chmod 600 file");
    let (store, at) = (home.store().to_owned(), home.home().to_owned());
    let (store, at) = (store.to_str().unwrap(), at.to_str().unwrap());
    go_through(&page, at, &first);
    for status in objects(&["status", store], 0) {
        page.compare("status TARGET", &status).unwrap();
    }
    for all in objects(&["status"], 0) {
        page.compare("status", &all).unwrap();
    }
    home.sh("rm -f back; rm -f gone; echo three >gone; rm gone");
    home.umount();
    for status in objects(&["status", store], 1) {
        page.compare("status TARGET", &status).unwrap();
        assert_eq!(status["mounted"], false);
    }
    go_through_unmounted(&page, store, &first);
}

fn go_through_unmounted(page: &Page, store: &str, first: &str) {
    go_through(page, store, first);
    let purged = objects(&["trash", "purge", store, "--all", "--versions"], 0);
    page.compare("trash purge", &purged[0]).unwrap();
    // A journal that was changed gives findings.
    let journal = format!("{store}/.trumanfs/sessions/{first}/journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"mode\":", "\"mode\": ", 1)).unwrap();
    let found = objects(&["fsck", store], 1);
    page.compare("fsck", &found[0]).unwrap();
    assert!(!found[0]["findings"].as_array().unwrap().is_empty());
}

#[test]
fn policies_answer_as_documented() {
    let page = Page::read();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("bad.yaml"), "git: { a: 1 }\nsort: 3\n").unwrap();
    let check = |name: &str, args: &[&str], code: i32| {
        let output = trumanfs(args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            describe(&output)
        );
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        page.compare(name, &value)
            .unwrap_or_else(|why| panic!("{args:?}: {why}"));
    };
    check("policy check", &["policy", "check", "--json", "default"], 0);
    check(
        "policy check",
        &["policy", "check", "--json", &path("bad.yaml")],
        1,
    );
    for (line, code) in [("git status", 0), ("git push", 1), ("a; b", 1)] {
        let words = [
            "policy", "explain", "--policy", "default", "--json", "--", line,
        ];
        check("policy explain", &words, code);
    }
}

#[test]
fn an_error_is_an_object_too() {
    need_mount!();
    let page = Page::read();
    let home = Home::mount();
    let store = home.store().to_str().unwrap();
    for (args, code) in [
        (&["show", store, "999"][..], 3),
        (&["undo", store], 2),
        (&["undo", store, "--no-such-option"], 2),
        (&["log", "/no/such/store"], 3),
        (&["checkpoint", "create", store, "now"], 2),
    ] {
        let output = trumanfs(&[args, &["--json"]].concat());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            describe(&output)
        );
        assert!(output.stdout.is_empty(), "{args:?}: {}", describe(&output));
        let said = String::from_utf8(output.stderr).unwrap();
        let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let error = &last["error"];
        assert_eq!(error["exit"], code, "{args:?}: {said}");
        assert_eq!(error["kind"], page.kinds[&code], "{args:?}: {said}");
        assert!(
            error["what"].is_string() && error["remedy"].is_string(),
            "{said}"
        );
    }
}
