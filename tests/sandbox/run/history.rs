//! A program is a run: its changes are listed, shown and taken back by its id.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{LIMIT, Place, Store, good, parsed};
use crate::common::{describe, need_mount, need_tools, trumanfs};

/// All files below a directory, with what is in them.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                open.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn verb(args: &[&str]) -> String {
    let output = trumanfs(args);
    assert!(
        output.status.code() < Some(2),
        "{args:?}: {}",
        describe(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs words, checks that nothing but this run changed anything, takes it back, and checks that all is as before; then
/// does it again, so that it is there again.
#[track_caller]
fn is_taken_back(place: &Place, words: &[&str]) {
    let before = tree(place.home.home());
    let store = place.home.store().to_str().unwrap();
    let outcome = place.json(&[], words);
    assert_eq!(outcome["status"], "success", "{outcome}");
    assert_eq!(outcome["changed"], true);
    let run = outcome["run"].as_str().unwrap();
    let after = tree(place.home.home());
    assert_ne!(before, after);
    assert!(!verb(&["diff", store, "--run", run]).is_empty());
    verb(&["undo", store, "--run", run]);
    assert_eq!(tree(place.home.home()), before, "{words:?}");
    verb(&["redo", store]);
    assert_eq!(tree(place.home.home()), after, "{words:?}");
}

#[test]
fn a_commit_is_taken_back_whole() {
    need_mount!();
    need_tools!("git");
    let place = Place::mounted();
    is_taken_back(&place, &["git", "init", "-q"]);
    fs::write(place.home.path("file"), "one\n").unwrap();
    is_taken_back(&place, &["git", "add", "-A"]);
    is_taken_back(&place, &["git", "commit", "-q", "-m", "one"]);
    fs::write(place.home.path("file"), "two\n").unwrap();
    good(&place.run(&[], &["git", "add", "-A"]));
    is_taken_back(&place, &["git", "commit", "-q", "-m", "two"]);
    is_taken_back(&place, &["git", "checkout", "-q", "HEAD~1"]);
}

#[test]
fn many_processes_are_taken_back_whole() {
    need_mount!();
    let place = Place::mounted();
    place.sh("mkdir -p old/deep; for n in $(seq 30); do echo $n >old/$n; done; echo x >old/deep/x");
    let script = "for d in $(seq 8); do (mkdir d$d; for n in $(seq 40); do echo $n >d$d/$n; done; mv d$d/1 d$d/one; rm d$d/2) & done; wait
                  rm -r old/deep; mv old new; echo more >>new/3; : >new/4; cp new/5 new/6; chmod 600 new/7; ln new/8 hard; setsid sh -c 'echo late >late'";
    is_taken_back(&place, &["sh", "-c", script]);
}

#[test]
fn python_is_taken_back_whole() {
    need_mount!();
    if !Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let place = Place::mounted();
    place.sh("echo before >file0");
    let code = "import os, threading, subprocess, shutil\n\
                def work(n):\n  os.mkdir(f'd{n}')\n  for i in range(20): open(f'd{n}/{i}', 'w').write('x' * i)\n\
                ts = [threading.Thread(target=work, args=(n,)) for n in range(6)]\n\
                [t.start() for t in ts]; [t.join() for t in ts]\n\
                open('file0', 'w').write('after'); shutil.rmtree('d3'); subprocess.run(['sh', '-c', 'echo sub >sub'])\n";
    is_taken_back(&place, &["python3", "-c", code]);
}

#[test]
fn other_verbs_know_the_run() {
    need_mount!();
    let place = Place::mounted();
    fs::write(place.home.path("mine"), "x").unwrap();
    let outcome = place.json(&[], &["sh", "-c", "echo 'it is' >'a file'"]);
    let run = outcome["run"].as_str().unwrap();
    let store = place.home.store().to_str().unwrap();
    let log = verb(&["log", store, "--run", run, "--json"]);
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() > 1, "{log}");
    assert!(
        lines
            .iter()
            .all(|line| line["origin"]["run"] == run && line["origin"]["kind"] == "program"),
        "{log}"
    );
    let said = verb(&["log", store]);
    assert!(
        said.contains("sh -c 'echo '\\''it is'\\'' >'\\''a file'\\'''"),
        "{said}"
    );
    let diff = verb(&["diff", store, "--run", run]);
    assert!(diff.contains("a file") && !diff.contains("mine"), "{diff}");
    let page = place.home.base().join("report.html");
    verb(&[
        "report",
        store,
        "--run",
        run,
        "--html",
        page.to_str().unwrap(),
    ]);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("a file") && !html.contains("mine"));
    assert_eq!(verb(&["log", store, "--run", "last", "--json"]), log);
    // By a prefix, too.
    assert_eq!(verb(&["log", store, "--run", &run[..6], "--json"]), log);
}

