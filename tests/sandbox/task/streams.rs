//! What a stream does besides carrying out manifests: it takes tasks back.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::host::{Host, Stream};
use super::schemas::Schema;

const LIMIT: Duration = Duration::from_secs(20);

/// Asks for a result and returns its payload.
fn ask(host: &Host, stream: &mut Stream, line: &str) -> Value {
    let answer = stream.ask(line);
    serde_json::from_slice(&host.read(&answer).to_payload().unwrap()).unwrap()
}

/// Has a task done in a stream. Returns the line that answered it.
fn done(host: &Host, stream: &mut Stream, id: &str, capability: &str, paths: &[&str]) -> String {
    let manifest = host.manifest(id, capability, paths);
    let lease = host.sign(&host.lease(id, &manifest));
    let answer = stream.ask(&host.line(&manifest, &lease));
    assert_eq!(host.read(&answer).status(), "SUCCESS", "{answer}");
    answer
}

#[test]
fn a_stream_takes_back_what_it_has_done() {
    let host = Host::new();
    let (a, b, c) = (host.write("a", "x"), host.path("b"), host.path("c"));
    let mut stream = host.stream();
    let moved = done(&host, &mut stream, "move", "FILE_MOVE", &[&a, &b]);
    let copied = done(&host, &mut stream, "copy", "FILE_COPY", &[&b, &c]);
    let removed = done(&host, &mut stream, "remove", "FILE_DELETE", &[&b]);
    // With and without its end, the line is what its lease is for.
    for (number, result) in [&removed, copied.trim_end(), &moved]
        .into_iter()
        .enumerate()
    {
        let line = host.undo_line(&format!("u{number}"), result);
        let undone = ask(&host, &mut stream, &line);
        assert_eq!(undone["status"], "SUCCESS", "{undone}");
        // A repeat is the stored answer, and touches nothing.
        assert_eq!(ask(&host, &mut stream, &line), undone);
    }
    assert_eq!(fs::read(&a).unwrap(), b"x");
    assert!(!fs::exists(&b).unwrap() && !fs::exists(&c).unwrap());
    stream.end();
    let log = host.log();
    assert_eq!(
        (&log["problems"], &log["successes"]),
        (&json!([]), &json!(6))
    );
}

