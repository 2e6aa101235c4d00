//! Copies of files that somebody writes to meanwhile, by real programs: each copy is whole, or there is none.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::host::{Host, Told};
use crate::common::{
    COMMAND_LIMIT, Home, copy_program, need_mount, need_root, run_limited, skip, tool,
};

/// How long the file is.
const LENGTH: usize = 8 << 20;

/// The number of bytes that are written at once.
const STEP: usize = 256 << 10;

/// Writes the file anew without end, each time with another byte from its beginning to its end, and puts its times back: by a map
/// that stays, or each time with a descriptor of its own.
const WRITER: &str = r#"
import mmap, os, sys
way, path = sys.argv[1:]
then = os.stat(path)
size = then.st_size
if way == "map":
    held = mmap.mmap(os.open(path, os.O_RDWR), size)
step = 256 << 10
number = 0
while True:
    number = number % 250 + 1
    page = bytes([number]) * step
    if way == "map":
        for at in range(0, size, step):
            held[at:at + step] = page
    else:
        file = os.open(path, os.O_RDWR)
        for at in range(0, size, step):
            os.pwrite(file, page, at)
        os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
        os.close(file)
    if number == 1:
        print("written", flush=True)
"#;

/// A program that writes to a file until it is dropped.
struct Writer(Child);

impl Writer {
    fn start(way: &str, path: &str) -> Writer {
        let mut command = Command::new("python3");
        command
            .args(["-c", WRITER, way, path])
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut said).unwrap();
        let writer = Writer(child);
        assert_eq!(said, "written\n");
        // The pipe ends here, and the program does not write more than a line in a long time.
        std::mem::forget(out);
        writer
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a file had this content at one moment: another byte up to where the writer was, which may have waited
/// there for its turn on a processor while the file was copied.
fn is_state(content: &[u8]) -> bool {
    let (Some(new), Some(old)) = (content.first(), content.last()) else {
        return false;
    };
    let are = |steps: &[&[u8]], byte: u8| steps.iter().all(|step| step.iter().all(|b| *b == byte));
    let steps: Vec<&[u8]> = content.chunks(STEP).collect();
    let turn = steps.iter().position(|step| !are(&[*step], *new));
    let Some((before, [at, after @ ..])) = turn.and_then(|turn| steps.split_at_checked(turn))
    else {
        return true;
    };
    // The first bytes of a step may be written last.
    let new = before.first().map_or(old % 250 + 1, |step| step[0]);
    let at_it = at.iter().all(|byte| [new, *old].contains(byte));
    new == old % 250 + 1 && are(before, new) && at_it && are(after, *old)
}

/// Copies a file while a program writes to it. Each copy that is made is the file at one moment.
fn copy_while_written(host: &Host, run: &dyn Fn(&str, &[&str]) -> Told) {
    let from = host.write("from", vec![0; LENGTH]);
    for way in ["map", "pwrite"] {
        let writer = Writer::start(way, &from);
        for number in 0..8 {
            let name = format!("{way}{number}");
            let to = host.path(&name);
            let told = run(&name, &[&from, &to]);
            if told.code() == "SUCCESS" {
                let copy = fs::read(&to).unwrap();
                assert!(is_state(&copy), "{name} is torn: {told:?}");
                assert_eq!(copy.len(), LENGTH, "{name}");
            } else {
                assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
                assert!(
                    told.why().contains("changed while it was copied"),
                    "{told:?}"
                );
                assert!(!fs::exists(&to).unwrap(), "{told:?}");
            }
        }
        drop(writer);
        let name = format!("{way}-quiet");
        let told = run(&name, &[&from, &host.path(&name)]);
        assert_eq!(told.code(), "SUCCESS", "{told:?}");
    }
}

fn need_python() -> Option<&'static str> {
    tool("python3")
        .is_none()
        .then_some("python3 is not installed")
}

#[test]
fn copies_of_file_under_writing_are_whole_on_a_plain_base() {
    if let Some(why) = need_python() {
        skip!("tools", "{why}");
    }
    let host = Host::new();
    copy_while_written(&host, &|id, paths| host.does(id, "FILE_COPY", paths));
}

#[test]
fn copies_of_file_under_writing_are_whole_in_a_home() {
    need_mount!();
    if let Some(why) = need_python() {
        skip!("tools", "{why}");
    }
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let host = Host::with_bases(&[home.home()]);
        copy_while_written(&host, &|id, paths| host.does(id, "FILE_COPY", paths));
    }
}

/// Another user's file gets no lease of the kernel: it is read twice.
#[test]
fn copies_of_another_users_file_under_writing_are_whole() {
    need_root!("acting as two users");
    if let Some(why) = need_python() {
        skip!("tools", "{why}");
    }
    let host = of_nobody();
    copy_while_written(&host, &|id, paths| {
        does_as_nobody(&host, id, "FILE_COPY", paths)
    });
}

