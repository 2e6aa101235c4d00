//! Tasks on file systems of their own: a full one, and two of them.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::host::Host;
use crate::common::disk::Disk;
use crate::common::{need_root, skip};

/// Makes a small disk. Returns it with a directory on it.
fn disk(megabytes: u64) -> Result<(Disk, PathBuf), String> {
    let disk = Disk::new(&["mkfs.ext4", "-q", "-m", "0"], megabytes)?;
    let base = disk.store().join("base");
    fs::create_dir(&base).unwrap();
    Ok((disk, base))
}

/// Fills the disk that a directory is on.
fn fill(dir: &std::path::Path) -> PathBuf {
    let path = dir.join("fill");
    let mut file = fs::File::create(&path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
    }
    path
}

#[test]
fn a_full_disk_stops_a_copy_and_leaves_nothing() {
    need_root!("mounting a disk of its own");
    let (disk, base) = match disk(32) {
        Ok(made) => made,
        Err(why) => skip!("loop", "{why}"),
    };
    let host = Host::with_bases(&[&base]);
    let (from, to) = (host.write("from", vec![3; 4 << 20]), host.path("to"));
    let filler = fill(&disk.store());
    let told = host.does("c", "FILE_COPY", &[&from, &to]);
    assert_eq!(told.code(), "RESOURCE_EXHAUSTED", "{told:?}");
    assert_eq!(told.reason(), "full_disk", "{told:?}");
    assert!(!fs::exists(&to).unwrap());
    assert_eq!(fs::read_dir(&base).unwrap().count(), 1);
    // Moving takes no space.
    let moved = host.does("m", "FILE_MOVE", &[&from, &to]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    fs::remove_file(filler).unwrap();
    let copied = host.does("c", "FILE_COPY", &[&to, &from]);
    assert_eq!(
        copied.code(),
        "INVALID_LEASE",
        "the id is of another manifest: {copied:?}"
    );
    let copied = host.does("c2", "FILE_COPY", &[&to, &from]);
    assert_eq!(copied.code(), "SUCCESS", "{copied:?}");
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn a_log_that_cannot_grow_stops_a_task_before_it_begins() {
    need_root!("mounting a disk of its own");
    let (disk, state) = match disk(32) {
        Ok(made) => made,
        Err(why) => skip!("loop", "{why}"),
    };
    let host = Host::new();
    host.configure_state(&state.join("state"));
    let (a, b) = (host.write("a", "x"), host.path("b"));
    assert_eq!(host.does("t1", "FILE_MOVE", &[&a, &b]).code(), "SUCCESS");
    let first = host.manifest("t1", "FILE_MOVE", &[&a, &b]);
    let again = host.sign(&host.lease("t1", &first));
    let stored = host.run(&first, &again).text;
    let filler = fill(&disk.store());
    // Time goes on, and cannot be noted.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let manifest = host.manifest("t2", "FILE_MOVE", &[&b, &a]);
    let lease = host.sign(&host.lease("t2", &manifest));
    let told = host.run(&manifest, &lease);
    assert_eq!(told.code(), "RESOURCE_EXHAUSTED", "{told:?}");
    assert_eq!(told.reason(), "full_disk", "{told:?}");
    assert!(told.why().contains("full"), "{told:?}");
    assert!(fs::exists(&b).unwrap() && !fs::exists(&a).unwrap());
    // What cannot be read, and what was done, is answered as ever.
    assert_eq!(host.run(b"{}", b"{}").code(), "INVALID_LEASE");
    assert_eq!(host.run(&first, &again).text, stored);
    // However often a lease that holds is tried.
    let mut stream = host.stream();
    for number in 0..300 {
        let id = format!("absent{number}");
        let absent = host.manifest(&id, "FILE_DELETE", &[&a]);
        let lease = host.sign(&host.lease(&id, &absent));
        let told = host.read(&stream.ask(&host.line(&absent, &lease)));
        assert_eq!(told.status(), "FAILURE", "{number}");
    }
    stream.end();
    fs::remove_file(filler).unwrap();
    let told = host.run(&manifest, &lease);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn a_file_is_moved_to_another_file_system_and_kept_on_its_own() {
    need_root!("mounting a disk of its own");
    let (_disk, other) = match disk(64) {
        Ok(made) => made,
        Err(why) => skip!("loop", "{why}"),
    };
    let here = tempfile::tempdir().unwrap();
    let host = Host::with_bases(&[here.path(), &other]);
    let (from, to) = (host.write("f", "content"), other.join("f"));
    let to = to.to_str().unwrap();
    let moved = host.does("m", "FILE_MOVE", &[&from, to]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    assert_eq!(
        (fs::read(to).unwrap(), fs::exists(&from).unwrap()),
        (b"content".to_vec(), false)
    );
    assert_eq!(host.vault(), 1);
    // The vault is not on that disk, and nothing is removed without being kept.
    let removed = host.does("d", "FILE_DELETE", &[to]);
    assert_eq!(removed.code(), "EXECUTION_FAILED", "{removed:?}");
    assert!(removed.why().contains("another file system"), "{removed:?}");
    let back = host.does("b", "FILE_MOVE", &[to, &from]);
    assert_eq!(back.code(), "EXECUTION_FAILED", "{back:?}");
    assert!(fs::exists(to).unwrap());
    assert_eq!(host.log()["problems"], json!([]));
}

/// What was begun before the disk became full is settled all the same: its result has its place.
#[test]
fn task_that_was_left_is_settled_on_a_full_disk() {
    need_root!("mounting a disk of its own");
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    let (disk, state) = match disk(32) {
        Ok(made) => made,
        Err(why) => skip!("loop", "{why}"),
    };
    let host = Host::new();
    host.configure_state(&state.join("state"));
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let manifest = host.manifest("t", "FILE_MOVE", &[&a, &b]);
    let lease = host.sign(&host.lease("t", &manifest));
    let mut killed = host.command(&manifest, &lease);
    killed.env("TRUMANFS_FAILPOINT", "after_act");
    assert_eq!(killed.output().unwrap().status.code(), None);
    let _filler = fill(&disk.store());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let told = host.run(&manifest, &lease);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
    assert_eq!(host.log()["problems"], json!([]));
}
