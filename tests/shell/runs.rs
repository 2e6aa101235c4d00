//! Each request is a run: every record that it causes carries its id, in a mounted home and in an unmounted store; and
//! each request has a line in the audit log, one that was refused too.

use std::fs;
use std::path::Path;

use serde_json::Value;
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{Limits, Outcome, Status, StoreAccess, open};

use crate::common::{Home, need_mount};

fn shell(root: &Path) -> Shell {
    Shell::at(
        open(root, &StoreAccess::default()).unwrap(),
        Limits::default(),
    )
}

/// The lines of a store's audit log.
fn audit(store: &Path) -> Vec<Value> {
    let text = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The records of the store's sessions, but for those that no request causes.
fn records(store: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for session in fs::read_dir(store.join(".trumanfs/sessions")).unwrap() {
        let path = session.unwrap().path().join("journal.jsonl");
        for line in fs::read_to_string(path).unwrap().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let op = record["op"].as_str().unwrap().to_owned();
            if !["begin", "end", "seal"].contains(&op.as_str()) {
                found.push(record);
            }
        }
    }
    found
}

fn id(outcome: &Outcome) -> Value {
    Value::String(outcome.run.to_string())
}

/// Checks that all that concerns `name` in the records is the run's, that there is something, and that the run's own
/// record comes before it.
#[track_caller]
fn belongs(records: &[Value], name: &str, outcome: &Outcome, line: &str) {
    let mut known = false;
    let mut count = 0;
    for record in records {
        if record["op"] == "run" && record["origin"]["run"] == id(outcome) {
            assert_eq!(record["command"], line, "{record}");
            known = true;
        }
        let path = record["path"].as_str().unwrap_or_default();
        if path.trim_start_matches('/').split('/').next() == Some(name) {
            assert_eq!(record["origin"]["run"], id(outcome), "{line}: {record}");
            assert_eq!(record["origin"]["kind"], "shell");
            assert!(known, "{line}: no run before {record}");
            count += 1;
        }
    }
    assert!(count > 0, "{line}: nothing of {name}");
}

#[test]
fn fifty_requests_at_once_each_have_their_own_records() {
    need_mount!();
    let mount = Home::mount();
    let place = open(mount.home(), &StoreAccess::default()).unwrap();
    let line = |n: usize| {
        format!(
            "mkdir d{n}; echo {n} | cat > d{n}/a; cat d{n}/a | tail -1 | cat > d{n}/b; (cp d{n}/a d{n}/c | cat); \
             mv d{n}/c d{n}/d | cat; rm d{n}/a"
        )
    };
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..50)
            .map(|n| {
                let place = place.clone();
                let limits = Limits {
                    // Half of them on a thread of their own.
                    time: (n % 2 == 0).then_some(std::time::Duration::from_secs(60)),
                    ..Limits::default()
                };
                scope.spawn(move || Shell::at(place, limits).run(line(n).as_bytes()))
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let records = records(mount.store());
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(
            outcome.status,
            Status::Success,
            "{:?}",
            outcome.error_message
        );
        assert_eq!(outcome.warnings, Vec::<String>::new());
        assert!(outcome.changed);
        belongs(&records, &format!("d{n}"), outcome, &line(n));
    }
    assert_eq!(audit(mount.store()).len(), 50);
}

#[test]
fn what_one_thread_does_for_two_requests_is_told_apart() {
    need_mount!();
    let mount = Home::mount();
    fs::create_dir_all(mount.path("sub/in")).unwrap();
    let mut shell = shell(&mount.path("sub"));
    let one = shell.run(b"touch one");
    let two = shell.run(b"cd in; touch two");
    fs::write(mount.path("other"), "x").unwrap();
    let records = records(mount.store());
    for (outcome, path, cwd) in [(&one, "/sub/one", "/sub"), (&two, "/sub/in/two", "/sub")] {
        let of = |record: &&Value| record["path"] == path;
        let found: Vec<&Value> = records.iter().filter(of).collect();
        assert!(!found.is_empty(), "{path}");
        assert!(
            found
                .iter()
                .all(|record| record["origin"]["run"] == id(outcome)),
            "{found:?}"
        );
        let run = records
            .iter()
            .find(|record| record["op"] == "run" && record["origin"]["run"] == id(outcome));
        assert_eq!(run.unwrap()["cwd"], cwd);
    }
    let other = records
        .iter()
        .find(|record| record["path"] == "/other")
        .unwrap();
    assert_eq!(other.get("origin"), None, "{other}");
}

#[test]
fn runs_in_an_unmounted_store_are_told_apart() {
    let store = tempfile::tempdir().unwrap();
    let place = open(store.path(), &StoreAccess::default()).unwrap();
    let line = |n: usize| format!("mkdir d{n}; echo {n} | cat > d{n}/a; rm d{n}/a | cat");
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..10)
            .map(|n| {
                let place = place.clone();
                scope.spawn(move || Shell::at(place, Limits::default()).run(line(n).as_bytes()))
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    drop(place);
    let records = records(store.path());
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(
            outcome.status,
            Status::Success,
            "{:?}",
            outcome.error_message
        );
        belongs(&records, &format!("d{n}"), outcome, &line(n));
    }
}

