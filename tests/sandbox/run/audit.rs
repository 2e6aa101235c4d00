//! The audit log: a line for each request, whatever became of it.

use std::fs;

use super::{Place, Store, audit, parsed};
use crate::common::{need_mount, trumanfs};

#[test]
fn a_short_output_is_in_the_line() {
    need_mount!();
    let place = Place::mounted();
    place.run(&[], &["sh", "-c", "echo out; echo err >&2"]);
    place.run(
        &["--json"],
        &["sh", "-c", "head -c 1000 /dev/zero | tr '\\0' x"],
    );
    place.run(&[], &["sh", "-c", "head -c 1024 /dev/zero | tr '\\0' x"]);
    place.run(&[], &["sh", "-c", "echo out; exit 1"]);
    place.run(
        &[],
        &["sh", "-c", "head -c 499 /dev/zero | tr '\\0' x; echo äö"],
    );
    place.run(&["--max-bytes", "3"], &["sh", "-c", "echo out and out"]);
    let lines = audit(place.home.store());
    assert_eq!(lines[0]["stdout_preview"], "out\n");
    assert_eq!(lines[1]["stdout_preview"].as_str().unwrap().len(), 500);
    assert_eq!(lines[1]["stdout_bytes"], 1000);
    assert_eq!(lines[2].get("stdout_preview"), None, "{}", lines[2]);
    assert_eq!(lines[2]["stdout_bytes"], 1024);
    assert_eq!(
        lines[3].get("stdout_preview"),
        None,
        "no success: {}",
        lines[3]
    );
    // Cut between characters.
    assert_eq!(lines[4]["stdout_preview"].as_str().unwrap().len(), 499);
    assert_eq!(
        lines[5]["stdout_preview"], "out and out\n",
        "cut or not: {}",
        lines[5]
    );
    assert_eq!(lines[0]["stderr_bytes"], 4);
}

#[test]
fn a_refusal_is_an_event_and_mounts_nothing() {
    need_mount!();
    let store = Store::new();
    // A directory that never was a store does not become one by what is refused in it.
    let outcome = parsed(&store.run(&["--json"], &["rm", "-r", "x"]));
    assert_eq!(outcome["status"], "blocked");
    assert_eq!(outcome["verdict"], "deny");
    assert_eq!(fs::read_dir(&store.store).unwrap().count(), 0);
    store.run(&[], &["sh", "-c", "echo x >file"]);
    store.is_left_alone();
    let outcome = parsed(&store.run(&["--json", "--cwd", "a/./b"], &["rm", "-r", "x"]));
    let lines = audit(&store.store);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["event"], "command_blocked");
    assert_eq!(lines[1]["severity"], "HIGH");
    assert_eq!(lines[1]["command"], "rm -r x");
    assert_eq!(lines[1]["run"], outcome["run"]);
    assert_eq!(lines[1]["verdict"], "deny");
    let cwd = format!("{}/a/b", store.store.display());
    assert_eq!(lines[1]["cwd"], cwd);
    assert_eq!(store.sessions(), 1);
    store.run(&[], &["git", "push"]);
    store.run(&["--cwd", "/etc"], &["true"]);
    assert_eq!(store.sessions(), 1, "nothing was mounted");
    assert_eq!(audit(&store.store).len(), 4);
}

#[test]
fn what_was_bound_is_in_the_line() {
    need_mount!();
    let place = Place::mounted();
    let tools = place.home.base().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("file"), "seen\n").unwrap();
    let path = tools.to_str().unwrap();
    let outcome = place.json(
        &[
            "--bind-ro",
            path,
            "--max-memory",
            "500",
            "--max-files",
            "64",
        ],
        &[
            "sh",
            "-c",
            &format!("cat {path}/file; echo x >{path}/file; ulimit -n"),
        ],
    );
    assert_eq!(outcome["stdout"], "seen\n64\n", "{outcome}");
    let bound = outcome["bound"].as_array().unwrap();
    assert!(bound.iter().any(|one| one == path), "{outcome}");
    let lines = audit(place.home.store());
    assert_eq!(lines[0]["bound"], outcome["bound"]);
}

#[test]
fn a_log_that_cannot_be_written_is_a_warning() {
    need_mount!();
    let place = Place::mounted();
    let log = place.home.store().join(".trumanfs/audit.jsonl");
    fs::create_dir(&log).unwrap();
    let outcome = place.json(&[], &["sh", "-c", "echo x >file"]);
    assert_eq!(outcome["status"], "success");
    assert!(
        outcome["warnings"][0]
            .as_str()
            .unwrap()
            .contains("audit log"),
        "{outcome}"
    );
    let said = trumanfs(&["status", place.home.store().to_str().unwrap()]);
    assert!(said.status.success());
}

#[test]
fn a_limit_that_was_met_is_named() {
    need_mount!();
    let place = Place::mounted();
    for (options, script, limit) in [
        (
            &["--max-memory", "60"][..],
            "exec tail -n 1 /dev/zero",
            "memory",
        ),
        (&["--max-cpu", "1"], "while :; do :; done", "cpu"),
        (
            &["--max-processes", "12"],
            "for n in $(seq 30); do sleep 20 & done; wait",
            "processes",
        ),
        (
            &["--max-file-size", "1"],
            "exec head -c 2000000 /dev/zero >big",
            "file_size",
        ),
    ] {
        let outcome = place.json(
            &[options, &["--timeout", "20"]].concat(),
            &["sh", "-c", script],
        );
        let limits = outcome["limits"].as_array().unwrap();
        assert!(
            limits
                .iter()
                .any(|one| one.as_str().unwrap().starts_with(limit)),
            "{outcome}"
        );
        // An rlimit of processes makes fork(2) fail, and nobody hears of that but the program.
        if !limits.contains(&"processes by rlimit".into()) {
            assert_eq!(outcome["limit"], limit, "{outcome}");
        }
        assert_ne!(outcome["status"], "success", "{outcome}");
        let lines = audit(place.home.store());
        let line = lines.last().unwrap();
        assert_eq!(
            (&line["limit"], &line["limits"]),
            (&outcome["limit"], &outcome["limits"])
        );
    }
    let outcome = place.json(&["--max-files", "64"], &["sh", "-c", "ulimit -n"]);
    assert_eq!(outcome["stdout"], "64\n");
    assert_eq!(outcome["limits"][0], "open_files by rlimit", "{outcome}");
    assert_eq!(outcome.get("limit"), None);
}