#[test]
fn what_ran_in_an_unmounted_store_is_taken_back_there() {
    need_mount!();
    let store = Store::new();
    fs::write(store.store.join("file"), "before\n").unwrap();
    let outcome = parsed(&store.run(
        &["--json"],
        &["sh", "-c", "echo after >file; mkdir d; echo x >d/x"],
    ));
    store.is_left_alone();
    let (path, run) = (
        store.store.to_str().unwrap(),
        outcome["run"].as_str().unwrap(),
    );
    verb(&["undo", path, "--run", run]);
    assert_eq!(
        fs::read_to_string(store.store.join("file")).unwrap(),
        "before\n"
    );
    assert!(!store.store.join("d").exists());
}

#[test]
fn a_killed_run_is_taken_back() {
    need_mount!();
    let place = Place::mounted();
    place.sh("echo before >file");
    let before = tree(place.home.home());
    let script = "echo after >file; mkdir d; echo x >d/x; sleep 100";
    let outcome = place.json(&["--timeout", "1"], &["sh", "-c", script]);
    assert_eq!(outcome["status"], "timeout");
    assert_eq!(outcome["changed"], true);
    verb(&[
        "undo",
        place.home.store().to_str().unwrap(),
        "--run",
        outcome["run"].as_str().unwrap(),
    ]);
    assert_eq!(tree(place.home.home()), before);
}

/// Hooks and what a repository's configuration starts run in the sandbox like any program, or not at all: the policy
/// pins what starts them.
#[test]
fn what_a_repository_starts_is_harmless() {
    need_mount!();
    need_tools!("git");
    let place = Place::mounted();
    let outside = place.home.base().join("outside");
    fs::create_dir(&outside).unwrap();
    good(&place.run(&[], &["git", "init", "-q"]));
    let evil = format!(
        "#!/bin/sh\ntouch {0}/reached; cat {0}/../policy.yaml >stolen 2>/dev/null; cat /etc/shadow >>stolen 2>/dev/null; echo ran >>hooked\n",
        outside.display()
    );
    for name in ["pre-commit", "post-commit", "post-checkout"] {
        place.script(&format!(".git/hooks/{name}"), &evil);
    }
    place.script("monitor", &evil);
    let config = place.home.path(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        format!(
            "{text}\tfsmonitor = {}\n\tpager = ./monitor\n\teditor = ./monitor\n",
            place.home.path("monitor").display()
        ),
    )
    .unwrap();
    fs::write(place.home.path("file"), "x").unwrap();
    for words in [
        &["git", "status"][..],
        &["git", "add", "-A"],
        &["git", "commit", "-q", "-m", "x"],
        &["git", "checkout", "-q", "HEAD"],
    ] {
        let output = crate::common::run_limited(place.command(&[], words), LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(
        !place.home.path("hooked").exists(),
        "the policy pins them off"
    );
    // Where somebody starts them all the same, they are in the sandbox.
    place.sh("./.git/hooks/pre-commit || true");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read(place.home.path("stolen")).unwrap_or_default(), b"");
    assert!(place.home.path("hooked").exists());
}
