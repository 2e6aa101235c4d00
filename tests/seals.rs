//! What is sealed: an edited or cut end of a journal shows, and so does a flipped byte of what was kept.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use common::{Home, describe, need_mount, trumanfs};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn run(args: &[&OsStr]) -> (i32, String, Output) {
    let output = trumanfs(args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), said, output)
}

/// Runs a line in an unmounted store: a session of its own.
#[track_caller]
fn exec(store: &Path, line: &str) {
    let root = OsStr::new("--root");
    let (code, _, output) = run(&[
        "exec".as_ref(),
        root,
        store.as_ref(),
        "--".as_ref(),
        line.as_ref(),
    ]);
    assert_eq!(code, 0, "{}", describe(&output));
}

/// What fsck finds: weight, kind and text of each finding.
#[track_caller]
fn fsck(store: &Path, more: &[&str]) -> Vec<(String, String, String)> {
    let mut args: Vec<&OsStr> = vec!["fsck".as_ref(), store.as_ref(), "--json".as_ref()];
    args.extend(more.iter().map(OsStr::new));
    let (_, said, output) = run(&args);
    let report: Value =
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let findings = report["findings"].as_array().unwrap().iter();
    let left = findings.filter(|finding| finding["repaired"] == false);
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    left.map(|f| (text(f, "weight"), text(f, "kind"), text(f, "what")))
        .collect()
}

#[track_caller]
fn problems(store: &Path, more: &[&str]) -> Vec<(String, String)> {
    let found = fsck(store, more).into_iter();
    let problems = found.filter(|(weight, ..)| weight == "problem");
    problems.map(|(_, kind, what)| (kind, what)).collect()
}

fn sessions(store: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let mut found: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn newest_journal(store: &Path) -> PathBuf {
    sessions(store).pop().unwrap().join("journal.jsonl")
}

fn lines(journal: &Path) -> Vec<String> {
    let text = fs::read_to_string(journal).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

#[test]
fn a_session_ends_in_a_seal_and_people_do_not_see_it() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "mkdir d && echo 1 >d/f");
    let lines = lines(&newest_journal(store.path()));
    assert!(
        lines[lines.len() - 2].contains("\"op\":\"end\"")
            && lines[lines.len() - 1].contains("\"op\":\"seal\"")
    );
    assert_eq!(fsck(store.path(), &[]), []);
    for args in [&["log", "--all"][..], &["log", "--all", "--json"]] {
        let mut args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        args.insert(1, store.path().as_os_str());
        let (_, said, output) = run(&args);
        let (words, records) = (said.contains("seal"), said.matches("mkdir").count());
        assert!(!words && records > 0, "{}", describe(&output));
    }
}

/// Each byte of the last record and of its seal, in a session that has ended.
#[test]
fn an_edited_end_shows() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "mkdir d && echo 1 >d/f");
    let journal = newest_journal(store.path());
    let whole = fs::read(&journal).unwrap();
    let lines = lines(&journal);
    let end = whole.len() - lines[lines.len() - 1].len() - lines[lines.len() - 2].len();
    for at in (end..whole.len() - 1).step_by(23) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x01;
        fs::write(&journal, &bytes).unwrap();
        let found = problems(store.path(), &[]);
        let named = |(kind, what): &(String, String)| {
            kind == "changed"
                && [lines.len() - 1, lines.len()]
                    .iter()
                    .any(|n| what.contains(&format!("line {n} ")))
        };
        assert!(found.iter().any(named), "byte {at}: {found:?}");
        // Whatever it was, it can be mounted again after a repair, and the changed line is always told.
        problems(store.path(), &["--repair"]);
        exec(store.path(), "ls");
        exec(store.path(), "echo 2 >d/f");
        let after = problems(store.path(), &[]);
        assert!(
            after.iter().all(|(kind, _)| kind == "changed") && !after.is_empty(),
            "byte {at}: {after:?}"
        );
        fs::remove_dir_all(sessions(store.path()).pop().unwrap()).unwrap();
    }
}

/// As somebody would who knows of the chain and not of the seals.
#[test]
fn a_last_record_that_was_rewritten_shows() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "mkdir d && echo 1 >d/f");
    let journal = newest_journal(store.path());
    let whole = lines(&journal);
    let mut edited = whole.clone();
    let last = edited.len() - 2;
    edited[last] = edited[last].replace("\"op\":\"end\"", "\"op\":\"checkpoint\",\"name\":\"x\"");
    fs::write(&journal, edited.concat()).unwrap();
    let found = problems(store.path(), &[]);
    assert!(
        found
            .iter()
            .any(|(kind, what)| kind == "changed" && what.contains(&format!("line {} ", last + 1))),
        "{found:?}"
    );
    // In a session before the newest even the whole end with its seal.
    fs::write(&journal, whole.concat()).unwrap();
    exec(store.path(), "touch g");
    assert_eq!(problems(store.path(), &[]), []);
    edited.truncate(last + 1);
    fs::write(&journal, edited.concat()).unwrap();
    let found = problems(store.path(), &[]);
    assert!(found.iter().any(|(kind, _)| kind == "end"), "{found:?}");
}

#[test]
fn a_killed_daemons_end_is_accepted_and_sealed_by_the_next_mount() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("echo 1 >a; echo 2 >b; rm a");
    home.kill_daemon();
    let found = fsck(home.store(), &[]);
    let kinds: Vec<_> = found
        .iter()
        .map(|(weight, kind, _)| (weight.as_str(), kind.as_str()))
        .collect();
    assert_eq!(kinds, [("note", "unsealed"), ("note", "died")], "{found:?}");
    let journal = newest_journal(home.store());
    let before = lines(&journal).len();
    home.mount_again();
    let after = lines(&journal);
    assert_eq!(after.len(), before + 2);
    assert!(
        after[before].contains("\"op\":\"end\"") && after[before + 1].contains("\"op\":\"seal\"")
    );
    home.umount();
    assert_eq!(fsck(home.store(), &[]), []);
}