#[test]
fn worker_that_is_killed_before_its_task_is_replaced() {
    let host = Host::new();
    let (a, b, c) = (host.write("a", "x"), host.path("b"), host.path("c"));
    let mut stream = host.stream();
    done(&host, &mut stream, "t1", "FILE_MOVE", &[&a, &b]);
    let ready = stream.worker();
    rustix::process::kill_process(ready, rustix::process::Signal::KILL).unwrap();
    let end = Instant::now() + LIMIT;
    // One that still lives may get its order.
    let stat = format!("/proc/{}/stat", ready.as_raw_nonzero());
    while !fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")) {
        assert!(Instant::now() < end, "the worker lives on");
        std::thread::yield_now();
    }
    done(&host, &mut stream, "t2", "FILE_MOVE", &[&b, &c]);
    // It ends with its executor.
    let ready = stream.worker();
    drop(stream);
    let end = Instant::now() + LIMIT;
    while rustix::process::test_kill_process(ready).is_ok() {
        assert!(Instant::now() < end, "the worker goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_undo_in_a_stream_leaves_what_others_changed() {
    let host = Host::new();
    let (a, b, c) = (host.write("a", "x"), host.path("b"), host.path("c"));
    let mut stream = host.stream();
    let copied = done(&host, &mut stream, "copy", "FILE_COPY", &[&a, &c]);
    let moved = done(&host, &mut stream, "move", "FILE_MOVE", &[&a, &b]);
    fs::write(&c, "edited").unwrap();
    let told = ask(&host, &mut stream, &host.undo_line("u1", &copied));
    assert_eq!(told["error"]["reason"], "changed", "{told}");
    host.write("a", "new");
    let told = ask(&host, &mut stream, &host.undo_line("u2", &moved));
    assert_eq!(told["error"]["reason"], "exists", "{told}");
    fs::remove_file(&b).unwrap();
    let told = ask(&host, &mut stream, &host.undo_line("u3", &moved));
    assert_eq!(told["error"]["reason"], "missing", "{told}");
    assert_eq!(fs::read(&c).unwrap(), b"edited");
    assert_eq!(fs::read(&a).unwrap(), b"new");
    stream.end();
}

#[test]
fn a_stream_waits_for_another_executor_and_says_so() {
    let host = Host::new();
    let (a, b) = (host.write("a", "x"), host.path("b"));
    host.does("t0", "FILE_COPY", &[&a, &host.path("c")]);
    let take = || {
        let lock = fs::File::open(host.dir.join("state/lock")).unwrap();
        lock.lock().unwrap();
        lock
    };
    let schema = Schema::read("stream-answer.json");
    let is_wait = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(schema.allows(&line), "{line}");
        line["waiting"]["for"] == "log" && line["waiting"]["pid"] == std::process::id()
    };
    // From its start on.
    let lock = take();
    let mut stream = host.stream();
    assert!(is_wait(&stream.read()));
    drop(lock);
    let moved = done(&host, &mut stream, "t1", "FILE_MOVE", &[&a, &b]);
    // In the middle; and a lease that expires meanwhile counts no more.
    let manifest = host.manifest("t2", "FILE_MOVE", &[&b, &a]);
    let mut lease = host.lease("t2", &manifest);
    lease.exp = lease.iat + 1;
    let lock = take();
    assert!(is_wait(
        &stream.ask(&host.line(&manifest, &host.sign(&lease)))
    ));
    while trumanfs::exec::task::clock::now() < lease.exp {
        std::thread::yield_now();
    }
    drop(lock);
    let answer = host.read(&stream.read());
    assert_eq!(answer.status(), "FAILURE");
    let payload = String::from_utf8(answer.to_payload().unwrap()).unwrap();
    assert!(payload.contains("lease_expired"), "{payload}");
    let undone = ask(&host, &mut stream, &host.undo_line("u", &moved));
    assert_eq!(undone["status"], "SUCCESS", "{undone}");
    stream.end();
}

#[test]
fn nobody_takes_a_task_back_without_a_lease_for_that() {
    let (host, other) = (Host::new(), Host::new());
    let (a, b) = (host.write("a", "x"), host.path("b"));
    let mut stream = host.stream();
    let manifest = host.manifest("move", "FILE_MOVE", &[&a, &b]);
    let lease = host.sign(&host.lease("move", &manifest));
    let moved = stream.ask(&host.line(&manifest, &lease));
    let own: Value = serde_json::from_slice(&lease).unwrap();
    let foreign: Value = serde_json::from_str(&other.undo_line("u", &moved)).unwrap();
    let theirs = other.does(
        "o",
        "FILE_COPY",
        &[&other.write("a", "x"), &other.path("b")],
    );
    let undone = |result: &str| host.undo_line("u", result);
    for (line, reason) in [
        (json!({"undo": moved}).to_string(), "lease_malformed"),
        (
            json!({"undo": moved, "lease": own}).to_string(),
            "lease_mismatch",
        ),
        (foreign.to_string(), "lease_untrusted"),
        (undone(&theirs.text), "malformed"),
        (undone(&moved.replace("result.v1", "lease.v1")), "malformed"),
        (undone("{}"), "malformed"),
        (undone(""), "malformed"),
        (
            json!({"undo": moved, "manifest": "{}", "lease": own}).to_string(),
            "malformed",
        ),
        (json!({"undo": null, "lease": own}).to_string(), "malformed"),
        (json!({"lease": own}).to_string(), "malformed"),
    ] {
        let told = ask(&host, &mut stream, &line);
        assert_eq!(told["error"]["reason"], reason, "{line}: {told}");
    }
    // Neither is a lease to undo one for doing it again, nor for another result.
    let line: Value = serde_json::from_str(&undone(&moved)).unwrap();
    let manifest = String::from_utf8(manifest).unwrap();
    let told = json!({"manifest": manifest, "lease": line["lease"]}).to_string();
    assert_eq!(
        ask(&host, &mut stream, &told)["error"]["reason"],
        "lease_mismatch"
    );
    assert_eq!(fs::read(&b).unwrap(), b"x");
    assert!(!fs::exists(&a).unwrap());
    stream.end();
}
