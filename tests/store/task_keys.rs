//! `key`, `lease` and `result`: what they write, what they refuse, and how they end. The rules of the formats are tested beside
//! the code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use trumanfs::exec::task::absolute_path::AbsolutePath;
use trumanfs::exec::task::config::ExecutorConfig;
use trumanfs::exec::task::envelope::{Envelope, PayloadType};
use trumanfs::exec::task::failure_reason::FailureReason;
use trumanfs::exec::task::key::{PrivateKey, PublicKey};
use trumanfs::exec::task::lease::Lease;
use trumanfs::exec::task::result::{
    NO_PREV, ResultSummary, TaskOutcome, TaskOutput as Done, TaskResult, UndoMetadata,
};
use trumanfs::exec::task::revocations::RevocationList;
use trumanfs::exec::task::strict::sha256;

use crate::answers::page::Page;
use crate::common::{COMMAND_LIMIT, Home, binary, describe, need_mount, run_limited};

/// When everything happens, by the clock of the tests.
const NOW: u64 = 1_800_000_000;

const MANIFEST: &str =
    r#"{"task_id":"t1","capability_id":"FILE_MOVE","inputs":{},"constraints":{},"provenance":{}}"#;

/// A directory with the keys of a kernel and an executor, a list of both, and a manifest.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let desk = Desk {
            dir: tempfile::tempdir().unwrap(),
        };
        let entry = |role: &str| -> Value {
            let made = desk.run(&["key", "new", "--role", role, "--out", role]);
            assert_eq!(made.status.code(), Some(0), "{}", describe(&made));
            serde_json::from_slice(&made.stdout).unwrap()
        };
        let keys = [entry("kernel"), entry("executor")];
        desk.write("trust.json", &json!({ "v": 1, "keys": keys }).to_string());
        desk.write("m.json", MANIFEST);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn at(&self, now: u64, words: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command
            .args(words)
            .current_dir(self.dir.path())
            .env("TRUMANFS_TEST_NOW", now.to_string());
        run_limited(command, COMMAND_LIMIT)
    }

    fn run(&self, words: &[&str]) -> Output {
        self.at(NOW, words)
    }

    fn key(&self, name: &str) -> PrivateKey {
        PrivateKey::load(&self.path(name)).unwrap()
    }

    /// A lease that is issued with these words besides.
    fn issue(&self, more: &[&str]) -> Output {
        let words = [
            "lease", "issue", "--key", "kernel", "--iss", "planner", "--aud", "files", "--base",
            "/work",
        ];
        self.run(&[&words[..], more].concat())
    }

    fn lease(&self, more: &[&str]) -> Lease {
        let output = self.issue(more);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        Lease::verify(&output.stdout, [self.key("kernel").public()]).unwrap()
    }

    /// Writes a result that the executor has signed.
    fn put_result(&self, name: &str, ending: TaskOutcome, finished_at: u64) {
        let result = TaskResult {
            task_id: "t1".to_owned(),
            capability_id: "FILE_MOVE".to_owned(),
            ending,
            executor: "files".to_owned(),
            started_at: finished_at,
            finished_at,
            manifest_sha256: sha256(MANIFEST.as_bytes()),
            lease_id: "l1".to_owned(),
            prev: NO_PREV.to_owned(),
        };
        let text = result.sign(&self.key("executor")).unwrap().to_text();
        self.write(name, &format!("{text}\n"));
    }
}

