//! How a server ends: nothing stays mounted, nothing goes on, and the next one begins where it was.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::server::{ERAS, Era, LIMIT, Mounted, Server};
use crate::common::{binary, describe, need_mount, trumanfs};

/// How long an end may take that a signal asks for: what a client waits before it kills is of that size.
const SOON: Duration = Duration::from_secs(10);

/// A store, and a policy beside it.
fn place(dir: &Path) -> (PathBuf, String) {
    let store = dir.join("store");
    std::fs::create_dir(&store).unwrap();
    let policy = dir.join("policy.yaml");
    std::fs::write(&policy, "sleep: {arguments: text}\n").unwrap();
    (store, policy.to_str().unwrap().to_owned())
}

/// Returns whether a process runs that sleeps for so long.
fn sleeps(seconds: &str) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.flatten().any(|process| {
        let words = std::fs::read(process.path().join("cmdline"));
        words.is_ok_and(|words| words == wanted.as_bytes())
    })
}

fn wait_until(what: &str, limit: Duration, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !is() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_signal_during_a_call_ends_the_call_the_server_and_the_mount() {
    need_mount!();
    for (signal, seconds) in [
        (Signal::TERM, "871.25"),
        (Signal::INT, "872.25"),
        (Signal::HUP, "873.25"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (store, policy) = place(dir.path());
        let mut server = Server::start(Era::Sessions, &store, &["--policy", &policy]);
        server.begin(
            "bash",
            json!({"command": format!("echo x > a; sleep {seconds}; echo y > b")}),
        );
        wait_until("the sleep begins", LIMIT, || sleeps(seconds));
        let mounted = Mounted::of(&store);
        server.signal(signal);
        let status = server.ends_within(SOON);
        assert!(!mounted.is_there(), "{signal:?}: {status}: still mounted");
        assert!(!sleeps(seconds), "{signal:?}: it sleeps on");
        assert!(store.join("a").exists() && !store.join("b").exists());
        // What the call changed until then is recorded.
        let log = trumanfs(&["log".as_ref(), store.as_os_str()]);
        let said = String::from_utf8_lossy(&log.stdout);
        assert!(said.contains("/a"), "{}", describe(&log));
    }
}

#[test]
fn a_call_that_is_under_way_when_the_client_has_said_all_is_answered() {
    need_mount!();
    for era in ERAS {
        let dir = tempfile::tempdir().unwrap();
        let (store, policy) = place(dir.path());
        let mut server = Server::start(era, &store, &["--policy", &policy]);
        let id = server.begin("bash", json!({"command": "sleep 1.5; echo done"}));
        server.close_input();
        let answer = server.answer(id);
        assert_eq!(answer["result"]["structuredContent"]["stdout"], "done\n");
        let mounted = server.ends_within(SOON);
        assert!(mounted.success(), "{mounted}");
        let status = trumanfs(&["status".as_ref(), store.as_os_str()]);
        assert!(!status.status.success(), "{}", describe(&status));
    }
}

#[test]
fn a_server_that_is_killed_leaves_nothing_and_the_next_one_goes_on() {
    need_mount!();
    for also_daemon in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (store, policy) = place(dir.path());
        let seconds = if also_daemon { "874.25" } else { "875.25" };
        let mut server = Server::start(Era::Sessions, &store, &["--policy", &policy]);
        let (_, wrote) = server.does("write_file", json!({"path": "a", "content": "x\n"}));
        server.begin("bash", json!({"command": format!("sleep {seconds}")}));
        wait_until("the sleep begins", LIMIT, || sleeps(seconds));
        let mounted = Mounted::of(&store);
        server.signal(Signal::KILL);
        if also_daemon {
            mounted.kill();
        }
        let status = server.ends_within(SOON);
        assert!(!status.success(), "{status}");
        wait_until("the sleep ends", SOON, || !sleeps(seconds));
        if !also_daemon {
            mounted.is_gone_within(SOON);
        }
        let mut next = Server::start(Era::Sessions, &store, &["--policy", &policy]);
        // What both left behind is taken away at the latest now.
        wait_until("the old mount goes", SOON, || !mounted.is_there());
        let (told, _) = next.does("read_text_file", json!({"path": "a"}));
        assert_eq!(told, "x\n");
        // The runs of a server that is gone are no session's of this one; an operator has them.
        let run = wrote["run"].clone();
        next.fails("undo", json!({"run": run}));
        next.finish();
        let run = run.as_str().unwrap();
        let undo = [
            "undo".as_ref(),
            store.as_os_str(),
            "--run".as_ref(),
            run.as_ref(),
        ];
        let undo = trumanfs(&undo);
        assert!(undo.status.success(), "{}", describe(&undo));
        assert!(!store.join("a").exists());
    }
}

/// A client that never reads what it is answered.
struct Deaf {
    child: Child,
    /// Held, never read.
    _stdout: std::process::ChildStdout,
    stdin: Option<std::process::ChildStdin>,
}

impl Deaf {
    /// Sends requests whose answers fill every pipe; whoever is deaf is blocked at last.
    fn start(store: &Path) -> Deaf {
        std::fs::write(store.join("big"), "x".repeat(35_000)).unwrap();
        let mut child = Command::new(binary())
            .args(["serve", "mcp", "--root"])
            .arg(store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let ask = |id: u64, method: &str, params: Value| {
            let mut line =
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
            line.push('\n');
            line
        };
        let writing = std::thread::spawn(move || {
            let client = json!({"name": "t", "version": "1"});
            let hello =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
            stdin
                .write_all(ask(0, "initialize", hello).as_bytes())
                .unwrap();
            // As many as pipes hold, when nobody reads them at the other end.
            for id in 1..900 {
                let cat = json!({"name": "bash", "arguments": {"command": "cat big"}});
                stdin
                    .write_all(ask(id, "tools/call", cat).as_bytes())
                    .unwrap();
            }
            stdin
        });
        wait_until("it is mounted", LIMIT, || {
            let status = trumanfs(&["status".as_ref(), store.as_os_str()]);
            status.status.success()
        });
        // What it holds does not grow any more.
        let memory = || {
            let file = format!("/proc/{}/status", child.id());
            let status = std::fs::read_to_string(file).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            line.unwrap()
                .trim()
                .trim_end_matches(" kB")
                .parse::<u64>()
                .unwrap()
        };
        let mut before = memory();
        wait_until("it stands still", LIMIT, || {
            std::thread::sleep(Duration::from_millis(1500));
            let now = memory();
            let is_still = now == before;
            before = now;
            is_still
        });
        assert!(before < 200 << 10, "{before} kB");
        Deaf {
            child,
            _stdout: stdout,
            stdin: Some(writing.join().unwrap()),
        }
    }

    fn ends_within(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                panic!("the server did not end within {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The process ended itself after eight seconds, before the home was released.
#[test]
fn a_client_that_never_reads_does_not_keep_a_server_from_ending() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut deaf = Deaf::start(store.path());
    let mounted = Mounted::of(store.path());
    let process = rustix::process::Pid::from_child(&deaf.child);
    rustix::process::kill_process(process, Signal::TERM).unwrap();
    deaf.ends_within(SOON);
    assert!(!mounted.is_there(), "still mounted");
}

/// A client that closed its end and went on without reading was served, and its home was mounted, for ever.
#[test]
fn a_client_that_neither_reads_nor_writes_any_more_is_not_waited_for() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut deaf = Deaf::start(store.path());
    let mounted = Mounted::of(store.path());
    drop(deaf.stdin.take());
    deaf.ends_within(Duration::from_secs(30));
    mounted.is_gone_within(SOON);
}
