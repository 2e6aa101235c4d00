//! The same tests over each backend that this machine has, the choice between them, and what each refuses.
//!
//! All of this binary's tests use the launcher of `room.rs`, which takes the backend that a variable names. So the heart
//! of them is run again in another process for each backend, as root and as an ordinary user.

use std::process::Command;
use std::time::Duration;

use trumanfs::exec::program::sandbox::{
    Backend, BackendChoice, CapturedPorts, KillCondition, NetworkAccess, ProgramEnd, Step, launch,
};

use crate::common::{binary, describe, need_root, need_tools, repository, run_limited};
use crate::room::{Room, launcher};

/// The user of the runs as an ordinary user.
const USER: &str = "65534";

/// Tests that run again, by the start of their names.
const AGAIN: [&str; 5] = ["races::", "surroundings::", "calls::", "kill::", "limits::"];

/// Tests that bubblewrap's sandboxes are not for: those of a home that is root's.
const NOT_OVER_BWRAP: [&str; 3] = [
    "a_root_s_home_gives_no_rights_either",
    "root_s_own_home_has_limits_too",
    "a_mounted_home_is_the_writable_place",
];

/// Runs the tests over a backend; so many must pass, and not by being skipped.
fn over(backend: &str, user: &str, skipped: &[&str], at_least: usize) {
    need_root!("to make devices of the tests' own");
    need_tools!("unshare", "setpriv", "bwrap", "gcc");
    let mut run = Command::new("unshare");
    run.args(["--mount", "--propagation", "private", "sh", "-eu"]);
    run.arg(repository().join("tests/sandbox/backends.sh"));
    run.arg(std::env::current_exe().unwrap()).arg(binary());
    run.arg(repository()).args([user, backend]);
    run.args(AGAIN).args(["--test-threads", "4"]);
    run.args(skipped.iter().flat_map(|name| ["--skip", name]));
    let output = run_limited(run, Duration::from_secs(300));
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said.lines().filter(|line| line.ends_with("... ok")).count();
    let skips = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.starts_with("SKIPPED"))
        .count();
    assert!(output.status.success(), "{}", describe(&output));
    assert!(passed - skips >= at_least, "{passed} - {skips}: {said}");
}

#[test]
fn the_heart_of_the_tests_over_bwrap() {
    over("bwrap", "0", &NOT_OVER_BWRAP, 36);
}

#[test]
fn the_heart_of_the_tests_over_bwrap_as_an_ordinary_user() {
    over("bwrap", USER, &[], 30);
}

#[test]
fn bwrap_refuses_what_it_cannot_keep() {
    need_tools!("bwrap");
    let launcher = launcher().with_choice(BackendChoice::Only(Backend::Bwrap));
    let refused = |plan| {
        let error = launch(plan, &launcher).unwrap_err();
        assert_eq!(error.step, Step::Plan, "{error}");
        error.to_string()
    };
    let room = Room::new();
    // A home below /tmp, where links may lie that are the occupant's.
    if room.home.starts_with("/tmp") {
        let said = refused(room.plan(&["true"]));
        assert!(said.contains("below /tmp"), "{said}");
    }
    let elsewhere = |room: &Room| {
        let mut plan = room.plan(&["true"]);
        plan.home_path = "/home/agent".into();
        plan
    };
    let mut plan = elsewhere(&room);
    plan.network = NetworkAccess::Captured(CapturedPorts {
        anywhere: vec![80],
        ..CapturedPorts::default()
    });
    let said = refused(plan);
    assert!(said.contains("no network but loopback"), "{said}");
    let mut plan = elsewhere(&room);
    plan.uid = 0;
    if rustix::process::geteuid().is_root() {
        let said = refused(plan);
        assert!(said.contains("change their modes"), "{said}");
    }
}

/// The numbers of system calls, as filtered.py takes them. Those of x86-64 and all others from 424 on are the same.
const OPEN_TREE: &str = "428";
#[cfg(target_arch = "x86_64")]
const OPEN_TREE_AND_MOUNT: &str = "428,165";

/// `trumanfs run` of `words` where some system calls are refused, in a home that does not lie below /tmp.
fn run_filtered(refused: &str, options: &[&str], words: &[&str]) -> std::process::Output {
    filtered(refused, &[&["run"], options, &["--"], words].concat())
}

