//! The reasons that failures have for programs, each made by a real cause.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use trumanfs::exec::task::lease::Lease;
use trumanfs::exec::task::quota::TaskQuota;

use super::host::Host;

#[test]
fn each_obstacle_on_disk_has_its_reason() {
    let host = Host::new();
    let (a, free) = (host.write("a", "x"), host.path("free"));
    fs::create_dir(host.base.join("d")).unwrap();
    fs::create_dir(host.base.join("d/.trumanfs")).unwrap();
    host.write("d/.trumanfs/a", "x");
    symlink(&a, host.base.join("link")).unwrap();
    symlink(host.base.join("d"), host.base.join("dlink")).unwrap();
    let fifo = host.base.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    for (number, (from, to, reason)) in [
        (host.path("absent"), free.as_str(), "missing"),
        (host.path("no/a"), &free, "missing"),
        (a.clone(), &host.path("no/b"), "missing"),
        (a.clone(), &a, "exists"),
        (a.clone(), &host.path("d"), "exists"),
        (host.path("d"), &free, "is_directory"),
        (host.path("a/b"), &free, "not_directory"),
        (host.path("link"), &free, "symlink"),
        (host.path("dlink/a"), &free, "missing"),
        (host.path("fifo"), &free, "not_regular"),
        (host.path("d/.trumanfs/a"), &free, "protected"),
        ("/etc/passwd".to_owned(), &free, "outside"),
        (a.clone(), "/etc/free", "outside"),
        ("a".to_owned(), &free, "malformed"),
    ]
    .into_iter()
    .enumerate()
    {
        let told = host.does(&format!("t{number}"), "FILE_COPY", &[&from, to]);
        assert_eq!(
            (told.code(), told.reason()),
            ("EXECUTION_FAILED", reason),
            "{from} {to}: {told:?}"
        );
        assert_eq!(told.json()["error"]["reason"], reason);
    }
    let writer = fs::OpenOptions::new().append(true).open(&a).unwrap();
    let told = host.does("w", "FILE_COPY", &[&a, &free]);
    assert_eq!(told.reason(), "in_use", "{told:?}");
    drop(writer);
    let manifest = json!({"task_id": "i", "capability_id": "FILE_DELETE",
        "inputs": {"source_path": a}, "constraints": {}, "provenance": {}})
    .to_string()
    .into_bytes();
    let told = host.run(&manifest, &host.sign(&host.lease("i", &manifest)));
    assert_eq!(told.reason(), "irreversible", "{told:?}");
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn each_fault_of_a_lease_has_its_reason() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let manifest = host.manifest("t", "FILE_COPY", &[&a, &b]);
    type Change = fn(&mut Lease);
    let changes: [(&str, &str, Change); 7] = [
        ("INVALID_LEASE", "lease_audience", |lease| {
            lease.aud = "others".to_owned()
        }),
        ("INVALID_LEASE", "lease_mismatch", |lease| {
            lease.task_id = "u".to_owned()
        }),
        ("INVALID_LEASE", "lease_mismatch", |lease| {
            lease.manifest_sha256 = "0".repeat(64)
        }),
        ("INVALID_LEASE", "lease_too_long", |lease| {
            lease.exp += 100_000
        }),
        ("INVALID_LEASE", "lease_early", |lease| {
            (lease.nbf, lease.exp) = (lease.nbf + 1000, lease.exp + 1000)
        }),
        ("LEASE_EXPIRED", "lease_expired", |lease| {
            (lease.iat, lease.nbf, lease.exp) = (lease.iat - 99, lease.nbf - 99, lease.iat - 1)
        }),
        ("INVALID_LEASE", "lease_capability", |lease| {
            lease.capabilities = vec!["FILE_MOVE".to_owned()]
        }),
    ];
    for (code, reason, change) in changes {
        let mut lease = host.lease("t", &manifest);
        change(&mut lease);
        let told = host.run(&manifest, &host.sign(&lease));
        assert_eq!((told.code(), told.reason()), (code, reason), "{told:?}");
    }
    let good = host.sign(&host.lease("t", &manifest));
    let told = host.run(&manifest, b"{}");
    assert_eq!(told.reason(), "lease_malformed", "{told:?}");
    let other = Host::new();
    let told = host.run(&manifest, &other.sign(&host.lease("t", &manifest)));
    assert_eq!(told.reason(), "lease_untrusted", "{told:?}");
    let told = host.run(b"{}", &good);
    assert_eq!(told.reason(), "malformed", "{told:?}");
    assert_eq!(host.run(&manifest, &good).code(), "SUCCESS");
    let another = host.manifest("t", "FILE_COPY", &[&a, &host.path("c")]);
    let told = host.run(&another, &host.sign(&host.lease("t", &another)));
    assert_eq!(told.reason(), "task_id_taken", "{told:?}");
    let told = host.does("x", "FILE_TRUNCATE", &[&a]);
    assert_eq!(
        (told.code(), told.reason()),
        ("UNSUPPORTED_CAPABILITY", "capability"),
        "{told:?}"
    );
}

#[test]
fn each_quota_has_its_reason() {
    let host = Host::new();
    let (big, to) = (host.write("big", vec![7; 32 << 20]), host.path("copy"));
    type Set = fn(&mut TaskQuota);
    let sets: [(&str, Set); 3] = [
        ("quota_file_bytes", |quota| quota.file_bytes = 1 << 20),
        ("quota_io_bytes", |quota| quota.io_bytes = 1 << 20),
        ("quota_wall_ms", |quota| quota.wall_ms = 1),
    ];
    for (reason, set) in sets {
        let manifest = host.manifest(reason, "FILE_COPY", &[&big, &to]);
        let mut lease = host.lease(reason, &manifest);
        set(&mut lease.quota);
        let told = host.run(&manifest, &host.sign(&lease));
        let expected = ("RESOURCE_EXHAUSTED", reason);
        assert_eq!((told.code(), told.reason()), expected, "{told:?}");
    }
}

#[test]
fn an_undo_that_meets_a_change_says_so() {
    let host = Host::new();
    let (a, b) = (host.write("a", "one"), host.path("b"));
    let moved = host.does("t", "FILE_MOVE", &[&a, &b]);
    fs::write(&b, "two").unwrap();
    let told = host.undo("u1", &moved.text);
    assert_eq!(told.reason(), "changed", "{told:?}");
    fs::write(&b, "one").unwrap();
    host.write("a", "mine");
    let told = host.undo("u2", &moved.text);
    assert_eq!(told.reason(), "exists", "{told:?}");
    fs::remove_file(&b).unwrap();
    let told = host.undo("u3", &moved.text);
    assert_eq!(told.reason(), "missing", "{told:?}");
    let told = host.undo("u4", &told.text);
    assert_eq!(told.reason(), "not_undoable", "{told:?}");
    assert_eq!(fs::read(&a).unwrap(), b"mine");
}
