//! What a hostile occupant or a forger of leases tries.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use trumanfs::exec::task::key::PrivateKey;
use trumanfs::exec::task::revocations::RevocationList;

use super::host::{Host, Told};

/// Asserts that a lease does not hold, that nothing of what is there is told, and that nothing was stored.
fn refused(host: &Host, told: &Told, code: &str) {
    assert_eq!(told.code(), code, "{told:?}");
    assert!(!told.text.contains("secret-name"));
    assert!(!told.why().contains("secret-name"), "{told:?}");
    let log = fs::read_to_string(host.dir.join("state/log.jsonl")).unwrap_or_default();
    assert_eq!(log, "", "{told:?}");
}

#[test]
fn a_lease_that_does_not_hold_opens_nothing() {
    let host = Host::new();
    let there = host.write("secret-name", "x");
    let absent = host.path("secret-name-too");
    for path in [&there, &absent] {
        let manifest = host.manifest("t", "FILE_DELETE", &[path]);
        let good = host.lease("t", &manifest);
        type Change = fn(&mut trumanfs::exec::task::lease::Lease);
        let changes: [(&str, Change); 8] = [
            ("INVALID_LEASE", |lease| lease.aud = "another".to_owned()),
            ("INVALID_LEASE", |lease| lease.task_id = "other".to_owned()),
            ("INVALID_LEASE", |lease| {
                lease.manifest_sha256 = "0".repeat(64)
            }),
            ("LEASE_EXPIRED", |lease| {
                (lease.iat, lease.nbf, lease.exp) = (1, 1, 3000)
            }),
            ("INVALID_LEASE", |lease| lease.exp = lease.iat + 1_000_000),
            ("INVALID_LEASE", |lease| {
                (lease.iat, lease.nbf, lease.exp) =
                    (lease.iat + 100, lease.iat + 100, lease.iat + 200);
            }),
            ("INVALID_LEASE", |lease| {
                lease.capabilities = vec!["FILE_MOVE".to_owned()]
            }),
            ("INVALID_LEASE", |lease| {
                lease.capabilities = vec!["FILE_TRUNCATE".to_owned()]
            }),
        ];
        for (code, change) in changes {
            let mut lease = good.clone();
            change(&mut lease);
            refused(&host, &host.run(&manifest, &host.sign(&lease)), code);
        }
        let stranger = PrivateKey::generate().unwrap();
        let forged = good.issue(&stranger).unwrap().to_text().into_bytes();
        refused(&host, &host.run(&manifest, &forged), "INVALID_LEASE");
        refused(&host, &host.run(&manifest, b""), "INVALID_LEASE");
        refused(&host, &host.run(&manifest, b"{}"), "INVALID_LEASE");
        let deep = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
        refused(&host, &host.run(&manifest, &deep), "INVALID_LEASE");
        refused(
            &host,
            &host.run(&deep, &host.sign(&good)),
            "EXECUTION_FAILED",
        );
        let stripped = host.sign(&good);
        let mut envelope: Value = serde_json::from_slice(&stripped).unwrap();
        envelope["signatures"] = json!([]);
        let told = host.run(&manifest, envelope.to_string().as_bytes());
        refused(&host, &told, "INVALID_LEASE");
    }
    assert!(fs::exists(&there).unwrap());
}

#[test]
fn a_result_is_no_lease() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let moved = host.does("t", "FILE_MOVE", &[&a, &b]);
    let manifest = host.manifest("u", "FILE_MOVE", &[&b, &a]);
    let told = host.run(&manifest, moved.text.as_bytes());
    assert_eq!(told.code(), "INVALID_LEASE", "{told:?}");
    // Nor is a lease a result that could be undone.
    let lease = host.sign(&host.lease("v", &manifest));
    let told = host.undo("w", std::str::from_utf8(&lease).unwrap());
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
}

#[test]
fn a_manifest_of_a_hundred_megabytes_is_refused_at_once() {
    let host = Host::new();
    let manifest = vec![b' '; 100 << 20];
    let lease = host.sign(&host.lease("t", &manifest));
    let begun = std::time::Instant::now();
    let told = host.run(&manifest, &lease);
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert_eq!(told.result.task_id, "");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn a_lease_is_used_up_and_revoked() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let manifest = host.manifest("t", "FILE_COPY", &[&a, &b]);
    let mut lease = host.lease("t", &manifest);
    lease.max_uses = 2;
    lease.quota.io_bytes = 0;
    let signed = host.sign(&lease);
    let mut last = String::new();
    for _ in 0..2 {
        let told = host.run(&manifest, &signed);
        assert_eq!(told.code(), "RESOURCE_EXHAUSTED", "{told:?}");
        assert_ne!(told.text, last);
        last = told.text;
    }
    // Used up, it has the result of its last try, and does nothing.
    assert_eq!(host.run(&manifest, &signed).text, last);
    assert_eq!(host.log()["intents"], 2);
}

