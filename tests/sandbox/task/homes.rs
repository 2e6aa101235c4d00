//! Tasks in a mounted home: the home's own rules hold, and its records name the run.

use std::ffi::OsStr;
use std::fs;

use serde_json::json;

use super::host::Host;
use crate::common::{Home, describe, need_mount, skip, trumanfs};

#[test]
fn a_home_keeps_what_a_task_does() {
    need_mount!();
    let home = Home::mount();
    let host = Host::with_bases(&[home.home()]);
    let (a, b, c) = (host.write("a", "content"), host.path("b"), host.path("c"));
    let moved = host.does("m", "FILE_MOVE", &[&a, &b]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    let copied = host.does("c", "FILE_COPY", &[&b, &c]);
    assert_eq!(copied.code(), "SUCCESS", "{copied:?}");
    assert_eq!(fs::read(&c).unwrap(), b"content");
    let removed = host.does("d", "FILE_DELETE", &[&b]);
    assert_eq!(removed.code(), "SUCCESS", "{removed:?}");
    assert!(!fs::exists(&b).unwrap());
    let recovery = removed.json()["output"]["undo_metadata"]["recovery"].clone();
    assert_eq!(recovery["kind"], "trash", "{recovery}");
    let entry = home
        .store()
        .join(".trash")
        .join(recovery["entry"].as_str().unwrap());
    assert_eq!(fs::read(entry).unwrap(), b"content");
    assert_eq!(host.vault(), 0);
    // The records are those of runs of tasks.
    let journal = home.journal();
    let ours = |op: &str| {
        journal
            .iter()
            .filter(|record| record["op"] == op && record["origin"]["kind"] == "task")
            .count()
    };
    assert_eq!(
        (ours("rename"), ours("create"), ours("unlink")),
        (1, 1, 1),
        "{journal:#?}"
    );
    let undone = host.undo("u", &removed.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    assert_eq!(fs::read(&b).unwrap(), b"content");
    let undone = host.undo("uc", &copied.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    assert!(!fs::exists(&c).unwrap());
    assert_eq!(host.log()["problems"], json!([]));
    let staged = home.store().join(".trumanfs/staged");
    assert_eq!(fs::read_dir(staged).unwrap().count(), 0);
}

#[test]
fn a_file_goes_from_a_home_to_a_plain_base_and_back() {
    need_mount!();
    let home = Home::mount();
    let plain = tempfile::tempdir().unwrap();
    let host = Host::with_bases(&[home.home(), plain.path()]);
    let (inside, outside) = (
        host.write("f", "x"),
        plain.path().canonicalize().unwrap().join("f"),
    );
    let out = host.does("o", "FILE_MOVE", &[&inside, outside.to_str().unwrap()]);
    assert_eq!(out.code(), "SUCCESS", "{out:?}");
    assert_eq!(fs::read(&outside).unwrap(), b"x");
    assert!(!fs::exists(&inside).unwrap());
    assert_eq!(home.trash().len(), 1);
    let back = host.undo("b", &out.text);
    assert_eq!(back.code(), "SUCCESS", "{back:?}");
    assert_eq!(fs::read(&inside).unwrap(), b"x");
    assert!(!outside.exists());
    assert_eq!(host.vault(), 1);
}

#[test]
fn a_directory_of_a_home_is_a_base() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir_all(home.path("project/src")).unwrap();
    let host = Host::with_bases(&[&home.path("project")]);
    let (a, b) = (host.write("src/a", "x"), host.path("b"));
    let copied = host.does("c", "FILE_COPY", &[&a, &b]);
    assert_eq!(copied.code(), "SUCCESS", "{copied:?}");
    let removed = host.does("d", "FILE_DELETE", &[&b]);
    assert_eq!(removed.code(), "SUCCESS", "{removed:?}");
    let undone = host.undo("u", &removed.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    assert_eq!(fs::read(&b).unwrap(), b"x");
    let above = home.path("top");
    fs::write(&above, "").unwrap();
    let outside = host.does("x", "FILE_DELETE", &[above.to_str().unwrap()]);
    assert_eq!(outside.code(), "EXECUTION_FAILED", "{outside:?}");
}

#[test]
fn a_store_is_no_base() {
    need_mount!();
    let mut home = Home::mount();
    home.umount();
    let host = Host::with_bases(&[home.store()]);
    let path = host.path("f");
    let manifest = host.manifest("t", "FILE_DELETE", &[&path]);
    let lease = host.sign(&host.lease("t", &manifest));
    let output = host.command(&manifest, &lease).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a store"), "{said}");
}

#[test]
fn what_was_under_way_is_settled_when_the_home_is_mounted_again() {
    need_mount!();
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    for (number, (capability, step)) in [
        ("FILE_MOVE", "after_act"),
        ("FILE_COPY", "after_act"),
        ("FILE_DELETE", "after_act"),
        ("FILE_MOVE", "after_intent_sync"),
        ("FILE_COPY", "mid_data"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut home = Home::mount();
        let host = Host::with_bases(&[home.home()]);
        let (from, to) = (host.write("from", "content"), host.path("to"));
        let paths = [&*from, &*to];
        let paths = match capability {
            "FILE_DELETE" => &paths[..1],
            _ => &paths[..],
        };
        let manifest = host.manifest("t", capability, paths);
        let lease = host.sign(&host.lease("t", &manifest));
        let mut command = host.command(&manifest, &lease);
        command.env("TRUMANFS_FAILPOINT", step);
        assert_eq!(command.output().unwrap().status.code(), None, "{step}");
        home.kill_daemon();
        // Not mounted, nothing is done: the directory below would be out of sight.
        let output = host.command(&manifest, &lease).output().unwrap();
        assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
        assert!(output.stdout.is_empty());
        // Nor in another home at the same place.
        let other = tempfile::tempdir().unwrap();
        let at = [other.path().as_os_str(), home.home().as_os_str()];
        let mounted = trumanfs(&[&[OsStr::new("mount")], &at[..]].concat());
        assert!(mounted.status.success(), "{}", describe(&mounted));
        let output = host.command(&manifest, &lease).output().unwrap();
        trumanfs(&[OsStr::new("umount"), at[1]]);
        assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
        home.mount_again();
        let told = host.run(&manifest, &lease);
        assert_eq!(
            told.code(),
            "SUCCESS",
            "{number} {capability} {step}: {told:?}"
        );
        let log = host.log();
        assert_eq!(
            (&log["problems"], &log["successes"]),
            (&json!([]), &json!(1)),
            "{log}"
        );
        let done_then = ["after_act"].contains(&step);
        assert_eq!(
            log["intents"],
            if done_then { 1 } else { 2 },
            "{capability} {step}"
        );
    }
}

#[test]
fn a_stream_ends_when_its_home_does() {
    need_mount!();
    let mut home = Home::mount();
    let host = Host::with_bases(&[home.home()]);
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let mut stream = host.stream();
    let ask = |id: &str| {
        let manifest = host.manifest(id, "FILE_MOVE", &[&a, &b]);
        let lease = host.sign(&host.lease(id, &manifest));
        host.line(&manifest, &lease)
    };
    assert_eq!(host.read(&stream.ask(&ask("t1"))).status(), "SUCCESS");
    home.kill_daemon();
    // No answer rather than a wrong one.
    assert_eq!(stream.ask(&ask("t2")), "");
    home.mount_again();
    let mut stream = host.stream();
    assert_eq!(host.read(&stream.ask(&ask("t3"))).status(), "FAILURE");
    stream.end();
}

#[test]
fn a_home_that_cannot_be_changed_says_so() {
    need_mount!();
    let home = Home::prepared(
        |store| fs::write(store.join("a"), "x").unwrap(),
        &["-o", "ro"],
    );
    let host = Host::with_bases(&[home.home()]);
    for (capability, number) in [("FILE_MOVE", 0), ("FILE_COPY", 1), ("FILE_DELETE", 2)] {
        let paths = [host.path("a"), host.path("b")];
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let paths = &paths[..if capability == "FILE_DELETE" { 1 } else { 2 }];
        let told = host.does(&format!("t{number}"), capability, paths);
        assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
        assert!(told.why().contains("Read-only file system"), "{told:?}");
    }
    assert_eq!(
        fs::read_dir(home.store().join(".trumanfs/staged")).map_or(0, Iterator::count),
        0
    );
}

#[test]
fn names_that_are_odd_are_moved_and_removed() {
    need_mount!();
    let home = Home::mount();
    let host = Host::with_bases(&[home.home()]);
    let long = "\u{e9}".repeat(120);
    for (number, name) in ["a b", "-rf", "new\nline", "\u{202e}txt", "*", "'", &long]
        .iter()
        .enumerate()
    {
        let from = host.write(name, "x");
        let removed = host.does(&format!("d{number}"), "FILE_DELETE", &[&from]);
        assert_eq!(removed.code(), "SUCCESS", "{removed:?}");
        let undone = host.undo(&format!("u{number}"), &removed.text);
        assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
        assert_eq!(fs::read(&from).unwrap(), b"x");
    }
}

/// What is moved out of the trash is restored, and could not be moved back there.
#[test]
fn move_out_of_the_trash_is_refused_and_a_copy_is_not() {
    need_mount!();
    let home = Home::mount();
    let host = Host::with_bases(&[home.home()]);
    host.write("a", "x");
    fs::remove_file(home.path("a")).unwrap();
    let entry = home.trash().pop().unwrap().into_string().unwrap();
    let kept = host.path(&format!(".trash/{entry}"));
    let told = host.does("m", "FILE_MOVE", &[&kept, &host.path("b")]);
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert!(told.why().contains("in the trash"), "{told:?}");
    let told = host.does("d", "FILE_DELETE", &[&kept]);
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert_eq!(home.trash().len(), 1);
    let copied = host.does("c", "FILE_COPY", &[&kept, &host.path("b")]);
    assert_eq!(copied.code(), "SUCCESS", "{copied:?}");
    // Nothing goes in by a task's will; that is known, and said.
    let told = host.does("i", "FILE_COPY", &[&host.path("b"), &host.path(".trash/b")]);
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert!(told.why().ends_with("Read-only file system"), "{told:?}");
    assert_eq!(host.undo("u", &copied.text).code(), "SUCCESS");
}

/// Below a plain base a store may lie that nobody has mounted: what it recorded and kept is no task's.
#[test]
fn state_of_a_store_below_a_plain_base_is_refused() {
    let host = Host::new();
    fs::create_dir_all(host.base.join("store/.trumanfs/sessions")).unwrap();
    let inside = host.write("store/.trumanfs/sessions/journal.jsonl", "x");
    let outside = host.write("store/f", "x");
    for (id, capability, paths) in [
        ("m", "FILE_MOVE", &[&*inside, &*host.path("m")][..]),
        ("c", "FILE_COPY", &[&*inside, &*host.path("c")]),
        ("d", "FILE_DELETE", &[&*inside]),
        (
            "i",
            "FILE_MOVE",
            &[&*outside, &*host.path("store/.trumanfs/f")],
        ),
    ] {
        let told = host.does(id, capability, paths);
        assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
        assert!(told.why().contains("the state of a store"), "{told:?}");
    }
    assert!(fs::exists(&inside).unwrap() && fs::exists(&outside).unwrap());
}