/// The daemon seals by itself, and before somebody reads.
#[test]
fn a_live_journal_is_sealed_in_time_and_when_it_is_read() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo 1 >a; echo 2 >b; rm a");
    assert_eq!(fsck(home.store(), &[]), []);
    let journal = newest_journal(home.store());
    assert!(lines(&journal).pop().unwrap().contains("\"op\":\"seal\""));
    home.sh("rm b");
    assert!(!lines(&journal).pop().unwrap().contains("\"op\":\"seal\""));
    let until = Instant::now() + Duration::from_secs(30);
    while !lines(&journal).pop().unwrap().contains("\"op\":\"seal\"") {
        assert!(Instant::now() < until, "the daemon does not seal");
        std::thread::sleep(Duration::from_millis(50));
    }
    home.sh("echo 3 >c; rm c");
    let (code, _, output) = run(&[
        "undo".as_ref(),
        home.store().as_ref(),
        "--to".as_ref(),
        "1".as_ref(),
    ]);
    assert_eq!(code, 0, "{}", describe(&output));
    let lines = lines(&journal);
    let undo = lines
        .iter()
        .position(|line| line.contains("\"op\":\"undo\""))
        .unwrap();
    assert!(lines[undo - 1].contains("\"op\":\"seal\""), "{lines:?}");
    assert_eq!(fsck(home.store(), &[]), []);
}

/// A store whose journal a release wrote that knew no seals, with the inode numbers of this disk.
fn of_the_first_schema(store: &Path) -> PathBuf {
    const SESSION: &str = "20261122T140110.180163Z-109d";
    const ENTRY: &str = ".trash/20261122T140110.575773Z_k";
    let session = store.join(".trumanfs/sessions").join(SESSION);
    fs::create_dir_all(session.join("versions")).unwrap();
    let hidden = fs::Permissions::from_mode(0o700);
    for dir in [".trash", "d"] {
        fs::create_dir(store.join(dir)).unwrap();
    }
    fs::set_permissions(store.join(".trumanfs"), hidden.clone()).unwrap();
    fs::set_permissions(store.join(".trash"), hidden).unwrap();
    let version = session.join("versions/00000001");
    for (at, content) in [
        (version.as_path(), "first\n"),
        (&store.join("d/g"), "second\n"),
        (&store.join(ENTRY), "keep\n"),
    ] {
        fs::write(at, content).unwrap();
    }
    let mut text = include_str!("fixtures/v1/journal.jsonl").to_owned();
    for (was, at) in [
        ("10407955", version.as_path()),
        ("10407961", &store.join("d/g")),
        ("10407956", &store.join(ENTRY)),
        ("10407954", &store.join("d")),
        ("10407934", store),
    ] {
        let is = fs::metadata(at).unwrap().ino().to_string();
        text = text.replace(was, &is);
    }
    let (mut whole, mut prev) = (String::new(), "0".repeat(64));
    for line in text.lines() {
        let (record, _) = line.rsplit_once("\"prev\":\"").unwrap();
        let line = format!("{record}\"prev\":\"{prev}\"}}");
        prev = Sha256::digest(&line)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        whole.push_str(&line);
        whole.push('\n');
    }
    let journal = session.join("journal.jsonl");
    fs::write(&journal, whole).unwrap();
    journal
}

#[test]
fn a_journal_without_seals_is_read_checked_and_undone() {
    let store = tempfile::tempdir().unwrap();
    let journal = of_the_first_schema(store.path());
    let before = fs::read(&journal).unwrap();
    assert_eq!(fsck(store.path(), &[]), []);
    let (code, said, output) = run(&["log".as_ref(), store.path().as_ref()]);
    assert!(code == 0 && said.contains("/d/g"), "{}", describe(&output));
    let (code, _, output) = run(&[
        "undo".as_ref(),
        store.path().as_ref(),
        "--to".as_ref(),
        "4".as_ref(),
    ]);
    assert_eq!(code, 0, "{}", describe(&output));
    let read = |at: &str| fs::read_to_string(store.path().join(at)).unwrap();
    assert_eq!(
        (read("d/f").as_str(), read("k").as_str()),
        ("first\n", "keep\n")
    );
    assert_eq!(fsck(store.path(), &[]), []);
    // What an older release wrote stays as it is, and the session after it knows how it ended.
    assert_eq!(fs::read(&journal).unwrap(), before);
    let newest = lines(&newest_journal(store.path()));
    assert!(
        newest[0].contains("\"v\":2")
            && newest[0].contains("\"after\":{\"session\":\"20261122T140110")
    );
}

#[test]
fn a_session_without_seals_is_settled_without() {
    let store = tempfile::tempdir().unwrap();
    let journal = of_the_first_schema(store.path());
    let mut without_end = lines(&journal);
    without_end.pop();
    fs::write(&journal, without_end.concat() + "{\"v\":1,\"seq\":8,\"ti").unwrap();
    let kinds: Vec<_> = fsck(store.path(), &[])
        .into_iter()
        .map(|(_, kind, _)| kind)
        .collect();
    assert_eq!(kinds, ["torn", "died"]);
    exec(store.path(), "touch x");
    let settled = lines(&journal);
    assert_eq!(settled.len(), without_end.len() + 1);
    assert!(settled.iter().all(|line| line.starts_with("{\"v\":1,")));
    assert_eq!(fsck(store.path(), &[]), []);
}
