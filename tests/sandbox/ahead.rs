//! First processes that a launcher starts ahead: the next launch takes them, and they end with their launcher.
//!
//! Each launcher is in a child of its own, so that its first processes can be found among its children.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use trumanfs::exec::program::sandbox::{KillCondition, Launcher, ProgramEnd, launch};

use crate::common::child;
use crate::room::{Room, launcher};

const LIMIT: Duration = Duration::from_secs(60);

/// The first processes among the children of a process.
fn first_processes(parent: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    all.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, in parentheses: the state and the parent.
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        // The words of a stranger are not read: that waits for its memory, and so for a file system that hangs.
        after.split(' ').nth(1) == Some(&parent.to_string())
            && fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|words| words.windows(14).any(|part| part == b"__sandbox-init"))
    })
    .collect()
}

/// Waits until a process has this many first processes.
fn wait_for(parent: i32, count: usize) -> Result<Vec<i32>, String> {
    let end = Instant::now() + LIMIT;
    loop {
        let found = first_processes(parent);
        if found.len() == count {
            return Ok(found);
        }
        if Instant::now() > end {
            return Err(format!("{found:?} are not {count}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process has ended, whether it was waited for or not.
fn wait_until_over(pid: i32) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    while fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z")) {
        if Instant::now() > end {
            return Err(format!("{pid} does not end"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn me() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Launches `exit 3` in a room; returns the number of the sandbox's first process.
fn launched(room: &Room, launcher: &Launcher) -> Result<i32, String> {
    let plan = room.plan(&["sh", "-c", "exit 3"]);
    let mut running = launch(plan, launcher).map_err(|error| error.to_string())?;
    let pid = running.pid();
    let deadline = Some(Instant::now() + LIMIT);
    let cancel = None;
    match running.wait(KillCondition { deadline, cancel }).end {
        ProgramEnd::Exited(3) => Ok(pid),
        other => Err(format!("{other:?}")),
    }
}

/// Does this beside a launcher that has a first process for the room's user, in a child; the process's number is passed.
fn beside(room: &Room, act: impl FnOnce(&Launcher, i32) -> Result<(), String>) {
    let plan = room.plan(&["true"]);
    let done = child::spawn(|| {
        let launcher = launcher();
        launcher.prepare(plan.uid, plan.gid);
        // Once more is not one more.
        launcher.prepare(plan.uid, plan.gid);
        let first = wait_for(me(), 1)?;
        act(&launcher, first[0])?;
        drop(launcher);
        wait_for(me(), 0)?;
        Ok(String::new())
    });
    done.join().unwrap();
}

#[test]
fn a_launch_takes_the_one_that_waits_and_the_next_one_none() {
    let room = Room::new();
    beside(&room, |launcher, first| {
        let taken = launched(&room, launcher)?;
        let another = launched(&room, launcher)?;
        if taken != first || another == first {
            return Err(format!("{first} waited, {taken} and {another} ran"));
        }
        Ok(())
    });
}

#[test]
fn one_that_was_killed_or_is_for_another_user_does_not_count() {
    let room = Room::new();
    beside(&room, |launcher, first| {
        let pid = Pid::from_raw(first).ok_or("no number")?;
        kill_process(pid, Signal::KILL).map_err(|error| error.to_string())?;
        wait_until_over(first)?;
        launched(&room, launcher)?;
        // Who is not root can start none for others.
        launcher.prepare(4_000_001, 4_000_001);
        launched(&room, launcher).map(drop)
    });
}

#[test]
fn one_that_waits_has_no_mounts_of_its_own_that_keep_the_host_s_busy() {
    let room = Room::new();
    beside(&room, |_, first| {
        let of = |pid: String| fs::read_link(format!("/proc/{pid}/ns/mnt"));
        match (of(first.to_string()), of("self".to_owned())) {
            (Ok(its), Ok(ours)) if its == ours => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn one_that_waits_ends_with_its_launcher() {
    let room = Room::new();
    let plan = room.plan(&["true"]);
    let launching = child::spawn(move || {
        let launcher = launcher();
        launcher.prepare(plan.uid, plan.gid);
        std::thread::sleep(LIMIT);
        Ok(String::new())
    });
    let first = wait_for(launching.pid(), 1).unwrap()[0];
    kill_process(Pid::from_raw(launching.pid()).unwrap(), Signal::KILL).unwrap();
    let _ = launching.join();
    wait_until_over(first).unwrap();
}
