//! Files that are too long to be read in the time of a lease: they are moved and removed all the same.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::host::Host;
use crate::common::{Home, need_mount, skip};

/// A file that is longer than the lease's `file_bytes` is moved and removed without being read, and taken back if nobody has touched
/// it since.
fn moves_what_is_too_long_to_be_read(host: &Host, length: u64) {
    let (from, to) = (host.path("from"), host.path("to"));
    fs::File::create(&from).unwrap().set_len(length).unwrap();
    let moved = host.does("m", "FILE_MOVE", &[&from, &to]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    let output = moved.json()["output"].clone();
    assert_eq!(output["result_summary"]["sha256"], json!(null), "{output}");
    assert_eq!(output["result_summary"]["size"], json!(length), "{output}");
    let undone = host.undo("mu", &moved.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    let removed = host.does("d", "FILE_DELETE", &[&from]);
    assert_eq!(removed.code(), "SUCCESS", "{removed:?}");
    assert_eq!(
        removed.json()["output"]["undo_metadata"]["recovery"]["sha256"],
        json!(null)
    );
    let undone = host.undo("du", &removed.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    // Of the same length, but written to: it is not what was moved.
    let moved = host.does("m2", "FILE_MOVE", &[&from, &to]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    let file = fs::OpenOptions::new().write(true).open(&to).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let refused = host.undo("mu2", &moved.text);
    assert_eq!(refused.code(), "EXECUTION_FAILED", "{refused:?}");
    // A home does not know when a file was made, so there it is another.
    let is_told = ["changed", "another file"]
        .iter()
        .any(|why| refused.why().contains(why));
    assert!(is_told, "{refused:?}");
    // Nor is another file.
    fs::remove_file(&to).unwrap();
    fs::File::create(&to).unwrap().set_len(length).unwrap();
    let refused = host.undo("mu3", &moved.text);
    assert_eq!(refused.code(), "EXECUTION_FAILED", "{refused:?}");
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn long_file_is_moved_without_being_read() {
    moves_what_is_too_long_to_be_read(&Host::new(), 1 << 40);
}

#[test]
fn long_file_is_moved_in_a_home_without_being_read() {
    need_mount!();
    let home = Home::mount();
    moves_what_is_too_long_to_be_read(&Host::with_bases(&[home.home()]), 1 << 40);
}

#[test]
fn short_file_is_read_up_to_the_length_of_the_lease() {
    let host = Host::new();
    for (length, is_read) in [(1000, true), (1001, false)] {
        let id = format!("m{length}");
        let (from, to) = (host.write(&id, vec![1; length]), host.path("to"));
        let manifest = host.manifest(&id, "FILE_MOVE", &[&from, &to]);
        let mut lease = host.lease(&id, &manifest);
        lease.quota.file_bytes = 1000;
        let moved = host.run(&manifest, &host.sign(&lease));
        assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
        let sha256 = &moved.json()["output"]["result_summary"]["sha256"];
        assert_eq!(sha256.is_string(), is_read, "{length}: {sha256}");
        fs::remove_file(&to).unwrap();
    }
}

/// What was begun and left is settled without reading what somebody has made of it since.
#[test]
fn settling_does_not_read_a_file_that_was_made_long() {
    need_mount!();
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    let home = Home::mount();
    let plain = tempfile::tempdir().unwrap();
    let host = Host::with_bases(&[plain.path(), home.home()]);
    let (from, to) = (host.write("from", "x"), home.path("to"));
    let manifest = host.manifest("t", "FILE_MOVE", &[&from, to.to_str().unwrap()]);
    let mut command = host.command(&manifest, &host.sign(&host.lease("t", &manifest)));
    command.env("TRUMANFS_FAILPOINT", "after_act");
    assert_eq!(command.output().unwrap().status.code(), None);
    let file = fs::OpenOptions::new().write(true).open(&from).unwrap();
    file.set_len(1 << 40).unwrap();
    let other = host.write("other", "y");
    let told = host.does("u", "FILE_DELETE", &[&other]);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
    assert!(Path::new(&from).exists() && !to.exists());
    assert_eq!(host.log()["problems"], json!([]));
}
