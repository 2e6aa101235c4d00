//! One lease for a list of manifests: each is carried out once, in any order, and nothing else is.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use trumanfs::exec::task::batch_lease::{BatchLease, MAX_MANIFESTS};
use trumanfs::exec::task::envelope::{Envelope, PayloadType};
use trumanfs::exec::task::key::PrivateKey;
use trumanfs::exec::task::result::TaskOutcome;
use trumanfs::exec::task::strict::sha256;

use super::host::Host;
use crate::common::{COMMAND_LIMIT, binary, describe, run_limited};

/// Returns a lease for these manifests, before it is signed.
fn batch(host: &Host, manifests: &[Vec<u8>]) -> BatchLease {
    let like = host.lease("like", b"");
    BatchLease {
        v: 1,
        lease_id: like.lease_id,
        iss: like.iss,
        aud: like.aud,
        manifests: manifests.iter().map(|manifest| sha256(manifest)).collect(),
        capabilities: like.capabilities,
        bases: like.bases,
        iat: like.iat,
        nbf: like.nbf,
        exp: like.exp,
        quota: like.quota,
    }
}

fn sign(lease: &BatchLease, key: &PrivateKey) -> Vec<u8> {
    lease.issue(key).unwrap().to_text().into_bytes()
}

/// Signs any payload as a lease for a list.
fn sign_value(lease: &Value, key: &PrivateKey) -> Vec<u8> {
    let payload = lease.to_string().into_bytes();
    let envelope = Envelope::sign(PayloadType::BatchLease, payload, key);
    envelope.to_text().into_bytes()
}

/// Returns manifests of copies of one file to `copy0`, `copy1` and so on.
fn copies(host: &Host, count: usize) -> Vec<Vec<u8>> {
    let from = host.write("from", "x");
    let manifest = |number| {
        let to = host.path(&format!("copy{number}"));
        host.manifest(&format!("t{number}"), "FILE_COPY", &[&from, &to])
    };
    (0..count).map(manifest).collect()
}

#[test]
fn a_planner_signs_once_for_a_hundred_tasks() {
    let host = Host::new();
    let manifests = copies(&host, 100);
    host.kernel.save(&host.dir.join("kernel.key")).unwrap();
    let mut command = Command::new(binary());
    command.args(["lease", "issue", "--iss", "host", "--aud", "files", "--key"]);
    command
        .arg(host.dir.join("kernel.key"))
        .arg("--base")
        .arg(&host.base);
    command.arg("--manifest");
    for (number, manifest) in manifests.iter().enumerate() {
        let file = host.dir.join(format!("m{number}.json"));
        fs::write(&file, manifest).unwrap();
        command.arg(file);
    }
    let issued = run_limited(command, COMMAND_LIMIT);
    assert!(issued.status.success(), "{}", describe(&issued));
    let mut stream = host.stream();
    // 37 and 100 have no common divisor, so each comes once.
    for at in 0..100 {
        let manifest = &manifests[at * 37 % 100];
        let answer = stream.ask(&host.line(manifest, &issued.stdout));
        assert_eq!(host.read(&answer).status(), "SUCCESS", "{answer}");
    }
    stream.end();
    for number in 0..100 {
        assert_eq!(fs::read(host.path(&format!("copy{number}"))).unwrap(), b"x");
    }
    let log = host.log();
    assert_eq!(
        (&log["problems"], &log["successes"]),
        (&json!([]), &json!(100))
    );
}

#[test]
fn a_list_permits_its_manifests_and_nothing_else() {
    let host = Host::new();
    let manifests = copies(&host, 3);
    let (listed, other) = manifests.split_at(2);
    let lease = batch(&host, listed);
    let signed = sign(&lease, &host.kernel);
    let told = host.run(&other[0], &signed);
    assert_eq!(told.reason(), "lease_mismatch", "{told:?}");
    // One blank more is another manifest.
    let spaced = [listed[0].as_slice(), b" "].concat();
    let told = host.run(&spaced, &signed);
    assert_eq!(told.reason(), "lease_mismatch", "{told:?}");
    let mut value = serde_json::to_value(&lease).unwrap();
    value["manifests"] = json!([sha256(&other[0])]);
    let envelope = Envelope::parse(&signed).unwrap();
    let with_payload = |payload: Vec<u8>| {
        Envelope {
            payload,
            ..envelope.clone()
        }
        .to_text()
    };
    // A list that was exchanged, cut short, or cut off is not what was signed.
    let mut short = serde_json::to_value(&lease).unwrap();
    short["manifests"] = json!([sha256(&listed[0])]);
    let mut cut = envelope.payload.clone();
    cut.truncate(cut.len() / 2);
    for payload in [
        value.to_string().into_bytes(),
        short.to_string().into_bytes(),
        cut,
    ] {
        let told = host.run(&listed[0], with_payload(payload).as_bytes());
        assert_eq!(told.reason(), "lease_untrusted", "{told:?}");
    }
    let told = host.run(&listed[0], &signed[..signed.len() / 2]);
    assert_eq!(told.reason(), "lease_malformed", "{told:?}");
    let told = host.run(&listed[0], &sign(&lease, &PrivateKey::generate().unwrap()));
    assert_eq!(told.reason(), "lease_untrusted", "{told:?}");
    // A list that a kernel signs and nobody may.
    let digest = |number: usize| format!("{number:064x}");
    let long: Vec<_> = (0..MAX_MANIFESTS)
        .map(digest)
        .chain([sha256(&listed[0])])
        .collect();
    for list in [
        json!(long),
        json!([sha256(&listed[0]), sha256(&listed[0])]),
        json!([]),
        json!(""),
    ] {
        value["manifests"] = list;
        let told = host.run(&listed[0], &sign_value(&value, &host.kernel));
        assert_eq!(told.reason(), "lease_malformed", "{told:?}");
    }
    type Change = fn(&mut BatchLease);
    let changes: [(&str, Change); 4] = [
        ("lease_audience", |lease| lease.aud = "other".to_owned()),
        ("lease_expired", |lease| {
            (lease.iat, lease.nbf, lease.exp) = (1, 1, 2)
        }),
        ("lease_too_long", |lease| lease.exp += 100_000),
        ("lease_capability", |lease| {
            lease.capabilities = vec!["FILE_MOVE".to_owned()]
        }),
    ];
    for (reason, change) in changes {
        let mut lease = batch(&host, listed);
        change(&mut lease);
        let told = host.run(&listed[0], &sign(&lease, &host.kernel));
        assert_eq!(told.reason(), reason, "{told:?}");
    }
    assert_eq!(fs::read_dir(&host.base).unwrap().count(), 1);
    assert_eq!(host.run(&listed[1], &signed).code(), "SUCCESS");
    assert_eq!(host.log()["intents"], 1);
}

