//! Signals to an executor: they end its request, which has an outcome and a line in the audit log all the same.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trumanfs::exec::pipeline;
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{CancelToken, Limits, Request, Status, StoreAccess, open};

use crate::common::{Home, binary, describe, ending_signals, need_mount};

/// A limit for what hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until something holds.
#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts trumanfs with a standard input that says nothing and does not end.
fn start(words: &[&str]) -> Child {
    let mut command = Command::new(binary());
    command.args(words).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits for the end without giving standard input one.
#[track_caller]
fn ended(mut child: Child) -> Output {
    let stdin = child.stdin.take();
    let end = Instant::now() + LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!(
                "it does not end: {}",
                describe(&child.wait_with_output().unwrap())
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn audit(store: &Path) -> Vec<Value> {
    let text = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn name_of(signal: Signal) -> &'static str {
    signal_hook::low_level::signal_name(signal.as_raw()).unwrap()
}

/// Each left no line: the process was gone before there was an outcome.
fn a_signal_leaves_a_line(root: &Path, store: &Path) {
    for signal in ending_signals() {
        for json in [false, true] {
            let name = format!("begun{}{json}", signal.as_raw());
            let line = format!("touch {name}; cat; touch after");
            let root = root.to_str().unwrap();
            let mut words = vec!["exec", "--root", root];
            words.extend(json.then_some("--json"));
            words.extend(["--", &line]);
            let child = start(&words);
            until("the line has begun", || store.join(&name).exists());
            send(&child, signal);
            let output = ended(child);
            let code = 128 + signal.as_raw();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{signal:?}: {}",
                describe(&output)
            );
            let last = audit(store).pop().expect("a line in the audit log");
            assert_eq!(last["command"], line);
            assert_eq!(last["status"], "cancelled", "{signal:?}: {last}");
            assert_eq!(last["return_code"], code);
            let message = last["error_message"].as_str().unwrap();
            assert_eq!(message, format!("bash: interrupted by {}", name_of(signal)));
            assert_eq!(last["changed"], true);
            if json {
                let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(outcome["status"], "cancelled");
                assert_eq!(outcome["run"], last["run"]);
            }
            assert!(!store.join("after").exists());
        }
    }
}

#[test]
fn a_signal_leaves_a_line_in_an_unmounted_store() {
    let store = tempfile::tempdir().unwrap();
    a_signal_leaves_a_line(store.path(), store.path());
}

#[test]
fn a_signal_leaves_a_line_in_a_mounted_home() {
    need_mount!();
    let home = Home::mount();
    a_signal_leaves_a_line(home.home(), home.store());
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let store = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", binary(), "exec"]);
    command.arg("--root").arg(store.path());
    command
        .args(["--", "touch begun; cat; touch after"])
        .stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    until("the line has begun", || store.path().join("begun").exists());
    send(&child, Signal::HUP);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(store.path().join("after").exists());
}

/// Between two lines there is no request, and the signal ends the process as it would any other.
#[test]
fn a_shell_that_waits_for_a_line_ends_at_once() {
    let store = tempfile::tempdir().unwrap();
    let mut child = start(&["shell", "--root", store.path().to_str().unwrap()]);
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"touch a\n").unwrap();
    until("the line has run", || audit(store.path()).len() == 1);
    send(&child, Signal::TERM);
    let output = ended(child);
    drop(stdin);
    // The line may have ended this very moment.
    let code = output.status.code();
    assert!(matches!(code, Some(143 | 0)), "{}", describe(&output));
}

/// A request that waits for a store which others read looked at nothing meanwhile, for as long as `--wait` said; then it
/// was blocked.
#[test]
fn a_request_that_waits_for_the_store_can_be_ended() {
    let store = tempfile::tempdir().unwrap();
    let access = StoreAccess {
        wait: Some(Duration::from_secs(30)),
        ..StoreAccess::default()
    };
    let place = || open(store.path(), &access).unwrap();
    // More than a clock has: the sum with the present time broke off.
    let forever = StoreAccess {
        wait: Some(Duration::MAX),
        ..StoreAccess::default()
    };
    let made = open(store.path(), &forever).unwrap();
    let made = Shell::at(made, Limits::default()).run(b"touch a");
    assert_eq!(made.status, Status::Success);
    // It reads, so it shares the store as long as it is there.
    let reader = place();
    let writers = place();
    let cancel = CancelToken::default();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let waits = [(); 2].map(|()| {
            let mut shell = Shell::at(writers.clone(), Limits::default());
            let request = Request {
                cancel: Some(cancel.clone()),
                ..shell.request(b"touch b")
            };
            scope.spawn(move || pipeline::execute_gathering(&mut shell, &request, None).0)
        });
        cancel.cancel();
        waits.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for outcome in outcomes {
        assert_eq!(outcome.status, Status::Cancelled, "{outcome:?}");
        assert!(outcome.unavailable.is_none());
        assert_eq!(outcome.return_code, 130);
    }
    drop(reader);
    assert!(!store.path().join("b").exists());
    assert_eq!(audit(store.path()).len(), 3);
}