#[test]
fn a_revoked_lease_is_none_and_without_the_list_nothing_is_done() {
    let host = Host::new();
    let a = host.write("a", "x");
    let manifest = host.manifest("t", "FILE_DELETE", &[&a]);
    let lease = host.lease("t", &manifest);
    let list = host.dir.join("revocations.json");
    let revoke = |iat: u64, ids: &[&str]| {
        let revocations = RevocationList {
            iss: "host".to_owned(),
            iat,
            lease_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        fs::write(&list, revocations.sign(&host.kernel).unwrap().to_text()).unwrap();
    };
    revoke(lease.iat - 10, &[&lease.lease_id]);
    host.configure("revocations = \"revocations.json\"\n");
    refused(
        &host,
        &host.run(&manifest, &host.sign(&lease)),
        "INVALID_LEASE",
    );
    // An older list, one that is gone, and one that nobody signed: nothing is carried out.
    let other = host.sign(&host.lease("t", &manifest));
    revoke(lease.iat - 20, &[]);
    for damage in [None, Some("{}"), Some("")] {
        if let Some(text) = damage {
            fs::write(&list, text).unwrap();
        }
        let output = host.command(&manifest, &other).output().unwrap();
        assert!(
            output.stdout.is_empty(),
            "{}",
            crate::common::describe(&output)
        );
        assert_eq!(
            output.status.code(),
            Some(6),
            "{}",
            crate::common::describe(&output)
        );
    }
    assert!(fs::exists(&a).unwrap());
    revoke(lease.iat, &[]);
    assert_eq!(host.run(&manifest, &other).code(), "SUCCESS");
}

#[test]
fn a_clock_that_is_set_back_revives_nothing() {
    if !cfg!(debug_assertions) {
        crate::common::skip!("failpoints", "this build has one clock");
    }
    let host = Host::new();
    let a = host.write("a", "x");
    let manifest = host.manifest("t", "FILE_DELETE", &[&a]);
    let lease = host.lease("t", &manifest);
    let signed = host.sign(&lease);
    let at = |time: u64| {
        let mut command = host.command(&manifest, &signed);
        command.env("TRUMANFS_TEST_NOW", time.to_string());
        host.told(command.output().unwrap())
    };
    assert_eq!(at(lease.exp).code(), "LEASE_EXPIRED");
    assert_eq!(at(lease.iat).code(), "LEASE_EXPIRED");
    assert!(fs::exists(&a).unwrap());
}

/// Also where an executor works that has seen an earlier time, and another one a later.
#[test]
fn a_stream_knows_the_time_that_others_have_seen() {
    if !cfg!(debug_assertions) {
        crate::common::skip!("failpoints", "this build has one clock");
    }
    let host = Host::new();
    let [a, b] = ["a", "b"].map(|name| host.write(name, "x"));
    let mut stream = host.stream();
    let manifest = host.manifest("u", "FILE_DELETE", &[&b]);
    let lease = host.sign(&host.lease("u", &manifest));
    let told = host.read(&stream.ask(&host.line(&manifest, &lease)));
    assert_eq!(told.status(), "SUCCESS");
    let manifest = host.manifest("t", "FILE_DELETE", &[&a]);
    let lease = host.lease("t", &manifest);
    let signed = host.sign(&lease);
    let mut command = host.command(&manifest, &signed);
    command.env("TRUMANFS_TEST_NOW", lease.exp.to_string());
    let told = host.told(command.output().unwrap());
    assert_eq!(told.code(), "LEASE_EXPIRED");
    let told = host.read(&stream.ask(&host.line(&manifest, &signed)));
    let told = String::from_utf8(told.to_payload().unwrap()).unwrap();
    assert!(told.contains("LEASE_EXPIRED"), "{told}");
    assert!(fs::exists(&a).unwrap());
    stream.end();
}

/// Nothing is done whose answer nobody could verify.
#[test]
fn a_key_that_may_not_sign_carries_nothing_out() {
    let host = Host::new();
    let a = host.write("a", "x");
    let manifest = host.manifest("t", "FILE_DELETE", &[&a]);
    let lease = host.lease("t", &manifest);
    let signed = host.sign(&lease);
    let file = host.dir.join("trust.json");
    let trust: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let soon = lease.iat + lease.quota.wall_ms / 1000;
    for (member, value, why) in [
        ("state", json!("retired"), "retired"),
        ("not_after", json!(lease.iat - 10), "counts until"),
        ("not_after", json!(soon - 1), "may last until"),
        ("not_before", json!(lease.iat + 3000), "counts from"),
        ("role", json!("kernel"), "no executor"),
    ] {
        let mut other = trust.clone();
        other["keys"][1][member] = value;
        fs::write(&file, other.to_string()).unwrap();
        let output = host.command(&manifest, &signed).output().unwrap();
        let said = crate::common::describe(&output);
        assert_eq!(output.status.code(), Some(6), "{member}: {said}");
        assert!(
            output.stdout.is_empty() && said.contains(why),
            "{member}: {said}"
        );
        assert!(fs::exists(&a).unwrap(), "{member}");
    }
    fs::write(&file, trust.to_string()).unwrap();
    // Also where it is retired while the executor runs.
    let mut stream = host.stream();
    let told = host.read(&stream.ask("{}"));
    assert_eq!(told.status(), "FAILURE");
    let mut other = trust.clone();
    other["keys"][1]["state"] = json!("retired");
    fs::write(&file, other.to_string()).unwrap();
    assert_eq!(stream.ask(&host.line(&manifest, &signed)), "");
    assert!(fs::exists(&a).unwrap());
    fs::write(&file, trust.to_string()).unwrap();
    assert_eq!(host.run(&manifest, &signed).code(), "SUCCESS");
}

#[test]
fn an_id_belongs_to_the_manifest_that_came_first_also_after_a_failure() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let told = host.does("t", "FILE_COPY", &[&host.path("nope"), &b]);
    assert_eq!(told.code(), "EXECUTION_FAILED");
    let told = host.does("t", "FILE_COPY", &[&a, &b]);
    assert_eq!(told.code(), "INVALID_LEASE", "{told:?}");
    host.write("nope", "later");
    let told = host.does("t", "FILE_COPY", &[&host.path("nope"), &b]);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
}

