//! What bounds an executor: tries of a lease, its clock, and its log, which does not go back.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::host::Host;
use crate::common::{COMMAND_LIMIT, binary, describe, run_limited, skip};

fn log_length(host: &Host) -> u64 {
    fs::metadata(host.dir.join("state/log.jsonl"))
        .unwrap()
        .len()
}

/// Runs a verb of `trumanfs task` with the configuration.
fn task(host: &Host, words: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("task").args(words);
    command.arg("--config").arg(host.config());
    run_limited(command, COMMAND_LIMIT)
}

#[test]
fn capability_of_any_text_is_unsupported() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let long = "X".repeat(1000);
    let texts = [
        "FILE MOVE",
        " FILE_MOVE",
        "FILE_MOVE\0",
        "F\u{cd}LE_MOVE",
        "\u{202e}",
        "\n",
        "",
        &long,
    ];
    for (number, text) in texts.into_iter().enumerate() {
        let id = format!("t{number}");
        let told = host.does(&id, text, &[&a, &b]);
        assert_eq!(told.code(), "UNSUPPORTED_CAPABILITY", "{text:?}: {told:?}");
        assert_eq!(
            (&*told.result.task_id, &*told.result.capability_id),
            (&*id, "")
        );
    }
    // What is no text is no manifest.
    let manifest = json!({"task_id": "n", "capability_id": 1, "inputs": {}, "constraints": {}, "provenance": {}});
    let manifest = manifest.to_string().into_bytes();
    let told = host.run(&manifest, &host.sign(&host.lease("n", &manifest)));
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn tries_of_a_lease_are_counted_and_repeats_append_nothing() {
    let host = Host::new();
    let (absent, to) = (host.path("absent"), host.path("to"));
    for (id, capability, paths, code) in [
        ("m", "FILE_MOVE", &[&*absent, &*to][..], "EXECUTION_FAILED"),
        ("d", "FILE_DELETE", &[&*absent], "EXECUTION_FAILED"),
        ("u", "FILE_TRUNCATE", &[&*absent], "UNSUPPORTED_CAPABILITY"),
        ("o", "FILE_DELETE", &["/etc/passwd"], "EXECUTION_FAILED"),
    ] {
        let manifest = host.manifest(id, capability, paths);
        let mut lease = host.lease(id, &manifest);
        lease.max_uses = 1;
        let signed = host.sign(&lease);
        let first = host.run(&manifest, &signed);
        assert_eq!(first.code(), code, "{first:?}");
        let length = log_length(&host);
        for _ in 0..3 {
            assert_eq!(host.run(&manifest, &signed).text, first.text, "{id}");
        }
        assert_eq!(log_length(&host), length, "{id}");
    }
    // In a stream as well, and after that with another lease it is tried again.
    let manifest = host.manifest("m", "FILE_MOVE", &[&absent, &to]);
    let mut lease = host.lease("m", &manifest);
    lease.max_uses = 2;
    let line = host.line(&manifest, &host.sign(&lease));
    let mut stream = host.stream();
    let answers: Vec<String> = (0..4).map(|_| stream.ask(&line)).collect();
    stream.end();
    assert_ne!(answers[0], answers[1]);
    assert!(
        answers[1..].iter().all(|answer| *answer == answers[1]),
        "{answers:#?}"
    );
    host.write("absent", "x");
    assert_eq!(
        host.run(&manifest, &host.sign(&host.lease("m", &manifest)))
            .code(),
        "SUCCESS"
    );
    assert_eq!(host.log()["problems"], json!([]));
}

