//! `expire`: the oldest part of the history goes, by rules of what is kept. Every point that is kept can be seen and
//! restored as before; what has expired is named so, and the chain of journals can be checked over the cut.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::random::Random;
use crate::common::{Home, describe, need_mount, trumanfs};

#[track_caller]
fn run(verb: &str, target: &Path, more: &[&str], code: i32) -> Output {
    let target = target.to_str().unwrap();
    let output = trumanfs(&[&[verb, target], more].concat());
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    output
}

#[track_caller]
fn expire(target: &Path, more: &[&str], code: i32) -> Value {
    let output = run("expire", target, &[more, &["--json"]].concat(), code);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn agrees(store: &Path) -> String {
    let output = run("fsck", store, &[], 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("everything agrees"), "{text}");
    text
}

fn sessions(store: &Path) -> usize {
    fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .count()
}

fn checkpoint(home: &Home, name: &str) {
    let target = home.home().to_str().unwrap();
    let output = trumanfs(&["checkpoint", "create", target, name]);
    assert!(output.status.success(), "{}", describe(&output));
}

/// Returns the texts of all files of a store at a point.
#[track_caller]
fn at(store: &Path, point: &str, files: &[&str]) -> BTreeMap<String, Option<String>> {
    let read = |file: &&str| {
        let output = trumanfs(&["cat", store.to_str().unwrap(), file, "--at", point]);
        let text = String::from_utf8(output.stdout).unwrap();
        let is_there = match output.status.code() {
            Some(0) => true,
            Some(3) => false,
            _ => panic!(
                "{file} at {point}: {}",
                String::from_utf8_lossy(&output.stderr)
            ),
        };
        ((*file).to_owned(), is_there.then_some(text))
    };
    files.iter().map(read).collect()
}

/// Three sessions, each with a checkpoint in its middle.
fn three_sessions() -> Home {
    let mut home = Home::mount();
    for n in 1..=3 {
        home.sh(&format!(
            "echo a{n} >a; echo b{n} >b; rm b; mkdir -p d; echo {n} >d/f{n}"
        ));
        checkpoint(&home, &format!("c{n}"));
        home.sh(&format!("echo later{n} >a; rm d/f{n}; echo {n} >g{n}"));
        if n < 3 {
            home.remount();
        }
    }
    home
}

const FILES: [&str; 6] = ["a", "b", "d/f1", "d/f2", "d/f3", "g2"];

#[test]
fn what_is_kept_stays_whole() {
    need_mount!();
    for mounted in [true, false] {
        let mut home = three_sessions();
        let store = home.store().to_owned();
        if !mounted {
            home.umount();
        }
        // All three are kept: what came before the first one goes.
        let target = if mounted { home.home() } else { &store };
        let plan = expire(target, &["--keep-checkpoints", "--dry-run"], 0);
        assert_eq!(plan["because"], "--keep-checkpoints", "{plan}");
        assert_eq!(plan["sessions"].as_array().unwrap().len(), 0, "{plan}");
        assert_eq!(plan["entries"].as_array().unwrap().len(), 1, "{plan}");
        let before: Vec<_> = ["c1", "c2", "c3"]
            .map(|point| at(&store, point, &FILES))
            .into();
        let done = expire(target, &["--keep-checkpoints"], 0);
        assert_eq!(done["done"]["purged"], 1, "{done}");
        let after: Vec<_> = ["c1", "c2", "c3"]
            .map(|point| at(&store, point, &FILES))
            .into();
        assert_eq!(before, after);
        // Now only what the last run of each session did.
        let kept = at(&store, "c3", &FILES);
        let done = expire(target, &["--keep-last", "1"], 0);
        assert_eq!(done["done"]["left"], Value::Null, "{done}");
        let text = agrees(&store);
        assert_eq!(at(&store, "c3", &FILES), kept, "{text}");
        // The one before the present session is named by it, and stays.
        let rest = sessions(&store);
        assert!(rest <= 3, "{rest} sessions");
        let output = run("diff", target, &["c2..now"], 3);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            error.contains("neither a session") || error.contains("has expired"),
            "{error}"
        );
        let output = run("undo", target, &["--to", "c3"], 0);
        assert!(String::from_utf8_lossy(&output.stdout).contains("undone"));
        assert_eq!(fs::read_to_string(store.join("a")).unwrap(), "a3\n");
        assert_eq!(fs::read_to_string(store.join("d/f3")).unwrap(), "3\n");
        home.umount();
        agrees(&store);
    }
}

#[test]
fn chain_is_checked_over_the_cut() {
    need_mount!();
    let mut home = Home::mount();
    for n in 0..4 {
        home.sh(&format!("echo {n} >f"));
        home.remount();
    }
    home.umount();
    let store = home.store().to_owned();
    let before = sessions(&store);
    let done = expire(&store, &["--keep-last", "1"], 0);
    assert!(sessions(&store) < before, "{done}");
    agrees(&store);
    assert_eq!(fs::read_to_string(store.join("f")).unwrap(), "3\n");
    let gone = done["done"]["sessions"][0].as_str().unwrap();
    let output = run(
        "session",
        Path::new("show"),
        &[store.to_str().unwrap(), gone],
        3,
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("has expired"), "{error}");
    // A record that names another end does not agree with what follows.
    let journals = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    for journal in journals {
        let path = journal.unwrap().path().join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let changed = text.replace("\"expired\":", "\"other\":");
        fs::write(&path, changed).unwrap();
    }
    let output = trumanfs(&["fsck", store.to_str().unwrap()]);
    assert!(!output.status.success(), "{}", describe(&output));
}

