//! The first process: which program it is, and that its end is waited for.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::fs::SealFlags;
use trumanfs::exec::program::sandbox::{KillCondition, Launcher, ProgramEnd, launch};

use crate::common::{self, child};
use crate::need::skip;
use crate::room::{LIMIT, Room, launcher};

fn soon() -> KillCondition<'static> {
    KillCondition {
        deadline: Some(Instant::now() + LIMIT),
        cancel: None,
    }
}

#[test]
fn it_is_a_file_in_memory_that_nobody_can_change() {
    let room = Room::new();
    let plan = room.plan(&["sleep", "1000"]);
    let mut running = launch(plan, &launcher()).unwrap();
    let exe = format!("/proc/{}/exe", running.pid());
    let looked = fs::read_link(&exe).map(|path| path.display().to_string());
    let seals = fs::File::open(&exe).map(|file| rustix::fs::fcntl_get_seals(file).unwrap());
    running.kill();
    assert_eq!(running.wait(soon()).end, ProgramEnd::Killed);
    let looked = looked.unwrap();
    if looked.contains("/trumanfs") {
        skip!(
            "tools",
            "this build has no static first process: see what build.rs said"
        );
    }
    assert!(looked.contains("memfd:trumanfs-init"), "{looked}");
    assert!(seals.unwrap().contains(SealFlags::WRITE | SealFlags::SEAL));
}

#[test]
fn the_whole_program_can_be_it_too() {
    let room = Room::new();
    let launcher = Launcher::of(Path::new(common::binary())).unwrap();
    for code in [0, 3] {
        let plan = room.plan(&["sh", "-c", &format!("exit {code}")]);
        let mut running = launch(plan, &launcher).unwrap();
        let ended = running.wait(soon());
        assert_eq!(
            (ended.end, ended.all_gone),
            (ProgramEnd::Exited(code), true)
        );
    }
}

#[test]
fn what_was_used_is_told_at_the_end() {
    let room = Room::new();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; (exit 7)";
    let mut running = launch(room.plan(&["sh", "-c", busy]), &launcher()).unwrap();
    let ended = running.wait(soon());
    assert_eq!(ended.end, ProgramEnd::Exited(7));
    assert!(ended.cpu.as_millis() > 10, "{ended:?}");
    assert!(ended.memory > 500 << 10, "{ended:?}");
}

#[test]
fn its_launcher_waits_for_it_at_the_latest_at_its_own_end() {
    let room = Room::new();
    let done = child::spawn(|| {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let launcher = launcher();
        for _ in 0..20 {
            let plan = room.plan(&["true"]);
            let mut running = launch(plan, &launcher).map_err(|error| error.to_string())?;
            let ended = running.wait(soon());
            if ended.end != ProgramEnd::Exited(0) || !ended.all_gone {
                return Err(format!("{ended:?}"));
            }
        }
        drop(launcher);
        // Ended ones that nobody has waited for count.
        let path = format!("/proc/{me}/task/{me}/children");
        let left = fs::read_to_string(path).map_err(|error| error.to_string())?;
        match left.trim() {
            "" => Ok(String::new()),
            left => Err(format!("{left} are left")),
        }
    });
    done.join().unwrap();
}
