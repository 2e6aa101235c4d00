//! Ends that nobody planned: of the launcher, of the daemon, of the disk.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, Place, Store, audit, begin, err, until};
use crate::common::watch::is_mountpoint;
use crate::common::{
    describe, ending_signals, need_mount, need_root, need_tools, run_limited, trumanfs,
};

/// A script that leaves a process behind which has left its session and its parents, and then waits.
fn waits(file: &str) -> String {
    format!("setsid sh -c 'setsid sleep 1234 & echo x >{file}' & sleep 1234")
}

fn signal(child: &std::process::Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The processes that have a home of their own at a path.
fn within(home: &Path) -> Vec<PathBuf> {
    let is_in =
        |process: &Path| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(home));
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path())
        .filter(|process| is_in(process))
        .collect()
}

#[test]
fn a_launcher_that_is_killed_takes_everything_with_it() {
    need_mount!();
    let store = Store::new();
    let mut child = begin(store.command(&[], &["sh", "-c", &waits("begun")]));
    until("it runs", || store.store.join("begun").exists());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    store.is_left_alone();
    until("all are dead", || within(&store.store).is_empty());
}

#[test]
fn a_signal_cancels_and_is_written_down() {
    need_mount!();
    for sent in ending_signals() {
        let place = Place::mounted();
        let mut child = begin(place.command(&[], &["sh", "-c", &waits("begun")]));
        until("it runs", || place.home.path("begun").exists());
        signal(&child, sent);
        let code = 128 + sent.as_raw();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        until("all are dead", || within(place.home.home()).is_empty());
        let lines = audit(place.home.store());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["status"], "cancelled", "{}", lines[0]);
        assert_eq!(lines[0]["return_code"], code);
        let name = signal_hook::low_level::signal_name(sent.as_raw()).unwrap();
        assert_eq!(lines[0]["error_message"], format!("cancelled by {name}"));
        assert_eq!(lines[0]["changed"], true);
    }
}

#[test]
fn a_daemon_that_dies_ends_the_run() {
    need_mount!();
    let mut place = Place::mounted();
    let mut child = begin(place.command(
        &["--timeout", "20"],
        &[
            "sh",
            "-c",
            "echo x >begun; while echo y >>begun; do sleep 0.05; done; exit 9",
        ],
    ));
    until("it runs", || place.home.path("begun").exists());
    place.home.kill_daemon_only();
    let begun = Instant::now();
    let code = child.wait().unwrap().code();
    assert!(begun.elapsed() < Duration::from_secs(19), "it hangs");
    assert_eq!(
        code,
        Some(125),
        "the home is gone, whatever the program made of that"
    );
    place.home.detach();
}

/// Nobody knows where a store was mounted for a run, so what a daemon that was killed leaves there is taken away.
#[test]
fn a_daemon_that_dies_leaves_no_mount_for_a_run() {
    need_mount!();
    let store = Store::new();
    let mut child = begin(store.command(&[], &["sh", "-c", &waits("begun")]));
    until("it runs", || store.store.join("begun").exists());
    let status = trumanfs(&[
        OsStr::new("status"),
        store.store.as_os_str(),
        OsStr::new("--json"),
    ]);
    let status = super::parsed(&status);
    let home = PathBuf::from(status["home"].as_str().unwrap());
    let is_there = is_mountpoint(&home) || status["only_in_sandboxes"] == true;
    assert!(is_there && home.exists());
    let daemon = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(125));
    assert!(!is_mountpoint(&home) && !home.exists());
    assert_eq!(audit(&store.store)[0]["changed"], true, "it may have");
    // The next one finds a store that was not unmounted, and goes on.
    let next = store.run(&[], &["sh", "-c", "ls"]);
    assert_eq!(super::good(&next), "begun\n");
}

/// A program that waits for a file system that does not answer cannot be killed; nobody waits for it.
#[test]
fn a_home_that_does_not_answer_hangs_nobody() {
    need_mount!();
    let place = Place::mounted();
    let mut child = begin(place.command(
        &["--timeout", "3"],
        &[
            "sh",
            "-c",
            "echo x >begun; while :; do echo y >another; rm another; done",
        ],
    ));
    until("it runs", || place.home.path("begun").exists());
    let daemon = Pid::from_raw(place.home.daemon_pid().try_into().unwrap()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begun.elapsed() > Duration::from_secs(30) => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    kill_process(daemon, Signal::CONT).unwrap();
    let status = ended.expect("the launcher hangs");
    child.wait().unwrap();
    assert_eq!(status.code(), Some(124));
    let lines = audit(place.home.store());
    assert_eq!(lines[0]["status"], "timeout");
}

#[test]
fn a_daemon_that_does_not_answer_lets_nobody_in_and_says_so() {
    need_mount!();
    let place = Place::mounted();
    let daemon = Pid::from_raw(place.home.daemon_pid().try_into().unwrap()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let output = run_limited(place.command(&[], &["true"]), LIMIT);
    kill_process(daemon, Signal::CONT).unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    assert!(err(&output).contains("does not answer"), "{}", err(&output));
}

/// On a full disk a program sees that, and the request ends and is told like any.
#[test]
fn a_full_disk_is_the_program_s_own_failure() {
    need_mount!();
    need_root!("to mount a small file system");
    need_tools!("mount");
    let dir = tempfile::TempDir::with_prefix("trumanfs-full-").unwrap();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounting = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(args).arg(&disk);
        let output = run_limited(command, LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
    };
    mounting("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
    let store = disk.join("store");
    fs::create_dir(&store).unwrap();
    let policy = dir.path().join("policy.yaml");
    fs::write(&policy, super::POLICY).unwrap();
    let run = |script: &str| {
        run_limited(
            super::command(&store, &policy, &["--json"], &["sh", "-c", script]),
            LIMIT,
        )
    };
    let output = run("head -c 20000000 /dev/zero >/tmp/big; echo $?; rm /tmp/big; echo x >file");
    let outcome = super::parsed(&output);
    assert_eq!(outcome["stdout"], "1\n", "{outcome}");
    assert!(
        outcome["stderr"]
            .as_str()
            .unwrap()
            .contains("No space left"),
        "{outcome}"
    );
    let output = run("head -c 20000000 /dev/zero >/tmp/big; exit 4");
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    until("the store is unmounted", || {
        !crate::common::watch::mounts()
            .iter()
            .any(|mount| mount.kind.contains("trumanfs") && mount.source.contains("full"))
            && !store.join(".trumanfs/scratch").exists()
    });
    assert_eq!(fs::read_to_string(store.join("file")).unwrap(), "x\n");
    let again = Instant::now() + Duration::from_secs(20);
    loop {
        let mut command = std::process::Command::new("umount");
        let output = run_limited(
            {
                command.arg(&disk);
                command
            },
            LIMIT,
        );
        if output.status.success() {
            break;
        }
        assert!(Instant::now() < again, "{}", describe(&output));
        std::thread::sleep(Duration::from_millis(50));
    }
}
