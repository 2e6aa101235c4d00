//! What a launch costs: our sandbox against `bwrap` with the same namespaces, mounts and files, for a program that does
//! nothing. Prints medians; the launches alternate, so that both meet the same machine.
//!
//! `cargo bench --bench launch [-- LAUNCHES]`, as root or not. Needs bubblewrap.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trumanfs::exec::program::sandbox::{
    KillCondition, Launcher, NetworkAccess, ProgramEnd, ResourceLimits, SandboxPlan,
    SandboxService, launch, serve,
};

/// What is launched, how (which tells what of it counts), and how long it took each time.
type Kind<'a> = (&'a str, Box<dyn Fn() -> Duration + 'a>, Vec<Duration>);

/// How long a first process that is started ahead is given before its launch: longer than it takes.
const AHEAD: Duration = Duration::from_millis(20);

/// The programs of a pipeline.
const PROGRAMS: usize = 4;

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let count: usize = given.unwrap_or(300);
    let dir = tempfile::tempdir().unwrap();
    let (home, scratch) = (dir.path().join("home"), dir.path().join("scratch"));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&scratch).unwrap();
    let launcher = Launcher::of_this_program();
    let own = Launcher::of(Path::new(env!("CARGO_BIN_EXE_trumanfs"))).unwrap();
    let limited = ResourceLimits {
        memory: Some(1 << 30),
        processes: Some(1000),
        ..ResourceLimits::default()
    };
    let there = service_of(&home, &scratch, &launcher);
    let mut kinds: Vec<Kind<'_>> = vec![
        ("a process", Box::new(|| timed(plain)), Vec::new()),
        (
            "our sandbox",
            Box::new(|| timed(|| ours(&home, &scratch, &launcher, ResourceLimits::default()))),
            Vec::new(),
        ),
        (
            "our sandbox, by a launcher of its own",
            Box::new(|| {
                timed(|| {
                    let launcher = Launcher::of_this_program();
                    ours(&home, &scratch, &launcher, ResourceLimits::default());
                })
            }),
            Vec::new(),
        ),
        (
            "our sandbox, by the whole program",
            Box::new(|| timed(|| ours(&home, &scratch, &own, ResourceLimits::default()))),
            Vec::new(),
        ),
        (
            "our sandbox, its first process started ahead",
            Box::new(|| {
                launcher.prepare(
                    rustix::process::geteuid().as_raw(),
                    rustix::process::getegid().as_raw(),
                );
                std::thread::sleep(AHEAD);
                timed(|| ours(&home, &scratch, &launcher, ResourceLimits::default()))
            }),
            Vec::new(),
        ),
        (
            "our sandbox, memory and processes limited",
            Box::new(|| timed(|| ours(&home, &scratch, &launcher, limited.clone()))),
            Vec::new(),
        ),
        (
            "bwrap",
            Box::new(|| timed(|| bwrap(&home, &scratch))),
            Vec::new(),
        ),
        (
            "a pipeline of four in a sandbox of its own",
            Box::new(|| timed(|| pipeline(&service_of(&home, &scratch, &launcher)))),
            Vec::new(),
        ),
        (
            "a spawn in a sandbox that is there",
            Box::new(|| timed(|| alone(&there))),
            Vec::new(),
        ),
    ];
    for _ in 0..count {
        for (_, run, times) in &mut kinds {
            times.push(run());
        }
    }
    println!("the pipeline is to take no more than one launch and {PROGRAMS} spawns");
    for (name, _, times) in &mut kinds {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 100).unwrap().as_micros();
        println!(
            "{name:45} median {:6} µs   tenth {:6} µs   ninetieth {:6} µs",
            at(50),
            at(10),
            at(90)
        );
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

fn null() -> File {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap()
}

fn plain() {
    assert!(Command::new("/usr/bin/true").status().unwrap().success());
}

fn ours(home: &Path, scratch: &Path, launcher: &Launcher, limits: ResourceLimits) {
    let plan = plan(home, scratch, limits);
    let ended = launch(plan, launcher)
        .unwrap()
        .wait(KillCondition::default());
    assert_eq!(ended.end, ProgramEnd::Exited(0));
}

fn service_of(home: &Path, scratch: &Path, launcher: &Launcher) -> SandboxService {
    let plan = SandboxPlan {
        argv: Vec::new(),
        ..plan(home, scratch, ResourceLimits::default())
    };
    serve(plan, launcher, |_| {}).unwrap()
}

/// Starts `true` in a sandbox that takes orders.
fn spawn(service: &SandboxService, stdin: OwnedFd, stdout: OwnedFd) -> u32 {
    let streams = [stdin, stdout, null().into()];
    let argv = ["/usr/bin/true".into()];
    service
        .start(
            &argv,
            OsStr::new("/usr/bin:/bin"),
            &[],
            OsStr::new("/"),
            None,
            streams,
        )
        .unwrap()
}

fn alone(service: &SandboxService) {
    let number = spawn(service, null().into(), null().into());
    assert_eq!(service.wait(number, &|| true), Some(ProgramEnd::Exited(0)));
}

fn pipeline(service: &SandboxService) {
    let mut input = OwnedFd::from(null());
    let numbers: Vec<u32> = (0..PROGRAMS)
        .map(|_| {
            let (next, output) = rustix::pipe::pipe().unwrap();
            spawn(service, std::mem::replace(&mut input, next), output)
        })
        .collect();
    for number in numbers {
        assert_eq!(service.wait(number, &|| true), Some(ProgramEnd::Exited(0)));
    }
}

fn plan(home: &Path, scratch: &Path, limits: ResourceLimits) -> SandboxPlan {
    SandboxPlan {
        home: File::open(home).unwrap().into(),
        further_homes: Vec::new(),
        home_is_detached: false,
        home_path: home.to_owned(),
        cwd: home.to_owned(),
        read_only: false,
        scratch: File::open(scratch).unwrap().into(),
        argv: vec!["/usr/bin/true".into()],
        env: Vec::new(),
        search_path: None,
        placed: Vec::new(),
        etc_files: Vec::new(),
        bind_ro: Vec::new(),
        private: Vec::new(),
        state_name: b".trumanfs",
        writable: Vec::new(),
        ptrace: false,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        limits,
        stdin: null().into(),
        stdout: null().into(),
        stderr: null().into(),
        terminal: None,
        network: NetworkAccess::None,
    }
}

fn bwrap(home: &Path, scratch: &Path) {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--unshare-user",
        "--die-with-parent",
        "--new-session",
        "--hostname",
        "sandbox",
    ]);
    command.args(["--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib64", "lib32", "libx32"] {
        let path = Path::new("/").join(name);
        if let Ok(target) = std::fs::read_link(&path) {
            command
                .arg("--symlink")
                .args([target.as_path(), path.as_path()]);
        } else if path.exists() {
            command.arg("--ro-bind").args([&path, &path]);
        }
    }
    for name in [
        "alternatives",
        "fonts",
        "ld.so.cache",
        "mime.types",
        "protocols",
        "services",
        "ssl/certs",
        "ssl/openssl.cnf",
        "timezone",
    ] {
        let path = Path::new("/etc").join(name);
        command.arg("--ro-bind-try").args([&path, &path]);
    }
    command.args(["--dev", "/dev", "--proc", "/proc"]);
    command.arg("--bind").arg(scratch).arg("/tmp");
    command
        .arg("--bind")
        .args([home, home])
        .arg("--chdir")
        .arg(home);
    command.args(["--cap-drop", "ALL", "/usr/bin/true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}
