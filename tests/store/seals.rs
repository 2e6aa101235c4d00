//! Seals: an edited or truncated end of a journal is detected, and so is a flipped byte of a kept content.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::common::{Home, describe, need_mount, trumanfs};
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
    // The daemon may have sealed by itself just before it was killed.
    let killed = || {
        let mut home = Home::mount();
        home.sh("echo 1 >a; echo 2 >b; rm a");
        home.kill_daemon();
        let found = fsck(home.store(), &[]);
        (home, found)
    };
    let unsealed = |(_, kind, _): &(String, String, String)| kind == "unsealed";
    let (mut home, found) = (0..10)
        .map(|_| killed())
        .find(|(_, found)| found.iter().any(unsealed))
        .expect("a kill before the seal");
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
        newest[0].contains("\"v\":6")
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

/// The whole report of fsck.
#[track_caller]
fn report(store: &Path, more: &[&str]) -> Value {
    let mut args: Vec<&OsStr> = vec!["fsck".as_ref(), store.as_ref(), "--json".as_ref()];
    args.extend(more.iter().map(OsStr::new));
    let (_, said, output) = run(&args);
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{}", describe(&output)))
}

/// The regular files below a directory.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_below(&entry.path())),
            kind if kind.is_file() && entry.file_name() != ".gitignore" => {
                found.push(entry.path());
            }
            _ => {}
        }
    }
    found.sort();
    found
}

/// Does something with one bit of a file turned round, in its middle, and turns it back.
fn with_a_bit_flipped(file: &Path, act: impl FnOnce()) {
    let open = fs::File::options()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let mut byte = [0];
    let at = open.metadata().unwrap().len() / 2;
    open.read_exact_at(&mut byte, at).unwrap();
    open.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    act();
    open.write_all_at(&byte, at).unwrap();
}

const EVERYTHING: &str = "mkdir -p d/e; for i in 1 2 3; do echo $i >d/$i; echo $i >d/e/$i; done; rm -r d
    echo small >a; echo other >a; echo one >r1; echo two >r2; mv r1 r2; echo gone >g; rm g
    head -c 3000000 /dev/urandom >big; : >big; head -c 6000000 /dev/urandom >blocks
    printf mid | dd of=blocks bs=1 seek=500000 conv=notrunc status=none
    head -c 900000 /dev/urandom >part; printf mid | dd of=part bs=1 seek=5000 conv=notrunc status=none
    truncate -s 5G sparse; echo end >>sparse; : >sparse";

#[test]
fn a_flipped_bit_in_the_trash_or_in_a_version_is_named() {
    need_mount!();
    let mut home = Home::mount();
    home.sh(EVERYTHING);
    home.umount();
    let store = home.store();
    let whole = report(store, &[]);
    assert_eq!(whole["findings"], serde_json::json!([]), "{whole}");
    assert_eq!(
        whole["verified"]["without"],
        0,
        "{whole} {:?}",
        lines(&newest_journal(store)).last()
    );
    let trash = files_below(&store.join(".trash"));
    let session = sessions(store).remove(0);
    let versions: Vec<_> = files_below(&session.join("versions"));
    let verified = whole["verified"]["contents"].as_u64().unwrap();
    let lists = versions
        .iter()
        .filter(|file| file.extension().is_some())
        .count();
    assert_eq!(verified as usize, trash.len() + versions.len() - lists);
    assert!(
        trash.len() == 8 && versions.len() - lists >= 5 && lists >= 1,
        "{trash:?} {versions:?}"
    );
    for file in trash.iter().chain(&versions) {
        let name = file.file_name().unwrap().to_str().unwrap();
        // Of a version with a list, what lies between its ranges is not its content.
        let listed = versions.contains(&file.with_extension("map")) && file.extension().is_none();
        if listed {
            continue;
        }
        with_a_bit_flipped(file, || {
            let found = problems(store, &[]);
            let named = |(kind, what): &(String, String)| {
                let version = name.trim_end_matches(".map");
                (kind == "content" || kind == "version-unfit") && what.contains(version)
            };
            assert!(found.iter().any(named), "{}: {found:?}", file.display());
            assert_eq!(
                problems(store, &["--quick"])
                    .iter()
                    .filter(|p| p.0 == "content")
                    .count(),
                0
            );
            let text = run(&["fsck".as_ref(), store.as_ref()]).1;
            assert!(
                text.contains(session.file_name().unwrap().to_str().unwrap()),
                "{text}"
            );
        });
    }
    for listed in versions.iter().filter(|file| file.extension().is_some()) {
        let list = fs::read_to_string(listed).unwrap();
        let (start, _) = list.split_once(' ').unwrap();
        let at: u64 = start.parse().unwrap();
        let file = fs::File::options()
            .read(true)
            .write(true)
            .open(listed.with_extension(""))
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at + 7).unwrap();
        file.write_all_at(&[!byte[0]], at + 7).unwrap();
        let found = problems(store, &[]);
        assert!(
            found.len() == 1 && found[0].0 == "content",
            "{}: {found:?}",
            listed.display()
        );
        file.write_all_at(&byte, at + 7).unwrap();
        // What was evicted after it may have left its ranges in it: that is no damage.
        fs::write(
            listed,
            format!("{list}past 20200101T000000.000000Z-0001 9\n"),
        )
        .unwrap();
        assert_eq!(problems(store, &[]), []);
        assert_eq!(report(store, &[])["verified"]["without"], 1);
        fs::write(listed, list).unwrap();
    }
    assert_eq!(problems(store, &[]), []);
}

/// What was put back, moved out, written to through an open file or by another name is no damage.
#[test]
fn what_was_changed_as_it_may_be_is_no_damage() {
    need_mount!();
    let mut home = Home::mount();
    home.sh(
        "for i in 1 2 3 4 5 6; do echo $i >f$i; done; ln f5 other; mkdir t; echo t >t/t; rm -r t",
    );
    let open = fs::File::options()
        .append(true)
        .open(home.path("f4"))
        .unwrap();
    home.sh("rm f1 f2 f3 f4 f5");
    let of = |name: &str| {
        home.trashed(name)
            .remove(0)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    // When there are digests.
    let until = Instant::now() + Duration::from_secs(60);
    while report(home.store(), &[])["verified"]["contents"] != 4 {
        assert!(
            Instant::now() < until,
            "no digests: {}",
            report(home.store(), &[])
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    home.sh(&format!(
        "mv .trash/{} back; echo more >>back; rm back",
        of("f1")
    ));
    home.sh(&format!(
        "mv .trash/{} tree; echo more >>tree/t; rm -r tree",
        of("t")
    ));
    let entry = OsString::from(of("f2"));
    let put = ["trash", "restore"].map(OsStr::new);
    let (code, _, output) = run(&[put[0], put[1], home.store().as_ref(), &entry]);
    assert_eq!(code, 0, "{}", describe(&output));
    home.sh("echo more >>f2; rm f2; echo x >>other");
    (&open).write_all(b"written later").unwrap();
    assert_eq!(problems(home.store(), &[]), []);
    drop(open);
    home.umount();
    let whole = report(home.store(), &[]);
    assert_eq!(whole["findings"], serde_json::json!([]), "{whole}");
    // All but the file that has another name.
    assert_eq!(whole["verified"]["without"], 1, "{whole}");
}
