//! An executor that is killed at each step: the next one settles what was under way, once, whatever comes first.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::host::{Host, Told};
use crate::common::{COMMAND_LIMIT, Home, need_mount, run_limited, skip};

/// Where the executor is killed. Builds without `debug_assertions` have no such places.
const STEPS: [&str; 8] = [
    "before_intent",
    "after_intent",
    "after_intent_sync",
    "mid_data",
    "after_backup",
    "after_act",
    "before_result_sync",
    "after_result",
];

/// A task: its capability, and whether it has a destination.
const TASKS: [&str; 3] = ["FILE_MOVE", "FILE_COPY", "FILE_DELETE"];

/// Kills an executor at a step. Returns whether the step was reached.
fn killed_at(step: &str, mut command: Command) -> bool {
    command
        .env("TRUMANFS_FAILPOINT", step)
        .stderr(Stdio::null());
    let output = run_limited(command, COMMAND_LIMIT);
    // By SIGKILL; a step that this task does not reach lets it end.
    output.status.code().is_none()
}

/// What must hold whatever happened: the file is in one place and whole, or copied whole.
fn check(host: &Host, capability: &str, from: &Path, to: &Path, kept: usize, told: &Told) {
    let read = |path: &Path| fs::read(path).ok();
    let whole = Some(b"content".to_vec());
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
    match capability {
        "FILE_MOVE" => assert_eq!((read(from), read(to)), (None, whole)),
        "FILE_COPY" => assert_eq!((read(from), read(to)), (whole.clone(), whole)),
        _ => assert_eq!((read(from), kept), (None, 1)),
    }
    let log = host.log();
    assert_eq!(log["problems"], json!([]), "{log}");
    assert_eq!(log["successes"], 1, "{log}");
    assert_eq!(log["open"], json!(null), "{log}");
}

/// Kills an executor at each step of each task, lets the next one settle it and do the task again.
fn at_each_step(base: &Path, other: &Path, kept: &dyn Fn(&Host) -> usize) {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    let mut reached = 0;
    for capability in TASKS {
        for step in STEPS {
            let host = Host::with_bases(&[base, other]);
            let before = kept(&host);
            let (from, to) = (host.base.join("from"), other.join("to"));
            let _ = (fs::remove_file(&from), fs::remove_file(&to));
            let before = before.max(kept(&host));
            fs::write(&from, "content").unwrap();
            let (source, destination) = (from.to_str().unwrap(), to.to_str().unwrap());
            let paths: &[&str] = match capability {
                "FILE_DELETE" => &[source],
                _ => &[source, destination],
            };
            let manifest = host.manifest("t", capability, paths);
            let lease = host.sign(&host.lease("t", &manifest));
            reached += usize::from(killed_at(step, host.command(&manifest, &lease)));
            // Each moment shows a whole file or none.
            for path in [&from, &to] {
                let there = fs::read(path).ok();
                assert!(there.is_none_or(|content| content == b"content"), "{step}");
            }
            let again = host.run(&manifest, &lease);
            let kept = kept(&host) - before;
            let moved_away = usize::from(capability == "FILE_MOVE" && kept == 1);
            check(&host, capability, &from, &to, kept.max(moved_away), &again);
            assert_eq!(
                host.run(&manifest, &lease).text,
                again.text,
                "{capability} {step}"
            );
        }
    }
    assert!(reached >= 18, "only {reached} steps were reached");
}

#[test]
fn on_a_plain_base_each_task_happens_once() {
    let base = tempfile::tempdir().unwrap();
    let (one, two) = (base.path().join("one"), base.path().join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    at_each_step(&one, &two, &Host::vault);
}

#[test]
fn in_a_home_each_task_happens_once() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir(home.path("one")).unwrap();
    fs::create_dir(home.path("two")).unwrap();
    at_each_step(&home.path("one"), &home.path("two"), &|_| {
        home.trash().len()
    });
}

#[test]
fn across_file_systems_each_task_happens_once() {
    need_mount!();
    let home = Home::mount();
    let plain = tempfile::tempdir().unwrap();
    at_each_step(home.home(), plain.path(), &|_| home.trash().len());
}

#[test]
fn two_that_race_do_a_task_once() {
    let host = Host::new();
    for round in 0..5 {
        let (from, to) = (host.write("a", "x"), host.path(&format!("b{round}")));
        let id = format!("t{round}");
        let manifest = host.manifest(&id, "FILE_MOVE", &[&from, &to]);
        let lease = host.sign(&host.lease(&id, &manifest));
        let mut command = host.command(&manifest, &lease);
        command.stdout(Stdio::piped());
        let racing: Vec<_> = (0..4).map(|_| command.spawn().unwrap()).collect();
        let told: Vec<_> = racing
            .into_iter()
            .map(|child| host.told(child.wait_with_output().unwrap()))
            .collect();
        assert!(told.iter().all(|told| told.code() == "SUCCESS"), "{told:?}");
        assert!(told.iter().all(|one| one.text == told[0].text), "{told:?}");
    }
    let log = host.log();
    assert_eq!(
        (&log["problems"], &log["intents"]),
        (&json!([]), &json!(5)),
        "{log}"
    );
}

#[test]
fn a_line_that_was_cut_off_was_not_acted_upon() {
    let host = Host::new();
    let (from, to) = (host.write("a", "x"), host.path("b"));
    assert_eq!(
        host.does("t1", "FILE_MOVE", &[&from, &to]).code(),
        "SUCCESS"
    );
    let log = host.dir.join("state/log.jsonl");
    let whole = fs::read(&log).unwrap();
    let cut = [&whole[..], br#"{"kind":"INTENT","task_id":"t2","lea"#].concat();
    fs::write(&log, cut).unwrap();
    assert_eq!(
        host.does("t3", "FILE_MOVE", &[&to, &from]).code(),
        "SUCCESS"
    );
    let report = host.log();
    assert_eq!(
        (&report["problems"], &report["successes"]),
        (&json!([]), &json!(2))
    );
}
