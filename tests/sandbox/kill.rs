//! Ends: of the program, of its launcher, of what it has left behind.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trumanfs::exec::program::sandbox::{KillCondition, ProgramEnd};

use crate::room::{Room, start};

/// A script that leaves a process behind which has left its session and its parents, and writes its number.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 & echo $! >started' & while ! [ -s started ]; do sleep 0.01; done; ";

#[test]
fn a_daemonised_child_ends_with_the_program() {
    let room = Room::new();
    let outcome = room.run(room.plan(&["sh", "-c", &format!("{DAEMON} exit 3")]));
    assert_eq!(outcome.ended.end, ProgramEnd::Exited(3));
    assert!(outcome.ended.all_gone);
    assert!(room.home.join("started").exists());
    let (line, _) = outcome.ended.background.lines.first().unwrap();
    assert!(line.ends_with(b"sleep\x001000"), "{line:?}");
}

#[test]
fn a_deadline_ends_everything() {
    let room = Room::new();
    let script = format!("trap '' TERM INT HUP; {DAEMON} sleep 1000");
    let deadline = Some(Instant::now() + Duration::from_millis(700));
    let outcome = room.run_until(
        room.plan(&["sh", "-c", &script]),
        KillCondition {
            deadline,
            cancel: None,
        },
    );
    assert_eq!(outcome.ended.end, ProgramEnd::Deadline);
    assert!(outcome.ended.all_gone);
}

#[test]
fn a_cancelled_program_ends() {
    let room = Room::new();
    let (ours, theirs) = rustix::pipe::pipe().unwrap();
    let mut running = start(room.plan(&["sleep", "1000"])).unwrap();
    drop(theirs);
    let ended = running.wait(KillCondition {
        deadline: None,
        cancel: Some(std::os::fd::AsFd::as_fd(&ours)),
    });
    assert_eq!(ended.end, ProgramEnd::Cancelled);
    assert!(ended.all_gone);
}

#[test]
fn a_killed_sandbox_is_told_from_an_exit() {
    let room = Room::new();
    let mut running = start(room.plan(&["sleep", "1000"])).unwrap();
    running.kill();
    assert_eq!(
        running.wait(KillCondition::default()).end,
        ProgramEnd::Killed
    );
    assert_eq!(
        room.run(room.plan(&["sh", "-c", "kill -9 $$"])).ended.end,
        ProgramEnd::Signalled(9)
    );
    // Nobody in the sandbox can end its first process.
    let script = "kill -9 1; kill -STOP 1; kill -9 -1; exit 4";
    let end = room.run(room.plan(&["sh", "-c", script])).ended.end;
    assert!(matches!(end, ProgramEnd::Exited(4)), "{end:?}");
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

/// An ext4 in a file, unmounted when dropped. When it is frozen, what writes waits in the kernel, and so does who waits for
/// that.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Result<Self, String> {
        let disk = Self(tempfile::TempDir::with_prefix("trumanfs-disk-").unwrap());
        let image = disk.0.path().join("image");
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        fs::create_dir(disk.at()).unwrap();
        let (image, at) = (image.to_str().unwrap(), disk.at());
        run("mkfs.ext4", &["-q", image])?;
        run("mount", &["-o", "loop", image, at.to_str().unwrap()])?;
        Ok(disk)
    }

    fn at(&self) -> PathBuf {
        self.0.path().join("mnt")
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let mut command = std::process::Command::new(program);
    command.args(args);
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(crate::common::describe(&output)),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run("umount", &[self.at().to_str().unwrap()]);
    }
}

/// A disk that is frozen until this is dropped: before the home on it, whose daemon could not end.
struct Frozen(PathBuf);

impl Frozen {
    fn new(disk: &Disk) -> Self {
        let frozen = Self(disk.at());
        run("fsfreeze", &["-f", frozen.0.to_str().unwrap()]).unwrap();
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = run("fsfreeze", &["-u", self.0.to_str().unwrap()]);
    }
}

#[test]
fn what_hangs_in_the_home_hangs_nobody_else() {
    crate::common::need_mount!();
    crate::common::need_root!("for a disk that can be frozen");
    let disk = match Disk::new() {
        Ok(disk) => disk,
        Err(why) => crate::need::skip!("ext4", "{why}"),
    };
    let home = crate::common::Home::on(&disk.at(), &[]);
    let room = Room::of(0);
    let mut plan = room.plan(&["sh", "-c", "echo >file; echo >other"]);
    plan.home = fs::File::open(home.home()).unwrap().into();
    plan.home_path = home.home().to_owned();
    plan.cwd = home.home().to_owned();
    plan.limits.memory = Some(1 << 30);
    let frozen = Frozen::new(&disk);
    let began = Instant::now();
    let mut running = start(plan).unwrap();
    let deadline = Some(Instant::now() + Duration::from_millis(500));
    let ended = running.wait(KillCondition {
        deadline,
        cancel: None,
    });
    let pidfd = running.pidfd().try_clone_to_owned().unwrap();
    drop(running);
    let took = began.elapsed();
    drop(frozen);
    assert_eq!(ended.end, ProgramEnd::Deadline);
    // A time limit for what hangs: the launcher waits two seconds for the end of what it has killed.
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(!ended.all_gone, "it did not hang at all");
    assert!(
        crate::common::wait_readable(&pidfd, Duration::from_secs(30)),
        "it does not end with the file system"
    );
}
