//! Tasks in a mounted home: the home's own rules hold, and its records name the run.

use std::fs;

use serde_json::json;

use super::host::Host;
use crate::common::{Home, need_mount};

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
