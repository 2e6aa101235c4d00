//! Ends: of the program, of its launcher, of what it has left behind.

use std::fs;
use std::time::{Duration, Instant};

use trumanfs::exec::program::sandbox::{End, Until};

use crate::room::{Room, start};

/// A script that leaves a process behind which has left its session and its parents, and writes its number.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 & echo $! >started' & while ! [ -s started ]; do sleep 0.01; done; ";

#[test]
fn a_daemonised_child_ends_with_the_program() {
    let room = Room::new();
    let outcome = room.run(room.plan(&["sh", "-c", &format!("{DAEMON} exit 3")]));
    assert_eq!(outcome.ended.end, End::Exited(3));
    assert!(outcome.ended.all_gone);
    assert!(room.home.join("started").exists());
}

#[test]
fn a_deadline_ends_everything() {
    let room = Room::new();
    let script = format!("trap '' TERM INT HUP; {DAEMON} sleep 1000");
    let deadline = Some(Instant::now() + Duration::from_millis(700));
    let outcome = room.run_until(
        room.plan(&["sh", "-c", &script]),
        Until {
            deadline,
            cancel: None,
        },
    );
    assert_eq!(outcome.ended.end, End::Deadline);
    assert!(outcome.ended.all_gone);
}

#[test]
fn a_cancelled_program_ends() {
    let room = Room::new();
    let (ours, theirs) = rustix::pipe::pipe().unwrap();
    let mut running = start(room.plan(&["sleep", "1000"])).unwrap();
    drop(theirs);
    let ended = running.wait(Until {
        deadline: None,
        cancel: Some(std::os::fd::AsFd::as_fd(&ours)),
    });
    assert_eq!(ended.end, End::Cancelled);
    assert!(ended.all_gone);
}

#[test]
fn a_killed_sandbox_is_told_from_an_exit() {
    let room = Room::new();
    let mut running = start(room.plan(&["sleep", "1000"])).unwrap();
    running.kill();
    assert_eq!(running.wait(Until::default()).end, End::Killed);
    assert_eq!(
        room.run(room.plan(&["sh", "-c", "kill -9 $$"])).ended.end,
        End::Signalled(9)
    );
    // Nobody in the sandbox can end its first process.
    let script = "kill -9 1; kill -STOP 1; kill -9 -1; exit 4";
    let end = room.run(room.plan(&["sh", "-c", script])).ended.end;
    assert!(matches!(end, End::Exited(4)), "{end:?}");
}

#[test]
fn the_launcher_s_death_ends_everything() {
    let room = Room::new();
    let script = format!("{DAEMON} sleep 1000");
    let plan = room.plan(&["sh", "-c", &script]);
    let started = room.home.join("started");
    // The launcher is a child that is killed; its sandbox's first process says so by the end of a pipe that only the
    // sandbox's processes hold.
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut plan = plan;
    plan.stdout = writing;
    let child = crate::common::child::spawn(move || {
        let _running = start(plan).map_err(|error| error.to_string())?;
        std::thread::sleep(Duration::from_secs(60));
        Ok(String::new())
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fs::read(&started).is_ok_and(|text| !text.is_empty()) {
        assert!(Instant::now() < deadline, "the program did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.pid()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let _ = child.join();
    assert!(
        crate::common::wait_readable(&reading, Duration::from_secs(10)),
        "the sandbox outlives its launcher"
    );
    let mut byte = [0];
    assert_eq!(
        rustix::io::read(&reading, &mut byte).unwrap(),
        0,
        "the end of the pipe"
    );
}
