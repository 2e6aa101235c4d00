//! Work on a store that nobody has mounted: it sees, protects and keeps what the home would, as the store was last mounted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use crate::common::{Home, describe, need_mount, trumanfs};

#[track_caller]
fn ok(args: &[&str]) -> String {
    let output = trumanfs(args);
    assert!(output.status.success(), "{args:?}: {}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn exec(store: &str, line: &str) -> Output {
    trumanfs(&["exec", "--root", store, "--", line])
}

fn said(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

fn entry(home: &Home, name: &str) -> String {
    let found = home.trashed(name);
    found[0].file_name().unwrap().to_str().unwrap().to_owned()
}

/// `trash list` shows a symlink that was removed, so `trash restore` brings it back, mounted or not.
#[test]
fn a_removed_symlink_comes_back_while_nothing_is_mounted() {
    need_mount!();
    let mut home = Home::with(&["--symlinks", "inside"]);
    fs::write(home.path("file"), "x").unwrap();
    symlink("file", home.path("link")).unwrap();
    symlink("file", home.path("other")).unwrap();
    fs::remove_file(home.path("link")).unwrap();
    fs::remove_file(home.path("other")).unwrap();
    let (link, other) = (entry(&home, "link"), entry(&home, "other"));
    home.umount();
    let store = home.store().to_str().unwrap().to_owned();
    assert!(ok(&["trash", "list", &store]).contains(&link));
    ok(&["trash", "restore", &store, &link]);
    let target = fs::read_link(home.store().join("link")).unwrap();
    assert_eq!(target, Path::new("file"));
    // Work in between, which begins a session of its own, makes no difference.
    assert_eq!(said(&exec(&store, "touch later")).0, Some(0));
    ok(&["trash", "restore", &store, &other, "--to", "/back"]);
    let target = fs::read_link(home.store().join("back")).unwrap();
    assert_eq!(target, Path::new("file"));
}

/// What a home does not show cannot be brought back into it. That is said, and not that there was no such entry.
#[test]
fn what_the_home_would_hide_is_not_restored_and_the_reason_is_named() {
    need_mount!();
    let mut home = Home::with(&["--symlinks", "inside"]);
    symlink("nowhere", home.path("link")).unwrap();
    fs::write(home.path("a.key"), "x").unwrap();
    fs::remove_file(home.path("link")).unwrap();
    fs::remove_file(home.path("a.key")).unwrap();
    let entries = [entry(&home, "link"), entry(&home, "a.key")];
    home.remount_with(&["--hide", "*.key"]);
    let store = home.store().to_str().unwrap().to_owned();
    let refused = |entry: &str| {
        let output = trumanfs(&["trash", "restore", &store, entry]);
        assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(err.contains("does not exist in the home"), "{err}");
    };
    entries.iter().for_each(|entry| refused(entry));
    home.umount();
    entries.iter().for_each(|entry| refused(entry));
    home.remount_with(&["--symlinks", "inside"]);
    for entry in &entries {
        ok(&["trash", "restore", &store, entry]);
    }
}

/// The bundled shell in a store that nobody has mounted: what the last mount hid or protected, it hides and protects.
#[test]
fn the_shell_sees_what_the_last_mount_showed() {
    need_mount!();
    let secrets = |store: &Path| {
        fs::write(store.join("a.key"), "secret").unwrap();
        fs::create_dir(store.join("kept")).unwrap();
        fs::write(store.join("kept/file"), "x").unwrap();
    };
    let mut home = Home::prepared(secrets, &["--hide", "*.key", "--read-only=/kept"]);
    fs::write(home.path("file"), "x").unwrap();
    home.umount();
    let store = home.store().to_str().unwrap().to_owned();
    for round in 0..3 {
        assert_eq!(said(&exec(&store, "cat a.key")), (Some(1), String::new()));
        assert!(!said(&exec(&store, "ls")).1.contains("a.key"), "{round}");
        assert_ne!(said(&exec(&store, "rm kept/file")).0, Some(0));
        // Each of these is a session without a mount, and what the mount said goes through it.
        match round {
            0 => assert_eq!(said(&exec(&store, "touch new")).0, Some(0)),
            _ => drop(ok(&[
                "checkpoint",
                "create",
                &store,
                &format!("round-{round}"),
            ])),
        }
    }
    // What is said beside narrows it further, for this once.
    let output = trumanfs(&[
        "exec",
        "--root",
        &store,
        "--hide",
        "file",
        "--",
        "touch x; ls",
    ]);
    assert_eq!(said(&output), (Some(0), "kept\nnew\nx\n".to_owned()));
    let listed = said(&exec(&store, "ls")).1;
    assert_eq!(listed, "file\nkept\nnew\nx\n");
    let secret = fs::read_to_string(home.store().join("a.key")).unwrap();
    assert_eq!(secret, "secret");
}

/// An undo does not touch what the home hides, and an operator's way to it is to mount without.
#[test]
fn an_undo_keeps_to_what_the_last_mount_showed() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("a.key"), "one").unwrap();
    fs::write(home.path("file"), "one").unwrap();
    let session = home.status().unwrap()["session"]
        .as_str()
        .unwrap()
        .to_owned();
    home.remount_with(&["--hide", "*.key"]);
    let store = home.store().to_str().unwrap().to_owned();
    let undo = |target: &str| trumanfs(&["undo", target, "--session", &session, "--dry-run"]);
    let live = said(&undo(&store));
    home.umount();
    assert_eq!(said(&undo(&store)), live);
}

/// `--keep trash` and `--durable` are choices for the store: work on it unmounted goes by them. Beside what was kept
/// there is a copy of what was left.
#[test]
fn contents_are_kept_as_the_last_mount_kept_them() {
    need_mount!();
    let versions = |home: &Home| {
        let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let count = |dir: fs::DirEntry| {
            fs::read_dir(dir.path().join("versions")).map_or(0, Iterator::count)
        };
        sessions.map(|dir| count(dir.unwrap())).sum::<usize>()
    };
    for (options, kept) in [(&["--keep", "trash"][..], 0), (&[], 2)] {
        let mut home = Home::with(options);
        fs::write(home.path("file"), "one").unwrap();
        home.umount();
        let store = home.store().to_str().unwrap();
        assert_eq!(said(&exec(store, "echo two > file")).0, Some(0));
        assert_eq!(versions(&home), kept, "{options:?}");
    }
    let mut home = Home::with(&["--durable"]);
    fs::write(home.path("file"), "one").unwrap();
    home.umount();
    ok(&[
        "checkpoint",
        "create",
        home.store().to_str().unwrap(),
        "point",
    ]);
    let lock = fs::read(home.store().join(".trumanfs/lock")).unwrap();
    let lock: serde_json::Value = serde_json::from_slice(&lock).unwrap();
    assert_eq!(lock["durable"], true);
}

/// A command that has the store is no daemon: it is waited for, and not asked.
#[test]
fn a_command_that_has_the_store_is_waited_for() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("file"), "one").unwrap();
    home.umount();
    let lock = fs::File::open(home.store().join(".trumanfs/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let other = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(lock);
    });
    let output = trumanfs(&[
        "checkpoint",
        "create",
        home.store().to_str().unwrap(),
        "point",
    ]);
    other.join().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
}
