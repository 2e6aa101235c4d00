//! The rules of tasks on a plain directory, one after the other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;

use super::host::Host;

#[test]
fn a_file_is_moved_and_moved_back() {
    let host = Host::new();
    let (from, to) = (host.write("a", "content"), host.path("b"));
    let moved = host.does("t1", "FILE_MOVE", &[&from, &to]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    assert!(!host.base.join("a").exists());
    assert_eq!(fs::read(&to).unwrap(), b"content");
    let output = &moved.json()["output"];
    assert_eq!(output["result_summary"]["source"], json!(from));
    assert_eq!(output["result_summary"]["destination"], json!(to));
    assert_eq!(output["undo_metadata"], json!({"original_path": from}));
    assert_eq!(moved.result.prev, "0".repeat(64));
    let undone = host.undo("t2", &moved.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    assert_eq!(fs::read(&from).unwrap(), b"content");
    assert_eq!(undone.json()["output"]["undo_metadata"]["undoes"], "t1");
    let again = host.undo("t3", &undone.text);
    assert_eq!(again.code(), "EXECUTION_FAILED", "{again:?}");
    let log = host.log();
    assert_eq!(log["problems"], json!([]), "{log}");
    assert_eq!(log["successes"], 2, "{log}");
}

#[test]
fn a_copy_keeps_holes_mode_and_times_and_no_special_bits() {
    let host = Host::new();
    let from = host.path("sparse");
    let file = fs::File::create(&from).unwrap();
    file.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"end", (64 << 20) - 3).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    file.set_modified(time).unwrap();
    drop(file);
    fs::set_permissions(&from, fs::Permissions::from_mode(0o6751)).unwrap();
    let to = host.path("copy");
    let manifest = host.manifest("c", "FILE_COPY", &[&from, &to]);
    let mut lease = host.lease("c", &manifest);
    // Holes are no data.
    lease.quota.io_bytes = 1 << 20;
    let copied = host.run(&manifest, &host.sign(&lease));
    assert_eq!(copied.code(), "SUCCESS", "{copied:?}");
    let (was, is) = (fs::metadata(&from).unwrap(), fs::metadata(&to).unwrap());
    assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap());
    assert_eq!(is.mode() & 0o7777, 0o751);
    assert_eq!(is.modified().unwrap(), was.modified().unwrap());
    assert!(
        is.blocks() <= was.blocks() + 64,
        "{} {}",
        is.blocks(),
        was.blocks()
    );
    assert_eq!(copied.json()["output"]["undo_metadata"], json!({}));
    let undone = host.undo("u", &copied.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    assert!(!host.base.join("copy").exists());
    assert_eq!(host.vault(), 1);
}

#[test]
fn a_removed_file_lies_in_the_vault_and_comes_back() {
    let host = Host::new();
    let path = host.write("a", "precious");
    let removed = host.does("d", "FILE_DELETE", &[&path]);
    assert_eq!(removed.code(), "SUCCESS", "{removed:?}");
    assert!(!host.base.join("a").exists());
    assert_eq!(host.vault(), 1);
    let recovery = &removed.json()["output"]["undo_metadata"]["recovery"];
    assert_eq!(recovery["kind"], "vault");
    // The place is taken: nothing is replaced.
    host.write("a", "other");
    let refused = host.undo("u1", &removed.text);
    assert_eq!(refused.code(), "EXECUTION_FAILED", "{refused:?}");
    assert_eq!(fs::read(&path).unwrap(), b"other");
    fs::remove_file(&path).unwrap();
    let undone = host.undo("u2", &removed.text);
    assert_eq!(undone.code(), "SUCCESS", "{undone:?}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(host.vault(), 0);
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn an_undo_is_refused_where_the_content_has_changed() {
    let host = Host::new();
    let (from, to) = (host.write("a", "one"), host.path("b"));
    let moved = host.does("t", "FILE_MOVE", &[&from, &to]);
    fs::write(&to, "two").unwrap();
    let refused = host.undo("u", &moved.text);
    assert_eq!(refused.code(), "EXECUTION_FAILED", "{refused:?}");
    assert!(refused.why().contains("changed"), "{refused:?}");
    assert_eq!(fs::read(&to).unwrap(), b"two");
}

#[test]
fn a_repeat_is_the_stored_result_and_touches_nothing() {
    let host = Host::new();
    let (from, to) = (host.write("a", "x"), host.path("b"));
    let manifest = host.manifest("t", "FILE_MOVE", &[&from, &to]);
    let mut lease = host.lease("t", &manifest);
    lease.max_uses = 1;
    let signed = host.sign(&lease);
    let first = host.run(&manifest, &signed);
    assert_eq!(first.code(), "SUCCESS", "{first:?}");
    host.write("a", "another");
    for _ in 0..2 {
        assert_eq!(host.run(&manifest, &signed).text, first.text);
    }
    assert_eq!(fs::read(&from).unwrap(), b"another");
    // A repeat needs no time left.
    lease.exp = lease.iat + 1;
    let short = host.sign(&lease);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(host.run(&manifest, &short).text, first.text);
    // Another manifest of the same id is another task.
    let other = host.manifest("t", "FILE_MOVE", &[&to, &host.path("c")]);
    let refused = host.run(&other, &host.sign(&host.lease("t", &other)));
    assert_eq!(refused.code(), "INVALID_LEASE", "{refused:?}");
    assert_eq!(host.log()["intents"], 1);
}

#[test]
fn what_is_wrong_with_a_manifest_or_a_path_is_told() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    fs::create_dir(host.base.join("d")).unwrap();
    std::os::unix::fs::symlink(&a, host.base.join("link")).unwrap();
    std::os::unix::fs::symlink(host.base.join("d"), host.base.join("dlink")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        host.base.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let base = host.base.to_str().unwrap().to_owned();
    let sources = [
        format!("{base}/absent"),
        format!("{base}/d"),
        format!("{base}/link"),
        format!("{base}/fifo"),
        format!("{base}/dlink/a"),
        format!("{base}/./a"),
        format!("{base}//a"),
        format!("{base}/a/"),
        format!("{base}/d/../a"),
        "/etc/passwd".to_owned(),
        "a".to_owned(),
        String::new(),
        base.clone(),
        format!("{base}/a\0"),
    ];
    for (number, source) in sources.iter().enumerate() {
        for capability in ["FILE_MOVE", "FILE_COPY"] {
            let told = host.does(&format!("{capability}{number}"), capability, &[source, &b]);
            assert_eq!(told.code(), "EXECUTION_FAILED", "{source}: {told:?}");
        }
        let told = host.does(&format!("d{number}"), "FILE_DELETE", &[source]);
        assert_eq!(told.code(), "EXECUTION_FAILED", "{source}: {told:?}");
    }
    let taken = [
        a.clone(),
        format!("{base}/d"),
        format!("{base}/link"),
        format!("{base}/no/b"),
    ];
    for (number, destination) in taken.iter().enumerate() {
        for capability in ["FILE_MOVE", "FILE_COPY"] {
            let source = host.write(&format!("s{number}"), "s");
            let id = format!("to{capability}{number}");
            let told = host.does(&id, capability, &[&source, destination]);
            assert_eq!(told.code(), "EXECUTION_FAILED", "{destination}: {told:?}");
            assert!(fs::exists(&source).unwrap());
        }
    }
    assert_eq!(fs::read(&a).unwrap(), b"x");
    assert_eq!(host.vault(), 0);
    let unknown = host.does("x", "FILE_TRUNCATE", &[&a, &b]);
    assert_eq!(unknown.code(), "UNSUPPORTED_CAPABILITY", "{unknown:?}");
    let manifest = json!({"task_id": "i", "capability_id": "FILE_DELETE",
        "inputs": {"source_path": a}, "constraints": {}, "provenance": {}})
    .to_string()
    .into_bytes();
    let irreversible = host.run(&manifest, &host.sign(&host.lease("i", &manifest)));
    assert_eq!(irreversible.code(), "EXECUTION_FAILED", "{irreversible:?}");
    assert_eq!(host.log()["intents"], 0);
}

#[test]
fn a_quota_ends_a_task_and_leaves_nothing_half_done() {
    let host = Host::new();
    let (big, to) = (host.write("big", vec![7; 32 << 20]), host.path("copy"));
    type Set = fn(&mut trumanfs::exec::task::quota::TaskQuota);
    let sets: [(&str, Set); 4] = [
        ("file_bytes", |quota| quota.file_bytes = 1 << 20),
        ("io_bytes", |quota| quota.io_bytes = 1 << 20),
        ("wall_ms", |quota| quota.wall_ms = 1),
        ("memory_bytes", |quota| quota.memory_bytes = 1 << 20),
    ];
    for (name, set) in sets {
        let manifest = host.manifest(name, "FILE_COPY", &[&big, &to]);
        let mut lease = host.lease(name, &manifest);
        set(&mut lease.quota);
        let told = host.run(&manifest, &host.sign(&lease));
        assert_eq!(told.code(), "RESOURCE_EXHAUSTED", "{name}: {told:?}");
        assert!(!fs::exists(&to).unwrap(), "{name}");
    }
    let told = host.does("whole", "FILE_COPY", &[&big, &to]);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
}

#[test]
fn a_file_with_several_names_is_moved_and_removed_by_one_of_them() {
    let host = Host::new();
    let a = host.write("a", "x");
    fs::hard_link(&a, host.path("b")).unwrap();
    let moved = host.does("m", "FILE_MOVE", &[&a, &host.path("c")]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    let removed = host.does("d", "FILE_DELETE", &[&host.path("c")]);
    assert_eq!(removed.code(), "SUCCESS", "{removed:?}");
    assert_eq!(fs::read(host.path("b")).unwrap(), b"x");
}

#[test]
fn a_stream_answers_line_by_line() {
    let host = Host::new();
    let mut stream = host.stream();
    for number in 0..20 {
        let from = host.write(&format!("f{number}"), "x");
        let id = format!("t{number}");
        let manifest = host.manifest(
            &id,
            "FILE_MOVE",
            &[&from, &host.path(&format!("g{number}"))],
        );
        let lease = host.sign(&host.lease(&id, &manifest));
        let answer = stream.ask(&host.line(&manifest, &lease));
        assert_eq!(host.read(&answer).status(), "SUCCESS", "{answer}");
    }
    for bad in [
        "nonsense".to_owned(),
        "{}".to_owned(),
        r#"{"manifest": "{}", "lease": {}, "more": 1}"#.to_owned(),
        format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
        "x".repeat(2 << 20),
    ] {
        let result = host.read(&stream.ask(&bad));
        assert_eq!(result.status(), "FAILURE");
        assert_eq!(result.task_id, "");
    }
    let without = host.manifest("w", "FILE_DELETE", &[&host.path("g1")]);
    let line = json!({"manifest": String::from_utf8(without).unwrap()}).to_string();
    let result = host.read(&stream.ask(&line));
    assert!(
        result
            .to_payload()
            .is_ok_and(|payload| { String::from_utf8_lossy(&payload).contains("INVALID_LEASE") })
    );
    stream.end();
    let log = host.log();
    assert_eq!(
        (&log["problems"], &log["successes"]),
        (&json!([]), &json!(20))
    );
}
