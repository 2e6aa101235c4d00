//! No line outlives its time, whatever its commands are doing, and the process lives on.
//!
//! The home is one that only a test can have: a tree without an end, whose files have none either, and in which each
//! change takes a while. A command that did not look at its token would never end here.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::FileType;
use trumanfs::error::{Error, Result};
use trumanfs::exec::home::{DirEntry, Home, HomeUnavailable, RequestStart, WriteMode};
use trumanfs::exec::mounted_home::MountedHome;
use trumanfs::exec::pipeline::{self, RequestStreams};
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{CancelToken, Limits, Outcome, Request, Status};
use trumanfs::name::WorldPath;
use trumanfs::world::{Id, Meta, SetAttrs};

/// How long a line has.
const TIME: Duration = Duration::from_millis(300);
/// How long a change takes.
const SLOW: Duration = Duration::from_millis(20);

/// A stream of lines without an end, slow enough that nothing that keeps it uses up the memory.
fn endless() -> File {
    let (read, write) = rustix::pipe::pipe().unwrap();
    std::thread::spawn(move || {
        let mut write = File::from(write);
        let lines = "x y z\n".repeat(1000);
        while write.write_all(lines.as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    File::from(read)
}

/// A tree in which each directory has a directory `d` and a file `f`.
struct Endless {
    dir: Meta,
    file: Meta,
}

impl Endless {
    fn shell(time: Option<Duration>) -> Shell {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("f"), "x\n").unwrap();
        let real = MountedHome::open(here.path()).unwrap();
        let stat = |path: &[u8]| real.stat(&WorldPath::parse(path).unwrap()).unwrap();
        let home = Endless {
            dir: stat(b""),
            file: stat(b"f"),
        };
        let limits = Limits {
            time,
            memory: 0,
            ..Limits::default()
        };
        Shell::new(Arc::new(home), b"/home", limits)
    }
}

impl Home for Endless {
    fn begin(
        self: Arc<Self>,
        _: &RequestStart<'_>,
    ) -> std::result::Result<Arc<dyn Home>, HomeUnavailable> {
        Ok(self)
    }

    fn has_changed(&self) -> bool {
        false
    }

    fn stat(&self, path: &WorldPath) -> Result<Meta> {
        // Each has an inode of its own.
        let number = |n: u64, byte: &u8| n.wrapping_mul(31).wrapping_add(u64::from(*byte));
        let inode = path.bytes().iter().fold(7, number);
        let of = |meta: Meta| Meta {
            id: Id(meta.id.0, inode),
            ..meta
        };
        match path.name().map(|name| name.bytes().to_vec()).as_deref() {
            None | Some(b"d") => Ok(of(self.dir)),
            Some(name) if name.starts_with(b"f") => Ok(of(self.file)),
            Some(_) => Err(Error::NotFound),
        }
    }

    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>> {
        let stat = |name: &&[u8]| {
            let name = trumanfs::name::Name::new(name)?;
            self.stat(&dir.join(name))
        };
        Ok(names.iter().map(stat).collect())
    }

    fn open(&self, path: &WorldPath) -> Result<File> {
        match path.name().map(|name| name.bytes().to_vec()).as_deref() {
            None | Some(b"d") => Err(Error::IsDirectory),
            Some(b"fhang") => {
                std::thread::sleep(Duration::from_secs(3600));
                Err(Error::NotFound)
            }
            // It says of each place that its data ends there.
            Some(b"fz") => Ok(File::open("/dev/zero").unwrap()),
            _ => Ok(endless()),
        }
    }

    fn open_write(&self, path: &WorldPath, _: WriteMode, _: u32) -> Result<File> {
        std::thread::sleep(SLOW);
        if path.bytes() == b"copied" {
            return Ok(tempfile::tempfile().unwrap());
        }
        Ok(File::options().write(true).open("/dev/null").unwrap())
    }

    fn list(&self, _: &WorldPath) -> Result<Vec<DirEntry>> {
        let entry = |name: &[u8], kind| DirEntry {
            name: name.to_vec(),
            kind,
            ino: 1,
        };
        Ok(vec![
            entry(b"d", FileType::Directory),
            entry(b"f", FileType::RegularFile),
        ])
    }

    fn mkdir(&self, _: &WorldPath, _: u32) -> Result<()> {
        std::thread::sleep(SLOW);
        Ok(())
    }

    fn remove(&self, _: &WorldPath) -> Result<()> {
        std::thread::sleep(SLOW);
        Ok(())
    }

    fn remove_dir(&self, _: &WorldPath) -> Result<()> {
        std::thread::sleep(SLOW);
        Ok(())
    }

    fn remove_tree(&self, _: &WorldPath, go_on: &dyn Fn() -> bool) -> Result<()> {
        while go_on() {
            std::thread::sleep(SLOW);
        }
        Err(Error::os("unlinkat")(rustix::io::Errno::INTR))
    }

    fn rename(&self, _: &WorldPath, _: &WorldPath, _: bool) -> Result<()> {
        std::thread::sleep(SLOW);
        Ok(())
    }

    fn set_attrs(&self, _: &WorldPath, _: &SetAttrs) -> Result<()> {
        std::thread::sleep(SLOW);
        Ok(())
    }
}

/// The end of a pipe from which nothing ever comes, and the other end, which keeps it so.
fn silence() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().unwrap()
}

#[track_caller]
fn is_late(outcome: &Outcome, line: &str) {
    let told = String::from_utf8_lossy(&outcome.stderr);
    let is_told = told.ends_with("bash: the line's time is up\n") || outcome.truncated_stderr;
    let told = told.get(..told.len().min(200)).unwrap_or_default();
    assert_eq!(outcome.status, Status::Timeout, "{line}: {told}");
    assert_eq!(outcome.return_code, 124, "{line}");
    assert!(is_told, "{line}: {told}");
    // It ended by itself: nothing of it goes on.
    assert_eq!(outcome.warnings, Vec::<String>::new(), "{line}");
}

#[test]
fn every_command_ends_with_its_time() {
    let mut shell = Endless::shell(Some(TIME));
    let many = "f{1..900}";
    for line in [
        "cat f > /dev/null",
        "cat f | cat | cat > /dev/null",
        "cat f > g",
        "cat -n f > /dev/null",
        "cp fz copied",
        "cp -r d g",
        &format!("cp {many} d"),
        "date -f f",
        "find .",
        "find . -name x",
        "find . -type f -exec cat {} \\;",
        "find d -delete",
        "find . -exec wc -c {} +",
        "grep w f",
        "grep -c x f",
        "grep -r w .",
        "grep -rL w .",
        "cat f | grep -v x",
        "head -c 4000000000000 f > /dev/null",
        "head -n 1000000000 f > /dev/null",
        "head -c -5 f > /dev/null",
        "tail -c +2 f > /dev/null",
        "cat f | tail -c 5",
        "ls -R",
        "ls -lR",
        &format!("mkdir {}", many.replace('f', "n")),
        &format!("mv {many} d"),
        "rm -r d",
        &format!("rm {many}"),
        &format!("touch {}", many.replace('f', "n")),
        &format!("touch {many}"),
        "wc f",
        "wc -l f",
        "cat f | wc -c",
        "X=$(cat f)",
        "X=$(< f)",
        "echo $(cat f | wc -l)",
        "(cat f; echo never) > /dev/null",
        "cat < f > /dev/null && echo never",
    ] {
        let outcome = shell.run(line.as_bytes());
        is_late(&outcome, line);
    }
    assert_eq!(shell.run(b"echo on").stdout, b"on\n");
}

#[test]
fn every_command_that_waits_for_its_input_ends_with_its_time() {
    let mut shell = Endless::shell(Some(TIME));
    for line in [
        "cat",
        "cat -n -",
        "grep x",
        "head",
        "tail",
        "wc",
        "date -f -",
        "grep -f -",
        "cat | cat | cat",
        "cat | head -1 | wc -l",
        "(cat)",
        "{ cat; echo never; } > /dev/null",
        "echo x > /dev/null; cat",
    ] {
        let (silent, _kept_open) = silence();
        let outcome = shell.run_with_stdin(line.as_bytes(), Some(silent));
        is_late(&outcome, line);
    }
    assert_eq!(shell.run(b"echo on").stdout, b"on\n");
}

#[test]
fn a_line_ends_when_somebody_says_so() {
    let mut shell = Endless::shell(None);
    let flag = Arc::new(AtomicUsize::new(0));
    let (silent, _kept_open) = silence();
    let setter = flag.clone();
    let said = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        setter.store(15, Ordering::Relaxed);
    });
    let request = Request {
        cancel: Some(CancelToken::from_signal(flag)),
        ..shell.request(b"cat")
    };
    let (outcome, _) = pipeline::execute_gathering(&mut shell, &request, Some(silent));
    said.join().unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(outcome.stderr, b"bash: interrupted by SIGTERM\n");
    assert_eq!(outcome.return_code, 143);
    assert_eq!(shell.run(b"echo on").stdout, b"on\n");
}

