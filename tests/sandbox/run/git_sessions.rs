//! Sessions of two in one git repository: an agent in a home, its owner in the directory itself. After the undo of the
//! run the repository is as it was before it, with what its owner did since, or the undo was a conflict and has changed
//! nothing.
//!
//! A few sessions run by default, all with `GIT_SESSIONS=all`, which prints a table, or those whose name has a text:
//! `GIT_SESSIONS='After gc'`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{LIMIT, Store, err, good};
use crate::common::tree::{contents, tree};
use crate::common::{binary, describe, need_mount, need_tools, run_limited, trumanfs};

/// Actions of the agent on the repository, by name.
const AGENT_ACTIONS: [(&str, &str); 9] = [
    ("commit", "echo agent >>README; git commit -qam agent"),
    (
        "amend",
        "echo agent >>README; git commit -qa --amend -m amended",
    ),
    ("rebase", "git switch -q side; git rebase -q main"),
    ("stash", "echo agent >>README; git stash -q"),
    ("switch", "git switch -q side"),
    ("merge", "git merge -q --no-edit side"),
    ("reset", "git reset -q --hard HEAD~1"),
    ("gc", "git gc -q --prune=now"),
    ("tag", "git tag -a v1 -m v1"),
];

/// Actions of the repository's owner, by name.
const OWNER_ACTIONS: [(&str, &str); 6] = [
    ("status", "touch -d 2001-01-01 src/c; git status >/dev/null"),
    ("add", "echo mine >mine; git add mine"),
    (
        "commit",
        "echo mine >mine; git add mine; git commit -qm mine",
    ),
    ("fetch", "git fetch -q origin"),
    ("stash", "echo mine >>src/c; git stash -q"),
    ("edit", "echo mine >>src/c"),
];

/// The agent's further action, after an owner who acts during the run.
const AGENT_GOES_ON: &str = "echo more >>src/b; git commit -qm more src/b";

/// When the owner acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerMoment {
    /// While the agent runs, which goes on then.
    During,
    /// When the run has ended.
    After,
}

/// The result of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UndoResult {
    Undone,
    Conflict,
}

/// Runs a script in a repository, as somebody for whom time stands still: the same commits have the same names.
fn scripted(dir: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(dir);
    for (name, value) in SETTINGS {
        command.env(name, value);
    }
    command
}

const SETTINGS: [(&str, &str); 9] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@example.org"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_EDITOR", "true"),
];

#[track_caller]
fn sh(dir: &Path, script: &str) -> String {
    good(&run_limited(scripted(dir, script), LIMIT))
}

/// A project with two branches, and a repository that it was cloned from.
const SETUP: &str = "
    git init -q -b main .
    mkdir src; seq 10 >README; seq 20 >src/a; seq 20 >src/b; seq 20 >src/c
    git add -A; git commit -qm first
    git switch -qc side; echo side >>src/a; git commit -qam side
    git switch -q main; echo main >>README; git commit -qam second
    git clone -q --bare . ../origin.git
    git remote add origin ../origin.git; git fetch -q origin
    git clone -q ../origin.git ../other
    cd ../other; echo other >other; git add other; git commit -qm other; git push -q origin main
    cd ..; rm -rf other; cd store; echo note >note
";

/// The state of a repository by git, without the refs that its owner has moved since.
#[derive(Debug, PartialEq, Eq)]
struct RepositoryState {
    head: String,
    refs: BTreeMap<String, String>,
    index: String,
    status: String,
    files: BTreeMap<PathBuf, String>,
}

fn refs(dir: &Path) -> BTreeMap<String, String> {
    let lines = sh(dir, "git for-each-ref --format='%(refname) %(objectname)'");
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    let own = |(name, id): (&str, &str)| (name.to_owned(), id.to_owned());
    pairs.map(own).collect()
}

impl RepositoryState {
    fn of(dir: &Path) -> RepositoryState {
        let mut files = contents(dir);
        files.retain(|path, _| !path.starts_with(".git"));
        let status = sh(dir, "git status --porcelain");
        let is_store = |line: &&str| line.ends_with(".trumanfs/") || line.ends_with(".trash/");
        let status = status.lines().filter(|line| !is_store(line));
        RepositoryState {
            head: sh(dir, "git symbolic-ref HEAD"),
            refs: refs(dir),
            index: sh(dir, "git ls-files -st"),
            status: status.collect(),
            files,
        }
    }
}