#[test]
fn each_line_of_a_stream_has_an_answer() {
    let host = Host::new();
    let mut stream = host.stream();
    for line in ["", "  ", "\t", "{}", "null"] {
        let told = host.read(&stream.ask(line));
        assert_eq!(told.status(), "FAILURE", "{line:?}");
    }
    stream.end();
}

#[test]
fn directories_that_are_swapped_lead_nowhere() {
    let host = Host::new();
    let outside = host.dir.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "outside").unwrap();
    let (dir, away) = (host.base.join("d"), host.base.join("away"));
    fs::create_dir(&dir).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::rename(&dir, &away);
                let _ = std::os::unix::fs::symlink(&outside, &dir);
                let _ = fs::remove_file(&dir);
                let _ = fs::rename(&away, &dir);
            }
        });
        let mut stream = host.stream();
        for number in 0..60 {
            let _ = fs::write(host.base.join("d/f"), "inside");
            let id = format!("t{number}");
            let manifest = match number % 3 {
                0 => host.manifest(&id, "FILE_DELETE", &[&host.path("d/f")]),
                1 => host.manifest(&id, "FILE_MOVE", &[&host.path("d/f"), &host.path(&id)]),
                _ => host.manifest(&id, "FILE_COPY", &[&host.path("d/f"), &host.path(&id)]),
            };
            let lease = host.sign(&host.lease(&id, &manifest));
            host.read(&stream.ask(&host.line(&manifest, &lease)));
        }
        stream.end();
        stop.store(true, Ordering::Relaxed);
    });
    // The swapper's link may have led our own writes out, and nothing else.
    let left = fs::read_dir(&outside).unwrap().count();
    assert_eq!(left, 1);
    for entry in fs::read_dir(&host.base).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            assert_eq!(fs::read(entry.path()).unwrap(), b"inside");
        }
    }
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn a_worker_has_no_network_no_programs_and_no_other_files() {
    // The key lies outside every base; a worker could not read it, nor does it know it.
    let host = Host::new();
    let a = host.write("a", vec![1; 64 << 20]);
    let manifest = host.manifest("t", "FILE_COPY", &[&a, &host.path("b")]);
    let lease = host.sign(&host.lease("t", &manifest));
    let mut child = host
        .command(&manifest, &lease)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let (mut seen, mut holds) = (false, false);
    while child.try_wait().unwrap().is_none() {
        let worker = fs::read_to_string(&children).unwrap_or_default();
        let Some(worker) = worker.split_whitespace().next() else {
            continue;
        };
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
        // Nobody else settles what is under way while the worker lives, whatever becomes of its supervisor.
        let files = fs::read_dir(format!("/proc/{worker}/fd"))
            .into_iter()
            .flatten();
        let mut files = files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok());
        holds |= files.any(|file| file.ends_with("state/lock"));
        seen |= status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2");
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(host.read(&text).status(), "SUCCESS");
    assert!(seen, "the worker was never seen confined");
    assert!(
        holds || !rustix::process::geteuid().is_root(),
        "the worker does not hold the lock"
    );
}