/// A verb with its options behind `--root` and `--policy`, likewise.
fn filtered(refused: &str, words: &[&str]) -> std::process::Output {
    let script = r#"
        { grep -F ' - fuse.trumanfs ' /proc/self/mountinfo || true; } | cut -d' ' -f5 | while read -r at; do umount --lazy "$at" 2>/dev/null || ! mountpoint -q "$at"; done
        mount -t tmpfs -o mode=755 none /mnt
        mkdir /mnt/home /mnt/store /mnt/bin /mnt/tmp
        chown "$1" /mnt/home /mnt/store /mnt/tmp
        mknod -m 666 /mnt/fuse c 10 229
        mount --bind /mnt/fuse /dev/fuse
        printf '"sh": {flags: {-c: text}, arguments: text}\n' >/mnt/policy.yaml
        cp "$2" /mnt/bin/trumanfs
        cp "$3" /mnt/bin/filtered.py
        user="setpriv --reuid=$1 --regid=$1 --clear-groups" refused=$4
        export TMPDIR=/mnt/tmp HOME=/mnt/tmp
        unset XDG_RUNTIME_DIR
        shift 4
        $user /mnt/bin/trumanfs mount /mnt/store /mnt/home
        trap '$user /mnt/bin/trumanfs umount /mnt/home' EXIT
        verb=$1
        shift
        set -- /mnt/bin/trumanfs "$verb" --root /mnt/home --policy /mnt/policy.yaml "$@"
        python3 /mnt/bin/filtered.py "$refused" $user "$@"
    "#;
    let mut run = Command::new("unshare");
    run.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-euc",
        script,
        "sh",
    ]);
    run.args([USER]).arg(binary());
    run.arg(repository().join("tests/sandbox/filtered.py"));
    run.arg(refused).args(words);
    run_limited(run, Duration::from_secs(60))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn bwrap_takes_over_where_own_namespaces_are_refused_and_nothing_else_does() {
    crate::common::need_mount!();
    need_root!("to become an ordinary user, who mounts where the tests say");
    need_tools!("unshare", "setpriv", "bwrap", "fusermount3", "python3");
    let words = ["sh", "-c", "id -u; echo kept >kept"];
    // Nothing is refused but a number that nothing calls.
    let output = run_filtered("999", &["--json"], &words);
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    assert_eq!(said["sandbox"], "namespaces", "{said}");
    // The calls by which own mounts are made, and not bubblewrap's.
    let output = run_filtered(OPEN_TREE, &["--json"], &words);
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    assert_eq!(said["sandbox"], "bwrap", "{said}");
    assert_eq!(said["stdout"], "65534\n", "{said}");
    // And those that a kernel before Linux 5.12 does not know.
    for unknown in ["428=38", "429=38", "442=38"] {
        let output = run_filtered(unknown, &["--json"], &words);
        let said: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", describe(&output)));
        assert_eq!(said["sandbox"], "bwrap", "{unknown}: {said}");
        assert_eq!(said["stdout"], "65534\n", "{unknown}: {said}");
    }
    // Programs of a line, likewise.
    let line = "sh -c 'echo kept >kept; cat kept; exec id -u' | cat";
    let output = filtered(OPEN_TREE, &["exec", "--json", line]);
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    assert_eq!(said["sandbox"], "bwrap", "{said}");
    assert_eq!(said["stdout"], "kept\n65534\n", "{said}");
    // Whoever asks for one gets that one or an error.
    let output = run_filtered(OPEN_TREE, &["--sandbox", "namespaces"], &words);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    let output = run_filtered("999", &["--sandbox", "bwrap", "--json"], &words);
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    assert_eq!(said["sandbox"], "bwrap", "{said}");
    // Where neither can be made, nothing runs.
    let output = run_filtered(OPEN_TREE_AND_MOUNT, &["--json"], &words);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    assert_eq!(said["status"], "blocked", "{said}");
    assert!(said["sandbox"].is_null() && said["stdout"] == "", "{said}");
    let why = said["error_message"].as_str().unwrap();
    let reasons = ": Operation not permitted; nor with bwrap: cannot have the sandbox made: ";
    assert!(why.contains(reasons), "{why}");
}

/// The number of the parent of a process.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_sandbox_ends_whole_whoever_of_bwrap_s_is_killed() {
    need_tools!("bwrap");
    let launcher = launcher().with_choice(BackendChoice::Only(Backend::Bwrap));
    let room = match rustix::process::geteuid().is_root() {
        true => Room::of(12345),
        false => Room::new(),
    };
    for kills_outer in [true, false] {
        let mut plan = room.plan(&["sleep", "1000"]);
        plan.home_path = "/home/agent".into();
        plan.cwd = plan.home_path.clone();
        let mut running = launch(plan, &launcher).unwrap();
        let first = running.pid();
        let own = i32::try_from(std::process::id()).unwrap();
        let outer = parent(first);
        assert_eq!(
            parent(outer),
            own,
            "bwrap waits outside, as a child of the launcher"
        );
        let victim = if kills_outer { outer } else { first };
        let victim = rustix::process::Pid::from_raw(victim).unwrap();
        rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
        let deadline = Some(std::time::Instant::now() + Duration::from_millis(500));
        let ended = running.wait(KillCondition {
            deadline,
            cancel: None,
        });
        // Without its keeper the sandbox goes on until its time is up; without its first process it is over.
        let end = if kills_outer {
            ProgramEnd::Deadline
        } else {
            ProgramEnd::Killed
        };
        assert_eq!((ended.end, ended.all_gone), (end, true));
        // (Who takes in the orphan may not have waited for it yet.)
        let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
}