/// Somebody who reads none of it, and does not go away.
struct Stuck;

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_secs(3600));
        Ok(0)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What hangs below a line cannot be ended. The request is, and the shell goes on as it was before the line.
#[test]
fn a_line_that_hangs_in_a_system_call_is_left_behind() {
    let mut shell = Endless::shell(Some(TIME));
    shell.run(b"X=before");
    let outcome = shell.run(b"X=after; cat fhang");
    assert_eq!(
        (outcome.status, outcome.return_code),
        (Status::Timeout, 124)
    );
    assert_eq!(outcome.stderr, b"bash: the line's time is up\n");
    assert_eq!(outcome.warnings.len(), 1);
    assert_eq!(shell.run(b"echo $X").stdout, b"before\n");
    let outcome = shell.run(b"cat fhang | cat");
    assert_eq!(outcome.status, Status::Timeout);
    let request = shell.request(b"echo x");
    let streams = RequestStreams {
        stdin: None,
        stdout: Box::new(Stuck),
        stderr: Box::new(std::io::sink()),
    };
    let (outcome, _) = pipeline::execute(&mut shell, &request, streams);
    assert_eq!(outcome.status, Status::Timeout);
    assert_eq!(shell.run(b"echo on").stdout, b"on\n");
}

/// The program ends with the line, and its exit code says why.
#[test]
fn exec_ends_with_its_time_though_nobody_reads_what_it_writes() {
    let dir = tempfile::tempdir().unwrap();
    let big = File::create(dir.path().join("big")).unwrap();
    big.set_len(1 << 40).unwrap();
    let (_unread, full) = rustix::pipe::pipe().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_trumanfs"));
    command.args([
        "exec",
        "--timeout",
        "0.3",
        "--max-bytes",
        "0",
        "--max-lines",
        "0",
        "--root",
    ]);
    command.arg(dir.path()).args(["--", "cat big"]);
    command.stdout(full.as_fd().try_clone_to_owned().unwrap());
    assert_eq!(command.status().unwrap().code(), Some(124));
    assert!(Path::new(dir.path()).exists());
}
