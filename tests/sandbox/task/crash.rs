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
fn two_that_race_settle_what_a_third_left() {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    for step in ["after_intent_sync", "after_act", "before_result_sync"] {
        let host = Host::new();
        let (from, to) = (host.write("a", "x"), host.path("b"));
        let manifest = host.manifest("t", "FILE_MOVE", &[&from, &to]);
        let lease = host.sign(&host.lease("t", &manifest));
        assert!(killed_at(step, host.command(&manifest, &lease)), "{step}");
        let mut command = host.command(&manifest, &lease);
        command.stdout(Stdio::piped());
        let racing: Vec<_> = (0..3).map(|_| command.spawn().unwrap()).collect();
        let told = racing
            .into_iter()
            .map(|child| host.told(child.wait_with_output().unwrap()));
        let told: Vec<_> = told.collect();
        assert!(
            told.iter().all(|one| one.text == told[0].text),
            "{step}: {told:?}"
        );
        assert_eq!(told[0].code(), "SUCCESS", "{step}: {told:?}");
        assert_eq!(fs::read(&to).unwrap(), b"x");
        assert_eq!(host.log()["problems"], json!([]), "{step}");
    }
}

/// After the intent somebody else takes the destination, in ways that look like what the task would have made.
#[test]
fn what_somebody_else_put_at_the_destination_is_not_ours() {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    type Take = fn(&Path, &Path);
    let takes: [(&str, Take); 4] = [
        ("a link to the source", |from, to| {
            fs::hard_link(from, to).unwrap()
        }),
        ("the same content", |from, to| {
            fs::copy(from, to).unwrap();
        }),
        ("a file of no end", |_, to| {
            // As long as this file system takes; nobody is to read it.
            let file = fs::File::create(to).unwrap();
            file.set_len(15 << 40)
                .or_else(|_| file.set_len(1 << 40))
                .unwrap();
        }),
        ("a file that nobody may read", |_, to| {
            fs::write(to, "x").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
            fs::set_permissions(to, mode).unwrap();
        }),
    ];
    for capability in ["FILE_MOVE", "FILE_COPY"] {
        for (what, take) in takes {
            let host = Host::new();
            let (from, to) = (host.write("a", "content"), host.path("b"));
            let manifest = host.manifest("t", capability, &[&from, &to]);
            let lease = host.sign(&host.lease("t", &manifest));
            let command = host.command(&manifest, &lease);
            assert!(killed_at("after_intent_sync", command), "{what}");
            take(Path::new(&from), Path::new(&to));
            let told = host.run(&manifest, &lease);
            assert_eq!(
                told.code(),
                "EXECUTION_FAILED",
                "{capability} {what}: {told:?}"
            );
            assert_eq!(fs::read(&from).unwrap(), b"content", "{capability} {what}");
            assert_eq!(host.vault(), 0, "{capability} {what}");
            let log = host.log();
            assert_eq!(log["problems"], json!([]), "{what}: {log}");
            // The executor goes on.
            fs::remove_file(&to).unwrap();
            assert_eq!(host.run(&manifest, &lease).code(), "SUCCESS", "{what}");
        }
    }
}

#[test]
fn what_was_moved_on_before_it_was_settled_is_not_said_to_be_undone() {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    let host = Host::new();
    let (from, to) = (host.write("from", "x"), host.path("to"));
    let manifest = host.manifest("t", "FILE_MOVE", &[&from, &to]);
    let lease = host.sign(&host.lease("t", &manifest));
    assert!(killed_at("after_act", host.command(&manifest, &lease)));
    fs::rename(&to, host.path("elsewhere")).unwrap();
    let other = host.write("other", "y");
    assert_eq!(host.does("u", "FILE_DELETE", &[&other]).code(), "SUCCESS");
    let log = fs::read_to_string(host.dir.join("state/log.jsonl")).unwrap();
    let settled = log.lines().find(|line| line.contains("RESULT")).unwrap();
    let settled: serde_json::Value = serde_json::from_str(settled).unwrap();
    let payload = host.read(settled["result"].as_str().unwrap());
    let payload = String::from_utf8(payload.to_payload().unwrap()).unwrap();
    assert!(payload.contains("cannot be told"), "{payload}");
    assert_eq!(host.log()["problems"], json!([]));
}