/// Makes a host whose executor can run as an ordinary user.
fn of_nobody() -> Host {
    let host = Host::new();
    copy_program(crate::common::binary(), host.dir.join("trumanfs"));
    for path in [".", "base", "executor.key", "trust.json", "task.toml"] {
        chown(host.dir.join(path), Some(65534), Some(65534)).unwrap();
    }
    host
}

fn does_as_nobody(host: &Host, id: &str, capability: &str, paths: &[&str]) -> Told {
    let manifest = host.manifest(id, capability, paths);
    let lease = host.sign(&host.lease(id, &manifest));
    let made = host.command(&manifest, &lease);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(host.dir.join("trumanfs")).args(made.get_args());
    host.told(run_limited(command, COMMAND_LIMIT))
}

/// Without any change of the file, too.
#[test]
fn copy_of_file_that_is_open_for_writing_fails() {
    let host = Host::new();
    let from = host.write("from", "content");
    let to = host.path("to");
    let writer = fs::OpenOptions::new().append(true).open(&from).unwrap();
    let told = host.does("t1", "FILE_COPY", &[&from, &to]);
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert!(
        told.why().contains("changed while it was copied"),
        "{told:?}"
    );
    assert!(!fs::exists(&to).unwrap());
    // A move within the file system copies nothing.
    let moved = host.does("t2", "FILE_MOVE", &[&from, &to]);
    assert_eq!(moved.code(), "SUCCESS", "{moved:?}");
    drop(writer);
    let told = host.does("t3", "FILE_COPY", &[&to, &from]);
    assert_eq!(told.code(), "SUCCESS", "{told:?}");
}

/// The destination's directory leaves the base when the file has been moved into it, and before that is on disk: nothing is said to
/// have failed that was done.
#[test]
fn move_into_directory_that_leaves_the_base_cannot_be_told() {
    need_root!("tracing a process that cannot be looked into");
    if tool("strace").is_none() {
        skip!("tools", "strace is not installed");
    }
    let host = Host::new();
    let from = host.write("from", "content");
    let (dir, outside) = (host.base.join("d"), host.dir.join("outside"));
    fs::create_dir(&dir).unwrap();
    let to = host.path("d/to");
    let manifest = host.manifest("t", "FILE_MOVE", &[&from, &to]);
    let lease = host.sign(&host.lease("t", &manifest));
    let made = host.command(&manifest, &lease);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2"]);
    command.args(["-e", "inject=renameat2:delay_exit=3000000", "--"]);
    command.arg(made.get_program()).args(made.get_args());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap();
    while !Path::new(&to).exists() {
        std::thread::yield_now();
    }
    fs::rename(&dir, &outside).unwrap();
    let told = host.told(child.wait_with_output().unwrap());
    assert_eq!(fs::read(outside.join("to")).unwrap(), b"content");
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert!(told.why().contains("cannot be told"), "{told:?}");
}

/// What was done in a directory that cannot be read could not be waited for until it is on disk.
#[test]
fn move_into_directory_that_cannot_be_read_does_nothing() {
    need_root!("acting as another user");
    let host = of_nobody();
    let from = host.write("from", "content");
    let dir = host.base.join("d");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o300)).unwrap();
    let told = does_as_nobody(&host, "t", "FILE_MOVE", &[&from, &host.path("d/to")]);
    assert_eq!(told.code(), "EXECUTION_FAILED", "{told:?}");
    assert_eq!(fs::read(&from).unwrap(), b"content");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn torn_content_is_no_state() {
    let content = |runs: &[(u8, usize)]| {
        let runs = runs.iter().map(|(byte, length)| vec![*byte; *length]);
        runs.collect::<Vec<_>>().concat()
    };
    assert!(is_state(&content(&[(7, LENGTH)])));
    assert!(is_state(&content(&[(8, STEP + 5), (7, LENGTH - STEP - 5)])));
    assert!(is_state(&content(&[(8, 5), (7, LENGTH - 5)])));
    assert!(is_state(&content(&[(1, STEP), (250, LENGTH - STEP)])));
    // The reader was overtaken, or read what is two turns apart.
    assert!(!is_state(&content(&[(7, STEP), (8, LENGTH - STEP)])));
    assert!(!is_state(&content(&[(9, STEP), (7, LENGTH - STEP)])));
    assert!(!is_state(&content(&[
        (8, STEP),
        (7, STEP),
        (8, LENGTH - 2 * STEP)
    ])));
    assert!(!is_state(&content(&[
        (8, STEP),
        (7, STEP),
        (6, LENGTH - 2 * STEP)
    ])));
}