/// Runs the agent, and its owner's action at its moment.
fn act(store: &Store, agent: &str, owner: &str, moment: OwnerMoment) {
    let script = match moment {
        OwnerMoment::During => format!("{agent}; echo ready; read -r _; {AGENT_GOES_ON}"),
        OwnerMoment::After => agent.to_owned(),
    };
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    for (name, value) in SETTINGS {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    command.args(["--", "sh", "-ec", &script]);
    if moment == OwnerMoment::After {
        good(&run_limited(command, LIMIT));
        sh(&store.store, owner);
        return;
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    sh(&store.store, owner);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    // The owner's work may make the agent fail, which is no matter of the undo.
    child.wait().unwrap();
}

/// Checks what an undo has left.
fn check(
    store: &Path,
    (before, wanted): (&BTreeMap<PathBuf, String>, &RepositoryState),
    output: &Output,
) -> Result<UndoResult, String> {
    let fsck = run_limited(scripted(store, "git fsck --full --strict"), LIMIT);
    if !fsck.status.success() {
        return Err(format!("fsck: {}", describe(&fsck)));
    }
    match output.status.code() {
        Some(0) => {
            let found = RepositoryState::of(store);
            if found == *wanted {
                Ok(UndoResult::Undone)
            } else {
                Err(format!("{found:#?} is not {wanted:#?}"))
            }
        }
        Some(4) if tree(store) == *before => {
            if err(output).contains(" /") {
                Ok(UndoResult::Conflict)
            } else {
                Err(format!("no path is named: {}", describe(output)))
            }
        }
        _ => Err(describe(output)),
    }
}

/// Plays one session and returns the result of its undo, with the output.
fn session(agent: &str, owner: &str, moment: OwnerMoment) -> (Result<UndoResult, String>, String) {
    let store = Store::new();
    sh(&store.store, SETUP);
    // The same without the agent.
    let alone = store.base.join("alone");
    sh(&store.base, "cp -a store alone");
    let refs_before = refs(&alone);
    sh(&alone, owner);
    act(&store, agent, owner, moment);
    let mut wanted = RepositoryState::of(&alone);
    let owners = wanted.refs.clone();
    let owners = owners
        .keys()
        .filter(|name| refs_before.get(*name) != owners.get(*name));
    let left = refs(&store.store);
    // The names of the owner's refs depend on those that were there.
    for name in owners.filter(|name| !name.starts_with("refs/heads/")) {
        if let Some(id) = left.get(name) {
            wanted.refs.insert(name.clone(), id.clone());
        }
    }
    let before = tree(&store.store);
    let at = store.store.to_str().unwrap();
    let output = trumanfs(&["undo", at, "--run", "last"]);
    let result = check(&store.store, (&before, &wanted), &output);
    (result, err(&output))
}

fn named<'t>(table: &[(&'t str, &'t str)], name: &str) -> &'t str {
    table.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The sessions that run by default, and what comes of the undo.
const DEFAULT_SESSIONS: [(&str, &str, OwnerMoment, UndoResult); 5] = [
    ("commit", "status", OwnerMoment::After, UndoResult::Undone),
    ("commit", "add", OwnerMoment::After, UndoResult::Conflict),
    ("commit", "commit", OwnerMoment::After, UndoResult::Conflict),
    ("gc", "status", OwnerMoment::After, UndoResult::Undone),
    ("rebase", "stash", OwnerMoment::After, UndoResult::Undone),
];

#[test]
fn undo_beside_the_owners_git() {
    need_mount!();
    need_tools!("git");
    for (agent, owner, moment, wanted) in DEFAULT_SESSIONS {
        let scripts = (named(&AGENT_ACTIONS, agent), named(&OWNER_ACTIONS, owner));
        let (result, said) = session(scripts.0, scripts.1, moment);
        assert_eq!(result, Ok(wanted), "{agent}, {owner}, {moment:?}: {said}");
    }
}

#[test]
fn all_sessions_of_two_in_a_repository() {
    let Ok(chosen) = std::env::var("GIT_SESSIONS") else {
        return;
    };
    need_mount!();
    need_tools!("git");
    let (mut undone, mut conflicts, mut wrong) = (0, 0, 0);
    for moment in [OwnerMoment::After, OwnerMoment::During] {
        for (agent, agent_script) in AGENT_ACTIONS {
            for (owner, owner_script) in OWNER_ACTIONS {
                let name = format!("{moment:?} {agent} × {owner}");
                if chosen != "all" && !name.contains(&chosen) {
                    continue;
                }
                let (result, said) = session(agent_script, owner_script, moment);
                let said = said.lines().take(3).collect::<Vec<_>>().join(" | ");
                match &result {
                    Ok(UndoResult::Undone) => undone += 1,
                    Ok(UndoResult::Conflict) => conflicts += 1,
                    Err(_) => wrong += 1,
                }
                eprintln!("{name}: {result:?}: {said}");
            }
        }
    }
    eprintln!("{undone} undone, {conflicts} conflicts, {wrong} wrong");
    assert_eq!(wrong, 0);
}