/// Kills an executor in the middle of a task, has somebody else take away what it made or kept, and returns what the next one signs.
#[track_caller]
fn settled_after(host: &Host, step: &str, command: Command, then: impl FnOnce()) -> String {
    let results = |host: &Host| -> Vec<String> {
        let log = fs::read_to_string(host.dir.join("state/log.jsonl")).unwrap();
        log.lines()
            .filter(|line| line.contains("RESULT"))
            .map(str::to_owned)
            .collect()
    };
    let before = fs::metadata(host.dir.join("state/log.jsonl")).map_or(0, |_| results(host).len());
    assert!(killed_at(step, command), "{step}: not reached");
    then();
    let other = host.write("other", "y");
    let id = format!("last{before}");
    assert_eq!(host.does(&id, "FILE_DELETE", &[&other]).code(), "SUCCESS");
    let settled: serde_json::Value = serde_json::from_str(&results(host)[before]).unwrap();
    let payload = host.read(settled["result"].as_str().unwrap());
    assert_eq!(host.log()["problems"], json!([]));
    String::from_utf8(payload.to_payload().unwrap()).unwrap()
}

#[test]
fn nothing_is_said_to_be_left_where_the_disk_does_not_show_it() {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    // A copy that somebody has moved on.
    let host = Host::new();
    let (from, to) = (host.write("from", "x"), host.path("to"));
    let manifest = host.manifest("t", "FILE_COPY", &[&from, &to]);
    let lease = host.sign(&host.lease("t", &manifest));
    let said = settled_after(&host, "after_act", host.command(&manifest, &lease), || {
        fs::rename(&to, host.path("on")).unwrap();
    });
    assert!(said.contains("cannot be told"), "{said}");
    // A removed file whose place in the vault is empty.
    let manifest = host.manifest("d", "FILE_DELETE", &[&from]);
    let lease = host.sign(&host.lease("d", &manifest));
    let said = settled_after(
        &host,
        "after_backup",
        host.command(&manifest, &lease),
        || {
            for entry in fs::read_dir(host.dir.join("vault")).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => fs::remove_dir_all(path).unwrap(),
                    false => fs::remove_file(path).unwrap(),
                }
            }
        },
    );
    assert!(said.contains("cannot be told"), "{said}");
    // What is still where it was shows that nothing was done.
    let from = host.write("again", "x");
    let manifest = host.manifest("e", "FILE_DELETE", &[&from]);
    let lease = host.sign(&host.lease("e", &manifest));
    let command = host.command(&manifest, &lease);
    let said = settled_after(&host, "after_intent_sync", command, || {});
    assert!(said.contains("nothing of it is left"), "{said}");
}

#[test]
fn a_copy_that_somebody_took_away_before_it_was_settled_stops_nobody() {
    need_mount!();
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    let home = Home::mount();
    for capability in ["FILE_COPY", "FILE_MOVE"] {
        let host = Host::with_bases(&[home.home()]);
        let (from, to) = (host.write("from", "x"), host.path("to"));
        let manifest = host.manifest("t", capability, &[&from, &to]);
        let lease = host.sign(&host.lease("t", &manifest));
        assert!(killed_at("after_act", host.command(&manifest, &lease)));
        fs::remove_file(&to).unwrap();
        let other = host.write("other", "y");
        let told = host.does("u", "FILE_DELETE", &[&other]);
        assert_eq!(told.code(), "SUCCESS", "{told:?}");
        assert_eq!(host.log()["problems"], json!([]));
    }
}

#[test]
fn nothing_is_settled_in_another_directory() {
    if !cfg!(debug_assertions) {
        skip!("failpoints", "this build has no places to be killed at");
    }
    let host = Host::new();
    let (from, to) = (host.write("a", "x"), host.path("b"));
    let manifest = host.manifest("t", "FILE_MOVE", &[&from, &to]);
    let lease = host.sign(&host.lease("t", &manifest));
    // A first start remembers what the base is.
    assert_eq!(
        host.does("u", "FILE_DELETE", &[&to]).code(),
        "EXECUTION_FAILED"
    );
    assert!(killed_at("after_act", host.command(&manifest, &lease)));
    let away = host.dir.join("away");
    fs::rename(&host.base, &away).unwrap();
    fs::create_dir(&host.base).unwrap();
    let output = host.command(&manifest, &lease).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(6),
        "{}",
        crate::common::describe(&output)
    );
    assert!(output.stdout.is_empty());
    fs::remove_dir(&host.base).unwrap();
    fs::rename(&away, &host.base).unwrap();
    let told = host.run(&manifest, &lease);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
    assert_eq!(host.log()["intents"], 1);
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