fn done() -> TaskOutcome {
    let path = |text: &str| AbsolutePath::parse(text).unwrap();
    TaskOutcome::Success(Done {
        task_id: "t1".to_owned(),
        capability_id: "FILE_MOVE".to_owned(),
        result_summary: ResultSummary {
            source: path("/work/a"),
            destination: Some(path("/work/b")),
            sha256: Some("1".repeat(64)),
            size: 1,
        },
        undo_metadata: UndoMetadata {
            original_path: Some(path("/work/a")),
            ..UndoMetadata::default()
        },
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_key_is_made_once_and_belongs_to_its_user() {
    let desk = Desk::new();
    for (name, mode) in [("kernel", 0o600), ("kernel.pub", 0o644)] {
        assert_eq!(
            fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o7777,
            mode,
            "{name}"
        );
    }
    let page = Page::read();
    let trust: Value = serde_json::from_slice(&desk.read("trust.json")).unwrap();
    let entry = &trust["keys"][1];
    page.compare("key new", entry).unwrap();
    assert_eq!(entry["keyid"], desk.key("executor").keyid());
    assert_eq!(entry["public_key"], text(&desk.read("executor.pub")));
    assert_eq!(
        (&entry["not_before"], &entry["not_after"]),
        (&json!(NOW), &json!(NOW + 365 * 86400))
    );
    let before = desk.read("kernel");
    for (words, code, why) in [
        (
            &["key", "new", "--role", "kernel", "--out", "kernel"][..],
            4,
            "kernel.pub",
        ),
        (
            &["key", "new", "--role", "kernel", "--out", "none/k"],
            3,
            "none/k",
        ),
        (&["key", "new", "--role", "admin", "--out", "k"], 2, "admin"),
        (&["key", "new", "--role", "kernel"], 2, "--out"),
        (
            &[
                "key", "new", "--role", "kernel", "--out", "k", "--days", "0",
            ],
            2,
            "0",
        ),
    ] {
        let output = desk.run(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            describe(&output)
        );
        assert!(
            text(&output.stderr).contains(why) && output.stdout.is_empty(),
            "{}",
            describe(&output)
        );
    }
    assert_eq!(desk.read("kernel"), before);
    assert!(!desk.path("k").exists() && !desk.path("k.pub").exists());
    let short = desk.run(&[
        "key", "new", "--role", "kernel", "--out", "k", "--days", "2",
    ]);
    let entry: Value = serde_json::from_slice(&short.stdout).unwrap();
    assert_eq!(entry["not_after"], json!(NOW + 2 * 86400));
}

#[test]
fn a_lease_has_what_was_typed_and_defaults() {
    let desk = Desk::new();
    let lease = desk.lease(&["--manifest", "m.json"]);
    assert_eq!(
        (lease.task_id.as_str(), lease.capabilities),
        ("t1", vec!["FILE_MOVE".to_owned()])
    );
    assert_eq!(
        (lease.iat, lease.nbf, lease.exp, lease.max_uses),
        (NOW, NOW, NOW + 300, 1)
    );
    assert_eq!(lease.manifest_sha256, sha256(MANIFEST.as_bytes()));
    assert_eq!(
        (lease.quota.wall_ms, lease.quota.io_bytes),
        (60_000, 1 << 30)
    );
    let more = [
        "--manifest",
        "m.json",
        "--task-id",
        "t1",
        "--capability",
        "FILE_COPY",
        "--capability",
        "FILE_MOVE",
        "--base",
        "/srv",
        "--ttl",
        "5",
        "--not-before",
        "1800000100",
        "--max-uses",
        "3",
        "--quota",
        "wall_ms=7,io_bytes=0",
    ];
    let lease = desk.lease(&more);
    assert_eq!(lease.capabilities, ["FILE_COPY", "FILE_MOVE"]);
    assert_eq!(
        lease
            .bases
            .iter()
            .map(AbsolutePath::as_str)
            .collect::<Vec<_>>(),
        ["/work", "/srv"]
    );
    assert_eq!(
        (lease.iat, lease.nbf, lease.exp, lease.max_uses),
        (NOW, NOW + 100, NOW + 105, 3)
    );
    assert_eq!(
        (
            lease.quota.wall_ms,
            lease.quota.cpu_ms,
            lease.quota.io_bytes
        ),
        (7, 10_000, 0)
    );
    assert_ne!(lease.lease_id, desk.lease(&more).lease_id);
    let output = desk.issue(&["--manifest", "m.json", "--capability", "FILE_CHMOD"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("FILE_CHMOD: no executor"),
        "{}",
        describe(&output)
    );
}

#[test]
fn a_lease_of_an_undo_is_for_the_bytes_of_the_result() {
    let desk = Desk::new();
    desk.put_result("r.json", done(), NOW);
    desk.put_result(
        "failed.json",
        TaskOutcome::Failed(FailureReason::Io.because("x")),
        NOW,
    );
    let lease = desk.lease(&["--result", "r.json", "--task-id", "u1"]);
    assert_eq!(
        (lease.task_id.as_str(), lease.capabilities),
        ("u1", vec!["FILE_MOVE".to_owned()])
    );
    assert_eq!(lease.manifest_sha256, sha256(&desk.read("r.json")));
    let issued = desk.issue(&["--manifest", "m.json"]);
    desk.write("lease.json", &text(&issued.stdout));
    for (words, code, why) in [
        (&["--result", "r.json"][..], 2, "--task-id"),
        (
            &["--result", "r.json", "--task-id", "t1"],
            2,
            "another --task-id",
        ),
        (
            &["--result", "failed.json", "--task-id", "u1"],
            6,
            "has changed nothing",
        ),
        (
            &["--result", "lease.json", "--task-id", "u1"],
            6,
            "no result",
        ),
        (&["--result", "m.json", "--task-id", "u1"], 6, "m.json"),
    ] {
        let output = desk.issue(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            describe(&output)
        );
        assert!(
            text(&output.stderr).contains(why) && output.stdout.is_empty(),
            "{}",
            describe(&output)
        );
    }
}

#[test]
fn what_no_executor_would_take_is_not_issued() {
    let desk = Desk::new();
    desk.write(
        "bad.json",
        &MANIFEST.replacen('{', "{\"task_id\":\"t2\",", 1),
    );
    desk.write("long.json", &format!("{MANIFEST}{}", " ".repeat(65536)));
    let m = ["--manifest", "m.json"];
    for (words, code, why) in [
        (&["--manifest", "bad.json"][..], 6, "stands twice"),
        (&["--manifest", "long.json"], 6, "more than 65536 bytes"),
        (&["--manifest", "none.json"], 3, "none.json"),
        (&["--manifest", "."], 6, "not a regular file"),
        (&[], 2, "--manifest"),
        (&[m[0], m[1], "--result", "m.json"], 2, "--result"),
        (&[m[0], m[1], "--task-id", "t2"], 2, "its task_id is"),
        (&[m[0], m[1], "--base", "work"], 2, "is not absolute"),
        (&[m[0], m[1], "--base", "/work/../etc"], 2, "`..`"),
        (&[m[0], m[1], "--max-uses", "0"], 2, "max_uses"),
        (&[m[0], m[1], "--ttl", "0"], 2, "--ttl"),
        (
            &[m[0], m[1], "--not-before", "9007199254740991"],
            2,
            "no time",
        ),
        (
            &[m[0], m[1], "--not-before", "1", "--ttl", "1"],
            2,
            "exp is not after",
        ),
        (&[m[0], m[1], "--quota", "wall_ms"], 2, "NAME=N"),
        (&[m[0], m[1], "--quota", "wall_ms=x"], 2, "NAME=N"),
        (&[m[0], m[1], "--quota", "disk=1"], 2, "no limit"),
        (&[m[0], m[1], "--quota", "cpu_ms=0"], 2, "cpu_ms is 0"),
        (&[m[0], m[1], "--capability", "a b"], 2, "capabilities"),
    ] {
        let output = desk.issue(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            describe(&output)
        );
        assert!(
            text(&output.stderr).contains(why) && output.stdout.is_empty(),
            "{words:?}: {}",
            describe(&output)
        );
    }
    fs::set_permissions(desk.path("kernel"), fs::Permissions::from_mode(0o640)).unwrap();
    let output = desk.issue(&m);
    assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
    assert!(
        text(&output.stderr).contains("chmod 600"),
        "{}",
        describe(&output)
    );
}

#[test]
fn leases_are_revoked_in_a_list_that_grows() {
    let (desk, page) = (Desk::new(), Page::read());
    let revoke = |now: u64, more: &[&str]| {
        let words = [
            "lease",
            "revoke",
            "--key",
            "kernel",
            "--revocations",
            "revoked.json",
        ];
        desk.at(now, &[&words[..], more].concat())
    };
    let list = || {
        RevocationList::verify(&desk.read("revoked.json"), [desk.key("kernel").public()]).unwrap()
    };
    let output = revoke(NOW, &["l1"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "revoked.json: 1 revoked lease\n".to_owned())
    );
    assert_eq!(
        (list().iat, list().iss.as_str()),
        (NOW, desk.key("kernel").keyid())
    );
    let output = revoke(NOW - 100, &["--json", "--iss", "planner", "l3", "l2", "l1"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    page.compare("lease revoke", &told).unwrap();
    assert_eq!(told["lease_ids"], json!(["l1", "l2", "l3"]));
    // The clock was set back, and the list is later nevertheless.
    assert_eq!((list().iat, list().iss.as_str()), (NOW + 1, "planner"));
    let before = desk.read("revoked.json");
    let foreign = [
        "lease",
        "revoke",
        "--key",
        "executor",
        "--revocations",
        "revoked.json",
        "l4",
    ];
    for (output, code) in [
        (desk.run(&foreign), 6),
        (revoke(NOW, &["not an id"]), 2),
        (revoke(NOW, &[]), 2),
        (revoke(NOW, &["--trust", "none.json", "l4"]), 3),
    ] {
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        assert_eq!(desk.read("revoked.json"), before);
    }
    let trusting = [&foreign[..6], &["--trust", "trust.json", "l4"]].concat();
    assert_eq!(
        desk.run(&trusting).status.code(),
        Some(0),
        "the list is by a kernel key that counts"
    );
}

#[test]
fn a_result_is_valid_or_not_or_nobody_can_tell() {
    let (desk, page) = (Desk::new(), Page::read());
    desk.put_result("r.json", done(), NOW);
    desk.put_result(
        "failed.json",
        TaskOutcome::Failed(FailureReason::LeaseExpired.because("late")),
        NOW,
    );
    desk.put_result("early.json", done(), NOW - 1);
    let issued = desk.issue(&["--manifest", "m.json"]);
    desk.write("lease.json", &text(&issued.stdout));
    desk.write(
        "changed.json",
        &text(&desk.read("r.json")).replacen("payload\":\"ey", "payload\":\"eZ", 1),
    );
    desk.write("long.json", &" ".repeat(300_000));
    let other = PrivateKey::generate().unwrap();
    other.save(&desk.path("other")).unwrap();
    desk.write("bad.json", "{}");
    let (key, trust) = (["--key", "executor.pub"], ["--trust", "trust.json"]);
    for (file, by, code, why) in [
        ("r.json", key, 0, "valid: task \"t1\", FILE_MOVE SUCCESS"),
        ("r.json", trust, 0, "/work/b"),
        ("failed.json", trust, 0, "LEASE_EXPIRED: late"),
        ("early.json", key, 0, "valid"),
        ("early.json", trust, 1, "outside the time of its key"),
        (
            "lease.json",
            ["--key", "kernel.pub"],
            1,
            "none of the executor keys",
        ),
        (
            "r.json",
            ["--key", "other.pub"],
            1,
            "none of the executor keys",
        ),
        (
            "r.json",
            ["--key", "kernel.pub"],
            1,
            "none of the executor keys",
        ),
        ("changed.json", key, 1, "not valid"),
        ("m.json", key, 1, "not valid"),
        ("long.json", key, 1, "more than 262144 bytes"),
        ("none.json", key, 2, "none.json"),
        ("r.json", ["--key", "none.pub"], 2, "none.pub"),
        ("r.json", ["--key", "executor"], 2, "no ed25519 public key"),
        ("r.json", ["--trust", "bad.json"], 2, "bad.json"),
        ("r.json", ["--keys", "executor.pub"], 2, "--keys"),
    ] {
        let words = ["result", "verify", file, by[0], by[1]];
        let output = desk.run(&words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            describe(&output)
        );
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(told.contains(why), "{words:?}: {told}");
        let output = desk.run(&[&words[..], &["--json"]].concat());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            describe(&output)
        );
        if code < 2 {
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            page.compare("result verify", &told).unwrap();
            assert_eq!(told["valid"], json!(code == 0));
        } else {
            let told: Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!(
                (&told["error"]["kind"], &told["error"]["exit"]),
                (&json!("usage"), &json!(2)),
                "{told}"
            );
        }
    }
    let both = desk.run(&[
        "result",
        "verify",
        "r.json",
        "--key",
        "executor.pub",
        "--trust",
        "trust.json",
    ]);
    assert_eq!(both.status.code(), Some(2));
    assert_eq!(
        desk.run(&["result", "verify", "r.json"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_retired_key_leaves_its_results_valid_and_a_removed_one_does_not() {
    let desk = Desk::new();
    desk.put_result("r.json", done(), NOW);
    let verify = |trust: &Value| {
        desk.write("t.json", &trust.to_string());
        desk.run(&["result", "verify", "r.json", "--trust", "t.json"])
            .status
            .code()
    };
    let mut trust: Value = serde_json::from_slice(&desk.read("trust.json")).unwrap();
    assert_eq!(verify(&trust), Some(0));
    trust["keys"][1]["state"] = json!("retired");
    assert_eq!(verify(&trust), Some(0));
    trust["keys"][1]["not_after"] = json!(NOW + 1);
    assert_eq!(verify(&trust), Some(0));
    trust["keys"][1]["role"] = json!("kernel");
    assert_eq!(verify(&trust), Some(1));
    trust["keys"].as_array_mut().unwrap().pop();
    assert_eq!(verify(&trust), Some(1));
    trust["keys"][0]["keyid"] = json!("0".repeat(64));
    assert_eq!(verify(&trust), Some(2));
}

#[test]
fn what_is_printed_is_one_line_that_is_signed() {
    let desk = Desk::new();
    let output = desk.issue(&["--manifest", "m.json"]);
    let printed = text(&output.stdout);
    assert_eq!(printed.matches('\n').count(), 1);
    let envelope = Envelope::parse(output.stdout.as_slice()).unwrap();
    assert_eq!(format!("{}\n", envelope.to_text()), printed);
    let public = PublicKey::load(&desk.path("kernel.pub")).unwrap();
    assert_eq!(
        envelope.verify(PayloadType::Lease, [&public]),
        Some(&public)
    );
    assert_eq!(envelope.verify(PayloadType::Result, [&public]), None);
}

#[test]
fn a_lease_may_have_an_id_of_the_hosts_and_a_result_come_by_a_pipe() {
    let desk = Desk::new();
    let lease = desk.lease(&["--manifest", "m.json", "--lease-id", "mine-1"]);
    assert_eq!(lease.lease_id, "mine-1");
    let output = desk.issue(&["--manifest", "m.json", "--lease-id", "a b"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    desk.put_result("r.json", done(), NOW);
    desk.write("long.json", &" ".repeat(300_000));
    for (file, code) in [("r.json", 0), ("m.json", 1), ("long.json", 1)] {
        let mut command = Command::new("sh");
        let line = r#"cat "$1" | "$2" result verify - --key executor.pub"#;
        command
            .args(["-c", line, "sh", file, binary()])
            .current_dir(desk.dir.path());
        let output = run_limited(command, COMMAND_LIMIT);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{file}: {}",
            describe(&output)
        );
    }
}

#[test]
fn what_an_executor_relies_on_lies_outside_the_store_of_a_home() {
    need_mount!();
    let home = Home::prepared(|store| fs::create_dir(store.join("sub")).unwrap(), &[]);
    let (dir, store) = (tempfile::tempdir().unwrap(), home.store());
    let outside = dir.path().canonicalize().unwrap();
    for (place, name) in [(store, "key"), (&outside, "key"), (&outside, "trust.json")] {
        fs::write(place.join(name), "").unwrap();
    }
    let load = |base: &std::path::Path, vault: &std::path::Path, key: &std::path::Path| {
        let text = format!(
            "audience = \"files\"\nbases = [\"{}\"]\nstate_dir = \"state\"\nvault_dir = \"{}\"\nkey = \"{}\"\n\
             trust = \"trust.json\"\nmax_lease_s = 60\n",
            base.display(),
            vault.display(),
            key.display()
        );
        fs::write(outside.join("task.toml"), text).unwrap();
        ExecutorConfig::load(&outside.join("task.toml"))
    };
    let (vault, key) = (outside.join("vault"), outside.join("key"));
    for base in [home.home().to_owned(), home.path("sub")] {
        load(&base, &vault, &key).unwrap();
        for (vault, key, why) in [
            (&vault, &store.join("key"), "key: "),
            (&store.join("vault"), &key, "vault_dir: "),
            (&home.path("vault"), &key, "vault_dir: "),
        ] {
            let told = load(&base, vault, key).unwrap_err().full_message();
            assert!(told.contains(why), "{}: {told}", base.display());
        }
        assert!(!store.join("vault").exists());
    }
}