/// Checks what the last line of an audit log says.
#[track_caller]
fn says(store: &Path, outcome: &Outcome, command: &str, status: &str, changed: bool) {
    let lines = audit(store);
    let last = lines.last().unwrap();
    assert_eq!(last["v"], 1);
    assert_eq!(last["run"], id(outcome));
    assert_eq!(last["kind"], "shell");
    assert_eq!(last["command"], command);
    assert_eq!(last["status"], status, "{last}");
    assert_eq!(last["return_code"], outcome.return_code);
    assert_eq!(last["changed"], changed, "{last}");
    assert_eq!(last["pid"], std::process::id());
    assert_eq!(last["uid"], rustix::process::geteuid().as_raw());
    assert!(last["time"].as_str().unwrap().ends_with('Z'));
    for field in ["duration_ms", "cwd", "truncated_stdout", "truncated_stderr"] {
        assert!(last.get(field).is_some(), "{field}");
    }
    assert_eq!(
        last.get("error_message").is_some(),
        outcome.error_message.is_some()
    );
}

#[test]
fn each_request_has_a_line_in_the_audit_log_of_a_store() {
    let store = tempfile::tempdir().unwrap();
    let mut shell = shell(store.path());
    // Reading makes no store of a directory, and neither does what is refused.
    shell.run(b"ls");
    shell.run(b"nothere");
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
    for (line, status, changed) in [
        ("touch a", "success", true),
        ("ls", "success", false),
        ("cat missing", "failed", false),
        ("rm a; sort b", "blocked", false),
        ("for x in 1; do rm a; done", "blocked", false),
        ("X=sort; rm a; $X", "blocked", true),
    ] {
        let outcome = shell.run(line.as_bytes());
        assert_eq!(outcome.warnings, Vec::<String>::new());
        says(store.path(), &outcome, line, status, changed);
    }
    let message = audit(store.path()).last().unwrap()["error_message"].clone();
    assert_eq!(message, "bash: sort: command not found");
    // Nothing of it exists inside.
    assert_eq!(shell.run(b"ls -a .trumanfs").return_code, 2);
}

#[test]
fn each_request_has_a_line_in_the_audit_log_of_a_mounted_home() {
    need_mount!();
    let mount = Home::mount();
    let mut shell = shell(mount.home());
    for (line, status, changed) in [
        ("touch a", "success", true),
        ("ls", "success", false),
        ("sort a", "blocked", false),
        ("nothere", "failed", false),
    ] {
        let outcome = shell.run(line.as_bytes());
        says(mount.store(), &outcome, line, status, changed);
    }
}

#[test]
fn a_long_command_is_cut_in_the_audit_log() {
    let store = tempfile::tempdir().unwrap();
    let mut shell = shell(store.path());
    let line = format!("touch a; echo {}", "x".repeat(100_000));
    shell.run(line.as_bytes());
    let last = audit(store.path()).pop().unwrap();
    assert_eq!(last["command_bytes"], line.len());
    assert_eq!(last["command"].as_str().unwrap().len(), 16 << 10);
    assert_eq!(last["truncated_stdout"], true);
}

/// Where the log cannot be written, the request has been carried out all the same, and an operator is told.
#[test]
fn a_log_that_cannot_be_written_is_a_warning() {
    let store = tempfile::tempdir().unwrap();
    let mut shell = shell(store.path());
    shell.run(b"touch a");
    let log = store.path().join(".trumanfs/audit.jsonl");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let outcome = shell.run(b"rm a");
    assert_eq!(outcome.status, Status::Success);
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert!(outcome.warnings[0].contains("audit.jsonl is no plain file"));
    assert!(!store.path().join("a").exists());
}

#[test]
fn an_outcome_is_printed_as_json() {
    let store = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_trumanfs"));
    command
        .args(["exec", "--json", "--max-lines", "1", "--root"])
        .arg(store.path());
    let output = command
        .args(["--", "echo a; echo b; touch c; cat missing"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["status"], "failed");
    assert_eq!(outcome["return_code"], 1);
    assert_eq!(outcome["stdout"], "a\n... (1 more lines, 2 total)\n");
    assert_eq!(
        outcome["stderr"],
        "cat: missing: No such file or directory\n"
    );
    assert_eq!(outcome["truncated_stdout"], true);
    assert_eq!(outcome["truncated_stderr"], false);
    assert_eq!(outcome["changed"], true);
    assert_eq!(outcome["cwd"], store.path().to_str().unwrap());
    assert!(outcome["duration_ms"].is_u64());
    assert_eq!(audit(store.path())[0]["run"], outcome["run"]);
}
