//! Processes that a program leaves behind: they are ended with it, and named at the end of an agent and in outcomes.

use std::fs;
use std::process::{Command, Output};

use serde_json::json;

use super::{LIMIT, Place, Store, audit, err, parsed};
use crate::common::{binary, describe, need_mount, need_tools, run_limited};

/// The beginning of the line that names them.
const LINE: &str = "trumanfs: these processes were still running and were ended with the agent: ";

/// Waits until the last program that a shell has started is that program.
const BEGUN: &str =
    "begun() { until [ \"$(cat /proc/$!/comm)\" = \"${1-sleep}\" ]; do sleep 0.02; done; }\n";

fn agent(options: &[&str], words: &[&str]) -> (Store, Output) {
    let store = Store::new();
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(options).arg("--").args(words);
    command.env("XDG_STATE_HOME", store.base.join("state"));
    let output = run_limited(command, LIMIT);
    (store, output)
}

/// Returns what is named at the end of an agent, if anything is.
#[track_caller]
fn named(output: &Output) -> Option<String> {
    let said = err(output);
    let mut lines = said.lines().filter_map(|line| line.strip_prefix(LINE));
    let found = lines.next().map(str::to_owned);
    assert_eq!(lines.next(), None, "{said}");
    found
}

#[test]
fn background_processes_of_an_agent_are_named() {
    need_mount!();
    for (script, code, wanted) in [
        ("true", 0, None),
        ("sleep 1000 & begun; exit 3", 3, Some("sleep 1000")),
        // What a killed program leaves, too.
        ("sleep 1000 & begun; kill -9 $$", 137, Some("sleep 1000")),
        (
            "sleep 1000 & begun; setsid tail -f /dev/null & begun tail; exit 0",
            0,
            Some("sleep 1000, tail -f /dev/null"),
        ),
        (
            "for i in $(seq 500); do sleep 1000 & done
            until [ \"$(cat /proc/[0-9]*/comm | grep -c '^sleep$')\" -ge 500 ]; do sleep 0.1; done",
            0,
            Some("sleep 1000 (500 times)"),
        ),
        (
            "for i in $(seq 20); do sleep 10$i & begun; done",
            0,
            Some(
                "sleep 101, sleep 102, sleep 103, sleep 104, sleep 105, sleep 106, sleep 107, sleep 108, … and 12 more",
            ),
        ),
    ] {
        let script = &format!("{BEGUN}{script}");
        let (_store, output) = agent(&[], &["sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        assert_eq!(named(&output).as_deref(), wanted, "{script}");
    }
}

#[test]
fn processes_that_end_by_themselves_are_not_named() {
    need_mount!();
    // On a busy machine even these may take long.
    let is_silent = |_| {
        let (_store, output) = agent(&[], &["sh", "-c", "sleep 0.01 & cat <&0 & exit 3"]);
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        named(&output).is_none()
    };
    assert!((0..10).any(is_silent));
}

#[test]
fn background_processes_cannot_act_by_their_names() {
    need_mount!();
    need_tools!("python3");
    let named_by = |code: &str| {
        let code = format!("import subprocess, ctypes, os, time\n{code}\n");
        let (_store, output) = agent(&[], &["python3", "-c", &code]);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        named(&output).unwrap_or_default()
    };
    let hostile =
        r#"subprocess.Popen(["a\n\x1b]0;b\x07\u202e, sleep", "1000"], executable="/bin/sleep")"#;
    assert_eq!(
        named_by(hostile),
        r"'a\x0a\x1b]0;b\x07\xe2\x80\xae, sleep' 1000"
    );
    let long = r#"subprocess.Popen(["x" * 100000, "1000"], executable="/bin/sleep")"#;
    assert_eq!(named_by(long), format!("{}…", "x".repeat(160)));
    // Without words, it is known by the name of its program, which it has set as well.
    let wordless = r#"
done, tell = os.pipe()
if os.fork() == 0:
    ctypes.CDLL(None).prctl(15, b"n\x1b[2J\n)S 1 1", 0, 0, 0)
    start, end = map(int, open("/proc/self/stat").read().rsplit(")", 1)[1].split()[45:47])
    ctypes.memset(start, 0, end - start)
    os.write(tell, b"x")
    time.sleep(1000)
os.close(tell)
os.read(done, 1)
"#;
    assert_eq!(named_by(wordless), r"'n\x1b[2J\x0a)S 1 1'");
}

#[test]
fn zombies_are_not_named_but_their_parents_are() {
    need_mount!();
    need_tools!("python3");
    let code = r#"
import os, subprocess
forks = "import os; [os.fork() or os._exit(0) for _ in range(50)]; os.execvp('sleep', ['sleep', '1000'])"
child = subprocess.Popen(["python3", "-c", forks])
while open(f"/proc/{child.pid}/comm").read() != "sleep\n":
    pass
"#;
    let (_store, output) = agent(&[], &["python3", "-c", code]);
    assert_eq!(
        named(&output).as_deref(),
        Some("sleep 1000"),
        "{}",
        describe(&output)
    );
}

#[test]
fn background_processes_without_a_whole_sandbox_are_named() {
    for kind in ["weak", "none"] {
        for (script, wanted) in [
            ("true", None),
            (
                "sleep 1000 & begun; export -f begun; setsid bash -c 'sleep 2000 & begun' & wait $!",
                Some("sleep 1000, sleep 2000"),
            ),
        ] {
            let options = ["--home", "fork", "--sandbox", kind];
            let script = format!("{BEGUN}{script}");
            let (_store, output) = agent(&options, &["bash", "-c", &script]);
            assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
            assert_eq!(named(&output).as_deref(), wanted, "{}", describe(&output));
        }
    }
}

#[test]
fn outcome_and_audit_have_the_background_processes() {
    need_mount!();
    let place = Place::mounted();
    let script = format!("{BEGUN}sleep 1000 & begun; exit 0");
    let output = place.run(&["--json"], &["sh", "-c", &script]);
    let wanted = json!(["sleep 1000"]);
    assert_eq!(parsed(&output)["ended_processes"], wanted);
    // Of `run`, an outcome alone has them.
    let output = place.run(&[], &["sh", "-c", &script]);
    assert_eq!(err(&output), "");
    let lines = audit(&fs::canonicalize(place.home.store()).unwrap());
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["ended_processes"] == wanted));
}