#[test]
fn ages_days_and_sizes() {
    need_mount!();
    let mut home = three_sessions();
    home.umount();
    let store = home.store().to_owned();
    // All of it is of today.
    for rule in [["--keep-within", "1h"], ["--keep-last", "100"]] {
        let plan = expire(&store, &[rule[0], rule[1]], 1);
        assert_eq!(plan["before"], Value::Null, "{plan}");
    }
    let plan = expire(&store, &["--keep-daily", "1", "--dry-run"], 0);
    assert_eq!(plan["because"], "--keep-daily");
    // The oldest rule counts.
    let plan = expire(
        &store,
        &["--keep-daily", "1", "--keep-within", "1h", "--dry-run"],
        1,
    );
    assert_eq!(plan["before"], Value::Null, "{plan}");
    // But a size goes before all of them except for checkpoints.
    let plan = expire(
        &store,
        &["--keep-within", "1h", "--max-size", "1", "--dry-run"],
        0,
    );
    assert_eq!(plan["because"], "--max-size");
    let all = plan["entries"].as_array().unwrap().len();
    let firm = ["--keep-checkpoints", "--max-size", "1", "--dry-run"];
    let plan = expire(&store, &firm, 0);
    assert_eq!(plan["because"], "--keep-checkpoints", "{plan}");
    assert!(plan["entries"].as_array().unwrap().len() < all, "{plan}");
    let plan = expire(&store, &["--max-size", "1G", "--dry-run"], 1);
    assert_eq!(plan["before"], Value::Null, "{plan}");
    expire(&store, &["--max-size", "1"], 0);
    agrees(&store);
    let output = run("undo", &store, &["--session", "all"], 4);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("not in the store any more"), "{error}");
}

#[test]
fn rules_are_needed() {
    need_mount!();
    let mut home = Home::mount();
    home.umount();
    let output = run("expire", home.store(), &[], 2);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--keep-within"), "{error}");
    run("expire", home.store(), &["--keep-last", "0"], 2);
    // Without a checkpoint, everything would go.
    let output = run("expire", home.store(), &["--keep-checkpoints"], 3);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no checkpoint"), "{error}");
}

/// An expiry that was stopped goes on with the same command.
#[test]
fn stopped_expiry_goes_on() {
    need_mount!();
    let mut home = three_sessions();
    home.umount();
    let store = home.store().to_owned();
    // As after a kill: the contents are gone, the journals not yet.
    run(
        "trash",
        Path::new("purge"),
        &[store.to_str().unwrap(), "--all", "--versions"],
        0,
    );
    let kept = at(&store, "c3", &["g2"]);
    expire(&store, &["--keep-last", "1"], 0);
    assert_eq!(at(&store, "c3", &["g2"]), kept);
    agrees(&store);
}

/// At random: after an expiry, each point that is kept is as it was, whatever the rules.
#[test]
fn kept_points_are_as_before_at_random() {
    need_mount!();
    let files = ["a", "b", "d/a", "d/b"];
    for seed in 1..=6 {
        let mut random = Random(seed);
        let mut home = Home::mount();
        let mut points = Vec::new();
        for step in 0..40 {
            let (one, two) = (files[random.index(4)], files[random.index(4)]);
            match random.below(9) {
                0..=2 => drop(home.sh(&format!("mkdir -p d; echo {step} >{one}"))),
                3 => drop(home.sh(&format!("mkdir -p d; echo {step} >>{one}"))),
                4 => drop(home.sh(&format!("rm -f {one}"))),
                5 => drop(home.sh(&format!("mv -f {one} {two} 2>/dev/null || :"))),
                6 => drop(home.sh("rm -rf d")),
                7 => drop(home.remount()),
                _ => {
                    let name = format!("c{step}");
                    checkpoint(&home, &name);
                    points.push(name);
                }
            }
        }
        home.umount();
        let store = home.store().to_owned();
        let before: Vec<_> = points
            .iter()
            .map(|point| at(&store, point, &files))
            .collect();
        let rules = [
            &["--keep-checkpoints"][..],
            &["--keep-last", "3"],
            &["--max-size", "8K"],
        ];
        let rule = rules[random.index(3)];
        let output = trumanfs(&[&["expire", store.to_str().unwrap()], rule].concat());
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            describe(&output)
        );
        agrees(&store);
        let mut kept = 0;
        for (point, before) in points.iter().zip(&before) {
            let probe = trumanfs(&["diff", store.to_str().unwrap(), &format!("{point}..now")]);
            if probe.status.code() == Some(3) {
                assert_eq!(
                    kept, 0,
                    "seed {seed}: {point} has expired after one that is kept"
                );
                continue;
            }
            kept += 1;
            assert_eq!(at(&store, point, &files), *before, "seed {seed}: {point}");
        }
        assert!(
            kept == points.len() || rule[0] != "--keep-checkpoints",
            "seed {seed}"
        );
    }
}
