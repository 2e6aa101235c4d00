//! `expire` beside agents: a run that is under way stays whole.

use std::fs;
use std::process::Command;

use super::{LIMIT, Store, begin, good, parsed, until};
use crate::common::{binary, describe, need_mount, run_limited, trumanfs};

fn agent(store: &Store, script: &str) -> Command {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(["--", "sh", "-c", script]);
    command
}

#[test]
fn run_under_way_stays_whole() {
    need_mount!();
    let store = Store::new();
    fs::write(store.store.join("file"), "before\n").unwrap();
    fs::write(store.store.join("old"), "old\n").unwrap();
    let output = run_limited(agent(&store, "rm old"), LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    store.is_left_alone();
    let work = "echo changed >file; touch ready; until [ -e go ]; do sleep 0.05; done; rm file";
    let first = begin(agent(&store, work));
    until("the agent has begun", || store.store.join("ready").exists());
    // A newer run, and rules that keep nothing but it.
    let output = run_limited(agent(&store, "echo x >other; rm other"), LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    let target = store.store.to_str().unwrap();
    let output = trumanfs(&["expire", target, "--keep-last", "1", "--json"]);
    let expired = parsed(&output);
    assert_eq!(expired["because"], "a run is under way", "{expired}");
    assert_eq!(expired["done"]["purged"], 1, "{expired}");
    let output = trumanfs(&["expire", target, "--max-size", "1", "--dry-run", "--json"]);
    assert_eq!(parsed(&output)["entries"].as_array().unwrap().len(), 0);
    fs::write(store.store.join("go"), "").unwrap();
    assert!(first.wait_with_output().unwrap().status.success());
    store.is_left_alone();
    // It can be taken back whole; now that it has ended, it may go.
    let output = trumanfs(&["log", target, "--op", "run", "--json"]);
    let lines = good(&output);
    let runs: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_work = runs
        .iter()
        .find(|run| run["command"].as_str().unwrap().contains("changed"));
    let run = of_work.unwrap()["origin"]["run"].as_str().unwrap();
    let output = trumanfs(&["undo", target, "--run", run]);
    assert!(output.status.success(), "{}", describe(&output));
    let read = fs::read_to_string(store.store.join("file")).unwrap();
    assert_eq!(read, "before\n");
    let output = trumanfs(&["expire", target, "--keep-last", "1", "--json"]);
    assert_eq!(parsed(&output)["because"], "--keep-last");
}
