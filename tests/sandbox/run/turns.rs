//! Turns: what an agent's work on one prompt is, as its own marks say it, and what is taken back by them.

use std::fs;
use std::process::{Command, Output};

use super::{LIMIT, Store, err, good};
use crate::common::{binary, describe, need_mount, run_limited, trumanfs};

/// Runs a script as an agent.
fn agent(store: &Store, script: &str) -> Output {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(["--keep", "--", "bash", "-c", script]);
    run_limited(command, LIMIT)
}

/// Runs a verb about the store.
fn verb(store: &Store, verb: &str, words: &[&str]) -> Output {
    let target = store.store.to_str().unwrap();
    trumanfs(&[&[verb, target][..], words].concat())
}

fn out(output: &Output) -> String {
    good(output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(store: &Store, name: &str) -> String {
    fs::read_to_string(store.store.join(name)).unwrap_or_default()
}

/// The lines of an agent's hook for prompts.
fn prompt(text: &str, conversation: &str) -> String {
    format!(
        "echo '{{\"prompt\":\"{text}\",\"session_id\":\"{conversation}\",\"hook_event_name\":\"UserPromptSubmit\"}}' | trumanfs mark --hook; "
    )
}

const THREE: &str = "echo 0 >before; trumanfs mark 'make it'; echo one >a; echo x >b; \
    trumanfs mark $'change it\\nwith a second line'; echo two >>a; rm b; \
    trumanfs mark; echo three >c";

#[test]
fn turn_is_compared_and_taken_back_beside_later_ones() {
    need_mount!();
    let store = Store::new();
    let output = agent(&store, THREE);
    assert_eq!(
        out(&output),
        "turn 1\nturn 2\nturn 3\n",
        "{}",
        describe(&output)
    );
    // Each has its changes below it.
    let log = out(&verb(&store, "log", &["--all"]));
    let places: Vec<usize> = [
        "turn 1: make it",
        "create /b  ",
        "turn 2: change it",
        "unlink /b",
        "turn 3",
        "create /c",
    ]
    .map(|part| log.find(part).unwrap_or_else(|| panic!("{part}: {log}")))
    .to_vec();
    assert!(
        places.is_sorted() && log.contains("turn 2: change it  ("),
        "{log}"
    );
    let paths = |turn: &str| {
        let output = verb(&store, "diff", &["--name-only", "--turn", turn]);
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(paths("1"), "/a\n/b\n");
    assert_eq!(paths("2"), "/a\n/b\n");
    assert_eq!(paths("last"), "/c\n");
    let undone = verb(&store, "undo", &["--turn", "2"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    let said = err(&undone);
    assert!(
        said.contains("turn 2: change it (") && said.contains("changes of the run"),
        "{said}"
    );
    // What is left of the run is named, also what is in no turn.
    assert!(
        ["of turn 3, ", "of turn 1, ", "before its first turn"]
            .iter()
            .all(|left| said.contains(left)),
        "{said}"
    );
    assert_eq!(
        (text(&store, "a"), text(&store, "b")),
        ("one\n".into(), "x\n".into())
    );
    assert_eq!(text(&store, "c"), "three\n");
    out(&verb(&store, "redo", &[]));
    assert_eq!(
        (text(&store, "a"), text(&store, "b")),
        ("one\ntwo\n".into(), String::new())
    );
    // Back to the moment of a prompt.
    out(&verb(&store, "undo", &["--to-turn", "2"]));
    assert_eq!(
        (text(&store, "a"), text(&store, "c")),
        ("one\n".into(), String::new())
    );
    assert_eq!(text(&store, "before"), "0\n");
    let missing = verb(&store, "undo", &["--turn", "9"]);
    assert_eq!(missing.status.code(), Some(3), "{}", describe(&missing));
    assert!(err(&missing).contains("the newest is 3"));
    assert_eq!(
        verb(&store, "diff", &["--turn", "x"]).status.code(),
        Some(2)
    );
}

#[test]
fn turn_is_reviewed_by_itself() {
    need_mount!();
    let store = Store::new();
    out(&agent(&store, THREE));
    let listed = |words: &[&str]| {
        let output = verb(&store, "review", words);
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let paths = lines.lines().map(|line| {
            let listed: serde_json::Value = serde_json::from_str(line).unwrap();
            listed["path"].as_str().unwrap().to_owned()
        });
        paths.collect::<Vec<String>>()
    };
    assert_eq!(listed(&["--json", "--turn", "last"]), ["/c"]);
    assert_eq!(
        listed(&["--json", "--turn", "2", "--run", "last"]),
        ["/a", "/b"]
    );
    let page = out(&verb(&store, "report", &["--turn", "2", "--html", "-"]));
    assert!(page.contains("turn 2: change it") && page.contains("--turn 2 --dry-run"));
    assert!(!page.contains("/before"));
    out(&verb(&store, "reject", &["last", "--turn", "3"]));
    assert!(!store.store.join("c").exists());
    out(&verb(&store, "accept", &["last", "--turn", "2"]));
    assert_eq!(listed(&["--json", "--turn", "2"]), Vec::<String>::new());
    // The other turns' changes are still to be reviewed.
    assert!(listed(&["--json", "--run", "last"]).contains(&"/before".to_owned()));
    assert_eq!(text(&store, "a"), "one\ntwo\n");
}

/// A mark is the occupant's word: an empty turn at the end hides nothing of the run.
#[test]
fn empty_turn_hides_nothing() {
    need_mount!();
    let store = Store::new();
    out(&agent(
        &store,
        "trumanfs mark one; echo x >a; trumanfs mark two",
    ));
    let undone = verb(&store, "undo", &["--turn", "last"]);
    let said = err(&undone);
    assert!(
        !undone.status.success() && said.contains("of turn 1"),
        "{said}"
    );
    assert_eq!(text(&store, "a"), "x\n");
}

#[test]
fn conversation_goes_on_with_its_numbers_in_the_next_run() {
    need_mount!();
    let store = Store::new();
    let first = prompt("make it", "c-1") + "echo one >a; " + &prompt("more", "c-1") + "echo b >b";
    out(&agent(&store, &first));
    // Another conversation has numbers of its own.
    out(&agent(&store, &(prompt("else", "c-2") + "echo d >d")));
    let third = prompt("\\u001b[31mred\\u202e", "c-1")
        + "echo two >>a; trumanfs mark --json --conversation c-1 next";
    assert_eq!(out(&agent(&store, &third)), "{\"turn\":4}\n");
    let log = out(&verb(&store, "log", &[]));
    assert!(log.contains("turn 3: \u{fffd}[31mred\u{fffd}"), "{log}");
    // Of all runs of the conversation, and of no other.
    let undone = verb(&store, "undo", &["--to-turn", "2"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(
        (text(&store, "a"), text(&store, "b")),
        ("one\n".into(), String::new())
    );
    assert_eq!(text(&store, "d"), "d\n");
}

/// A file that stays open across a mark is one change, which goes with both turns.
#[test]
fn file_that_is_open_across_turns_is_a_conflict() {
    need_mount!();
    let store = Store::new();
    let script = "trumanfs mark one; exec 3>log; echo 1 >&3; echo x >a; \
        trumanfs mark two; echo 2 >&3; exec 3>&-; echo y >b; \
        trumanfs mark three; echo z >c";
    out(&agent(&store, script));
    for (turn, why) in [
        ("1", "/log was open for writing when turn 1 ended"),
        ("2", "/log was open for writing when turn 2 began"),
    ] {
        let undone = verb(&store, "undo", &["--turn", turn]);
        assert_eq!(undone.status.code(), Some(4), "{}", describe(&undone));
        assert!(err(&undone).contains(why), "{}", describe(&undone));
    }
    assert_eq!(text(&store, "log"), "1\n2\n");
    out(&verb(&store, "undo", &["--turn", "3"]));
    out(&verb(&store, "undo", &["--to-turn", "1"]));
    for name in ["log", "a", "b", "c"] {
        assert!(!store.store.join(name).exists(), "{name}");
    }
}

/// Whoever is in the sandbox can add marks of its own run, so many and so long at most, and nothing else.
#[test]
fn socket_takes_marks_and_nothing_else() {
    need_mount!();
    let store = Store::new();
    let script = r#"
import json, os, socket
def ask(data, shut=False):
    s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect("/run/trumanfs/turns")
    s.sendall(data)
    if shut: s.shutdown(socket.SHUT_WR)
    try: return s.recv(1 << 16).decode()
    except OSError as error: return repr(error)
print("error" in ask(b"{}\n"), "error" in ask(b"\xff\n"), "error" in ask(b"[" * 9000 + b"\n"))
print("error" in ask(b'{"text":"half', True))
idle = [socket.socket(socket.AF_UNIX) for _ in range(3)]
for s in idle: s.connect("/run/trumanfs/turns")
for s in idle: s.close()
print(ask(json.dumps({"text": "x" * 5000, "run": "0000000000000", "turn": 7}).encode() + b"\n"), end="")
print(ask(b'{"text":"y"}\n'), end="")
"#;
    fs::write(store.store.join("ask.py"), script).unwrap();
    let output = agent(&store, "python3 ask.py");
    assert_eq!(
        out(&output),
        "True True True\nTrue\n{\"turn\":1}\n{\"turn\":2}\n",
        "{}",
        describe(&output)
    );
    let log = out(&verb(&store, "log", &["--json"]));
    let mark = log
        .lines()
        .find(|line| line.contains("\"turn\":1"))
        .unwrap();
    assert!(mark.len() < 1000 && mark.contains("xxx…"), "{mark}");
    // Outside there is none.
    let outside = trumanfs(&["mark", "x"]);
    assert_eq!(outside.status.code(), Some(3), "{}", describe(&outside));
    assert!(err(&outside).contains("checkpoint create"));
    let mut hook = Command::new("sh");
    hook.args([
        "-c",
        "echo '{\"prompt\":\"x\"}' | \"$0\" mark --hook",
        binary(),
    ]);
    assert!(run_limited(hook, LIMIT).status.success());
}
