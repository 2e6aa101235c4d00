//! `/tmp` of what runs in a home: one directory for a session, no part of the home, and gone with the session.

use std::fs;

use super::{Place, Store, good};
use crate::common::need_mount;

#[test]
fn the_runs_of_a_session_share_it() {
    need_mount!();
    let place = Place::mounted();
    place.sh("echo kept >/tmp/file; mkdir -p /tmp/a/b; [ \"$TMPDIR\" = /tmp ]");
    assert_eq!(place.sh("cat /tmp/file; ls /tmp/a"), "kept\nb\n");
    // Neither recorded nor in the home.
    let records = place.home.journal();
    assert!(records.iter().all(|r| r["op"] == "begin"), "{records:?}");
    assert_eq!(fs::read_dir(place.home.home()).unwrap().count(), 0);
}

#[test]
fn it_is_empty_in_the_next_session() {
    need_mount!();
    let mut place = Place::mounted();
    place.sh("echo kept >/tmp/file");
    place.home.umount();
    assert!(!place.home.store().join(".trumanfs/scratch").exists());
    place.home.mount_again();
    assert_eq!(
        place.sh("ls -A /tmp | grep -vx \"$(echo \"$HOME\" | cut -d/ -f3)\" || true"),
        ""
    );
    // A daemon that was killed has not emptied it.
    place.sh("echo kept >/tmp/file");
    place.home.kill_daemon();
    assert!(place.home.store().join(".trumanfs/scratch/file").exists());
    place.home.mount_again();
    assert_eq!(
        place.sh("ls -A /tmp | grep -vx \"$(echo \"$HOME\" | cut -d/ -f3)\" || true"),
        ""
    );
    // What the killed one has left is deleted by the end of the next.
    place.home.umount();
    let left: Vec<_> = fs::read_dir(place.home.store().join(".trumanfs/purging"))
        .map(|dir| dir.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    assert_eq!(left, Vec::<std::ffi::OsString>::new());
}

#[test]
fn a_store_that_is_mounted_for_a_run_leaves_none() {
    need_mount!();
    let store = Store::new();
    good(&store.run(&[], &["sh", "-c", "echo kept >/tmp/file; echo x >file"]));
    store.is_left_alone();
    assert!(!store.store.join(".trumanfs/scratch").exists());
    assert_eq!(
        good(&store.run(
            &[],
            &[
                "sh",
                "-c",
                "ls -A /tmp | grep -vx \"$(echo \"$HOME\" | cut -d/ -f3)\"; cat file"
            ]
        )),
        "x\n"
    );
}

/// A home may lie below /tmp, which the session's /tmp covers.
#[test]
fn a_home_below_tmp_is_where_it_is() {
    need_mount!();
    let place = Place::mounted();
    assert!(
        place.home.home().starts_with("/tmp"),
        "tests run below /tmp"
    );
    let said = place
        .sh("pwd; echo x >file; cat \"$HOME/file\"; ls /tmp | head -c 100; ls -A \"$HOME/..\"");
    let home = place.home.home().display().to_string();
    assert!(said.starts_with(&format!("{home}\nx\n")), "{said}");
    assert!(
        !said.contains("store") && !said.contains("policy.yaml"),
        "{said}"
    );
}

#[test]
fn the_state_directory_is_out_of_reach() {
    need_mount!();
    let place = Place::mounted();
    let said = place.sh(
        "ls -A; for p in .trumanfs ./.trumanfs .trash/../.trumanfs .trumanfs/audit.jsonl /tmp/../.trumanfs /tmp/.. /proc/1/cwd/.trumanfs; do
           [ -e $p/audit.jsonl ] && echo $p; done; mkdir .trumanfs 2>&1 | sed 's/.*: //'; cat /proc/self/mountinfo | grep -c -e store -e '[.]trumanfs/scratch' || true",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"No such file or directory"), "{said}");
}