#[test]
fn each_manifest_of_a_list_is_used_once() {
    let host = Host::new();
    let manifests = copies(&host, 3);
    let signed = sign(&batch(&host, &manifests), &host.kernel);
    let first = host.run(&manifests[1], &signed);
    assert_eq!(first.code(), "SUCCESS", "{first:?}");
    fs::remove_file(host.path("copy1")).unwrap();
    // A repeat is the stored result, also in a process of its own.
    assert_eq!(host.run(&manifests[1], &signed).text, first.text);
    assert!(!fs::exists(host.path("copy1")).unwrap());
    // A try that failed is a use, and the others have theirs.
    host.write("copy0", "in the way");
    let failed = host.run(&manifests[0], &signed);
    assert_eq!(failed.reason(), "exists", "{failed:?}");
    fs::remove_file(host.path("copy0")).unwrap();
    assert_eq!(host.run(&manifests[0], &signed).text, failed.text);
    assert!(!fs::exists(host.path("copy0")).unwrap());
    assert_eq!(host.run(&manifests[2], &signed).code(), "SUCCESS");
    // A list undoes nothing, also if it has the result's digest.
    let undo = sign(
        &batch(&host, &[first.text.clone().into_bytes()]),
        &host.kernel,
    );
    let mut stream = host.stream();
    let undo: Value = serde_json::from_slice(&undo).unwrap();
    let answer = stream.ask(&json!({"undo": first.text, "lease": undo}).to_string());
    let TaskOutcome::Failed(failure) = host.read(&answer).ending else {
        panic!("{answer}");
    };
    assert_eq!(
        failure.reason.map(|reason| reason.as_str()),
        Some("lease_mismatch")
    );
    stream.end();
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn a_list_is_revoked_as_a_whole() {
    let host = Host::new();
    let manifests = copies(&host, 2);
    let lease = batch(&host, &manifests);
    let signed = sign(&lease, &host.kernel);
    assert_eq!(host.run(&manifests[0], &signed).code(), "SUCCESS");
    host.kernel.save(&host.dir.join("kernel.key")).unwrap();
    let mut command = Command::new(binary());
    command
        .args(["lease", "revoke", "--key"])
        .arg(host.dir.join("kernel.key"));
    command
        .arg("--revocations")
        .arg(host.dir.join("revoked.json"))
        .arg(&lease.lease_id);
    let revoked = run_limited(command, COMMAND_LIMIT);
    assert!(revoked.status.success(), "{}", describe(&revoked));
    host.configure("revocations = \"revoked.json\"\n");
    let told = host.run(&manifests[1], &signed);
    assert_eq!(told.reason(), "lease_revoked", "{told:?}");
}

#[test]
fn a_killed_task_of_a_list_is_settled_and_its_use_counts() {
    let host = Host::new();
    let manifests = copies(&host, 2);
    let lease = batch(&host, &manifests);
    let signed = sign(&lease, &host.kernel);
    let mut command = host.command(&manifests[0], &signed);
    command.env("TRUMANFS_FAILPOINT", "after_intent_sync");
    assert!(!run_limited(command, COMMAND_LIMIT).status.success());
    let settled = host.run(&manifests[0], &signed);
    assert_eq!(settled.reason(), "interrupted", "{settled:?}");
    assert_eq!(settled.result.lease_id, lease.lease_id);
    assert!(!fs::exists(host.path("copy0")).unwrap());
    let done = host.run(&manifests[1], &signed);
    assert_eq!(
        (done.code(), &done.result.lease_id),
        ("SUCCESS", &lease.lease_id)
    );
    assert_eq!(host.log()["problems"], json!([]));
}
