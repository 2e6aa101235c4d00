//! The lookup of a command's program: a file of the home is not one that the policy allows, whatever its name.

use std::fs;

use super::*;
use crate::common::need_mount;

const SHADOWS: &[&str] = &["npm", "node", "npx", "lerna", "python3", "git", "cat"];

/// Puts programs of these names into a directory of the home, each of which says that it ran.
fn shadow(place: &Place, dir: &str) {
    fs::create_dir_all(place.home.path(dir)).unwrap();
    for name in SHADOWS {
        place.script(&format!("{dir}/{name}"), "#!/bin/sh\necho EVIL\n");
    }
}

#[test]
fn programs_of_the_home_are_not_those_of_the_policy() {
    need_mount!();
    let place = Place::mounted();
    shadow(&place, "node_modules/.bin");
    shadow(&place, ".venv/bin");
    fs::write(place.home.path(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    fs::write(
        place.home.path("package.json"),
        r#"{"name": "x", "version": "1.0.0"}"#,
    )
    .unwrap();
    let policy = place.home.base().join("tools.yaml");
    fs::write(
        &policy,
        "npm: {root_flags: [--version], subcommands: {ls: {}}}\nnode: {flags: [--version]}\nlerna: {flags: [--version]}\n\
         npx: {flags: [--version]}\npython3: {flags: [-V]}\ngit: {subcommands: {--version: {}}}\ncat: {arguments: path}\n",
    )
    .unwrap();
    for words in [
        &["npm", "ls"][..],
        &["npm", "--version"],
        &["node", "--version"],
        &["lerna", "--version"],
        &["npx", "--version"],
        &["python3", "-V"],
        &["git", "--version"],
        &["cat", "package.json"],
    ] {
        let output = run_limited(command(place.home(), &policy, &[], words), LIMIT);
        let line = words.join(" ");
        let exec = [
            "exec",
            "--root",
            place.home().to_str().unwrap(),
            "--policy",
            policy.to_str().unwrap(),
            "--",
            &line,
        ];
        for output in [output, trumanfs(&exec)] {
            let told = describe(&output);
            assert!(!told.contains("EVIL"), "{line}: {told}");
            // What this machine has not installed is not found.
            assert!(
                matches!(output.status.code(), Some(0 | 1 | 127)),
                "{line}: {told}"
            );
        }
    }
}

/// A program of the machine may start the project's own.
#[test]
fn children_find_programs_of_the_project() {
    need_mount!();
    if !Path::new("/usr/bin/node").exists() && !Path::new("/usr/local/bin/node").exists() {
        crate::common::skip!("system-node", "node is not installed");
    }
    let place = Place::mounted();
    fs::create_dir_all(place.home.path("node_modules/.bin")).unwrap();
    place.script("node_modules/.bin/own-tool", "#!/bin/sh\necho own\n");
    let script = "process.stdout.write(require('child_process').execFileSync('own-tool'))";
    fs::write(place.home.path("a.js"), script).unwrap();
    let policy = place.home.base().join("tools.yaml");
    fs::write(&policy, "node: {allow_script_paths: true}\n").unwrap();
    let output = run_limited(
        command(place.home(), &policy, &[], &["node", "a.js"]),
        LIMIT,
    );
    assert_eq!(good(&output), "own\n");
}