#[test]
fn clock_that_was_ahead_is_accepted_lower_by_the_operator() {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has one clock");
    }
    let host = Host::new();
    let a = host.write("a", "x");
    let manifest = host.manifest("t", "FILE_DELETE", &[&a]);
    let lease = host.lease("t", &manifest);
    let signed = host.sign(&lease);
    let ahead = lease.iat + 1_000_000;
    let mut jumped = host.command(&manifest, &signed);
    jumped.env("TRUMANFS_TEST_NOW", ahead.to_string());
    assert_eq!(host.told(jumped.output().unwrap()).code(), "LEASE_EXPIRED");
    let told = host.run(&manifest, &signed);
    assert_eq!(told.code(), "LEASE_EXPIRED", "{told:?}");
    assert!(told.why().contains("trumanfs task clock"), "{told:?}");
    let clock = |words: &[&str]| -> Value {
        let output = task(&host, &[&["clock", "--json"], words].concat());
        assert!(output.status.success(), "{}", describe(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let looked = clock(&[]);
    assert_eq!(
        (&looked["latest"], &looked["accepted"]),
        (&json!(ahead), &json!(false))
    );
    assert_eq!(host.run(&manifest, &signed).code(), "LEASE_EXPIRED");
    assert_eq!(clock(&["--accept-lower"])["accepted"], json!(true));
    // A clock that is right is left alone.
    assert_eq!(clock(&["--accept-lower"])["accepted"], json!(false));
    let told = host.run(&manifest, &signed);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
}

fn copy_tree(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn log_that_was_rolled_back_is_noticed() {
    let host = Host::new();
    let (state, backup) = (host.dir.join("state"), host.dir.join("backup"));
    let (a, b) = (host.write("a", "x"), host.path("b"));
    assert_eq!(host.does("t1", "FILE_MOVE", &[&a, &b]).code(), "SUCCESS");
    let first = host.log()["head"].as_str().unwrap().to_owned();
    copy_tree(&state, &backup);
    let manifest = host.manifest("t2", "FILE_MOVE", &[&b, &a]);
    let lease = host.sign(&host.lease("t2", &manifest));
    assert_eq!(host.run(&manifest, &lease).code(), "SUCCESS");
    let second = host.log()["head"].as_str().unwrap().to_owned();
    let expecting = |head: &str| {
        let mut command = host.command(&manifest, &lease);
        command.args(["--expect-head", head]);
        command.output().unwrap()
    };
    for head in [&first, &second, &"0".repeat(64)] {
        assert_eq!(expecting(head).status.code(), Some(0), "{head}");
        assert_eq!(
            task(&host, &["log", "verify", "--expect-head", head])
                .status
                .code(),
            Some(0)
        );
    }
    assert_eq!(expecting(&"1".repeat(64)).status.code(), Some(6));
    let whole = host.dir.join("whole");
    copy_tree(&state, &whole);
    // The task that was done could be done again.
    copy_tree(&backup, &state);
    fs::rename(&a, &b).unwrap();
    let output = host.command(&manifest, &lease).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
    assert!(output.stdout.is_empty() && describe(&output).contains("rolled back"));
    assert!(fs::exists(&b).unwrap());
    let verified = task(&host, &["log", "verify"]);
    assert_eq!(verified.status.code(), Some(1), "{}", describe(&verified));
    // Another log of the same length is none either.
    copy_tree(&backup, &state);
    let note = fs::read_dir(host.dir.join("vault")).unwrap().next();
    let note = note.unwrap().unwrap().path();
    let noted = fs::read(&note).unwrap();
    fs::remove_file(&note).unwrap();
    assert_eq!(
        expecting(&second).status.code(),
        Some(6),
        "where the note is gone as well"
    );
    // (The same task within the same second would give the same log.)
    let other = host.does("t3", "FILE_MOVE", &[&b, &a]);
    assert_eq!(other.code(), "SUCCESS", "accepted by the operator");
    fs::write(&note, &noted).unwrap();
    let output = host.command(&manifest, &lease).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
    // The whole one counts again.
    copy_tree(&whole, &state);
    assert_eq!(host.run(&manifest, &lease).code(), "SUCCESS");
    assert_eq!(host.log()["problems"], json!([]));
}

/// Executors with logs of their own may share a vault.
#[test]
fn logs_of_executors_with_one_vault_are_their_own() {
    let host = Host::new();
    for (number, state) in ["one", "two", "one", "two"].into_iter().enumerate() {
        host.configure_state(&host.dir.join(state));
        for id in [format!("a{number}"), format!("b{number}")] {
            let file = host.write(&id, "x");
            let told = host.does(&id, "FILE_DELETE", &[&file]);
            assert_eq!(told.code(), "SUCCESS", "{told:?}");
        }
        assert_eq!(host.log()["problems"], json!([]));
    }
    assert_eq!(host.vault(), 8);
}

#[test]
fn log_that_is_replaced_under_a_running_executor_ends_it() {
    let host = Host::new();
    let ask = |id: &str, paths: [&str; 2]| {
        let manifest = host.manifest(id, "FILE_MOVE", &paths);
        host.line(&manifest, &host.sign(&host.lease(id, &manifest)))
    };
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let mut stream = host.stream();
    assert_eq!(
        host.read(&stream.ask(&ask("t1", [&a, &b]))).status(),
        "SUCCESS"
    );
    let log = host.dir.join("state/log.jsonl");
    let text = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    fs::write(&log, text).unwrap();
    assert_eq!(stream.ask(&ask("t2", [&b, &a])), "");
    assert!(fs::exists(&b).unwrap());
    assert_eq!(host.does("t3", "FILE_MOVE", &[&b, &a]).code(), "SUCCESS");
}

/// Starts a task that reads a file without end, and returns it with its worker once that reads.
fn reading(host: &Host) -> (std::process::Child, rustix::process::Pid) {
    let from = host.path("from");
    fs::File::create(&from).unwrap().set_len(1 << 40).unwrap();
    let manifest = host.manifest("t", "FILE_MOVE", &[&from, &host.path("to")]);
    let mut lease = host.lease("t", &manifest);
    lease.quota.file_bytes = 1 << 50;
    lease.quota.cpu_ms = 1000;
    let mut command = host.command(&manifest, &host.sign(&lease));
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let worker = confined_worker(child.id());
    (child, worker)
}

/// Waits until a supervisor has a worker that has confined itself.
fn confined_worker(supervisor: u32) -> rustix::process::Pid {
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    loop {
        let workers = fs::read_to_string(&children).unwrap();
        let worker = workers.split_whitespace().next().filter(|worker| {
            fs::read_to_string(format!("/proc/{worker}/status"))
                .is_ok_and(|status| status.contains("Seccomp:\t2"))
        });
        if let Some(worker) = worker {
            return rustix::process::Pid::from_raw(worker.parse().unwrap()).unwrap();
        }
        std::thread::yield_now();
    }
}

#[test]
fn end_of_a_worker_names_its_limit() {
    use rustix::process::{Pid, Signal, kill_process};
    // The supervisor looks away, so the kernel ends the worker.
    let host = Host::new();
    let (child, worker) = reading(&host);
    let supervisor = Pid::from_child(&child);
    kill_process(supervisor, Signal::STOP).unwrap();
    let status = format!("/proc/{}/status", worker.as_raw_nonzero());
    while !fs::read_to_string(&status).unwrap().contains("State:\tZ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(supervisor, Signal::CONT).unwrap();
    let told = host.told(child.wait_with_output().unwrap());
    assert_eq!(told.code(), "RESOURCE_EXHAUSTED", "{told:?}");
    assert!(told.why().contains("quota.cpu_ms"), "{told:?}");
    // Somebody ends it: that is no limit.
    let host = Host::new();
    let (child, worker) = reading(&host);
    kill_process(worker, Signal::KILL).unwrap();
    let told = host.told(child.wait_with_output().unwrap());
    assert_eq!(told.code(), "RESOURCE_EXHAUSTED", "{told:?}");
    assert!(told.why().contains("no limit of the lease"), "{told:?}");
    assert!(fs::exists(host.path("from")).unwrap());
}
