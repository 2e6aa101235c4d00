//! A directory that plays the home, one for `/tmp`, and programs that run in a sandbox there.
//!
//! Tests that do not depend on the file system of the home use an ordinary directory; a really mounted home has its own
//! (`surroundings::a_mounted_home_is_the_writable_place`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trumanfs::exec::program::sandbox::{
    BackendChoice, KillCondition, LaunchError, Launcher, NetworkAccess, ProgramOutcome,
    ResourceLimits, RunningProgram, SandboxPlan, launch,
};

use crate::common;

/// The time limit of a program.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The variable that names the backend of all sandboxes of this process.
const BACKEND: &str = "TRUMANFS_TEST_SANDBOX";

/// The user of sandboxes where the tests run as root.
const OTHER: u32 = 12345;

/// A home and a scratch directory.
pub(crate) struct Room {
    dir: tempfile::TempDir,
    pub(crate) home: PathBuf,
    pub(crate) uid: u32,
}

/// The output and the end of a program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: ProgramOutcome,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// Returns the output of a program, which must have succeeded.
    pub(crate) fn good(self) -> String {
        use trumanfs::exec::program::sandbox::ProgramEnd;
        assert_eq!(self.ended.end, ProgramEnd::Exited(0), "{self:?}");
        assert!(self.ended.all_gone, "{self:?}");
        self.out
    }
}

impl Room {
    /// A room whose owner is this user; another user than root where the tests run as root.
    pub(crate) fn new() -> Self {
        let own = rustix::process::geteuid();
        Self::of(if own.is_root() { OTHER } else { own.as_raw() })
    }

    /// A room that belongs to a user.
    pub(crate) fn of(uid: u32) -> Self {
        let dir = tempfile::TempDir::with_prefix("trumanfs-sandbox-").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = fs::canonicalize(dir.path()).unwrap().join("home");
        for path in [&home, &dir.path().join("scratch")] {
            fs::create_dir(path).unwrap();
            std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
        }
        Self { dir, home, uid }
    }

    /// The directory that `/tmp` is.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.dir.path().join("scratch")
    }

    /// The directory around home and scratch, which no sandbox shows.
    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    /// A plan for a program in this room, with nothing on its streams.
    pub(crate) fn plan<A: AsRef<OsStr>>(&self, argv: &[A]) -> SandboxPlan {
        let null = || {
            OwnedFd::from(
                File::options()
                    .read(true)
                    .write(true)
                    .open("/dev/null")
                    .unwrap(),
            )
        };
        let gid = if rustix::process::geteuid().is_root() {
            self.uid
        } else {
            rustix::process::getegid().as_raw()
        };
        SandboxPlan {
            home: File::open(&self.home).unwrap().into(),
            further_homes: Vec::new(),
            home_is_detached: false,
            home_path: self.home.clone(),
            cwd: self.home.clone(),
            read_only: false,
            scratch: File::open(self.scratch()).unwrap().into(),
            argv: argv.iter().map(|word| word.as_ref().to_owned()).collect(),
            env: [
                ("PATH", OsStr::new("/usr/local/bin:/usr/bin:/bin")),
                ("HOME", self.home.as_os_str()),
            ]
            .map(|(name, value)| (OsString::from(name), value.to_owned()))
            .into(),
            search_path: None,
            placed: Vec::new(),
            etc_files: Vec::new(),
            bind_ro: Vec::new(),
            private: Vec::new(),
            state_name: b".trumanfs",
            writable: Vec::new(),
            ptrace: false,
            uid: self.uid,
            gid,
            limits: ResourceLimits::default(),
            stdin: null(),
            stdout: null(),
            stderr: null(),
            terminal: None,
            network: NetworkAccess::None,
        }
    }

    /// Puts probe.c into the home, as a program.
    pub(crate) fn probe(&self) -> PathBuf {
        let path = self.home.join("probe");
        common::copy_program(probe(), &path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs a shell script and returns what it printed; it must succeed.
    pub(crate) fn sh(&self, script: &str) -> String {
        self.run(self.plan(&["sh", "-euc", script])).good()
    }

    /// Runs a plan to its end.
    pub(crate) fn run(&self, plan: SandboxPlan) -> Outcome {
        self.run_until(
            plan,
            KillCondition {
                deadline: Some(Instant::now() + LIMIT),
                cancel: None,
            },
        )
    }

    /// Runs a plan until its end or a limit.
    pub(crate) fn run_until(&self, plan: SandboxPlan, until: KillCondition<'_>) -> Outcome {
        self.run_beside(plan, until, |_| {})
    }

    /// Runs a plan likewise, and something beside it as soon as it has begun.
    pub(crate) fn run_beside(
        &self,
        mut plan: SandboxPlan,
        until: KillCondition<'_>,
        beside: impl FnOnce(&mut RunningProgram),
    ) -> Outcome {
        let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        plan.stdout = out.try_clone().unwrap().into();
        plan.stderr = err.try_clone().unwrap().into();
        let mut running = start(plan).unwrap_or_else(|error| panic!("{error}"));
        beside(&mut running);
        let ended = running.wait(until);
        let read = |file: &mut File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Outcome {
            ended,
            out: read(&mut out),
            err: read(&mut err),
        }
    }
}

/// The launcher with the backend that `backends.rs` runs these tests over.
pub(crate) fn launcher() -> Launcher {
    let launcher = Launcher::of_this_program();
    match std::env::var(BACKEND) {
        Ok(name) => launcher.with_choice(BackendChoice::from_name(&name).unwrap()),
        Err(_) => launcher,
    }
}

/// Launches a plan.
pub(crate) fn start(plan: SandboxPlan) -> Result<RunningProgram, LaunchError> {
    launch(plan, &launcher())
}

/// Compiles probe.c, once, and keeps the program in memory: a file would stay. Returns a path that stands for it.
fn probe() -> &'static Path {
    static COMPILED: OnceLock<(OwnedFd, PathBuf)> = OnceLock::new();
    &COMPILED
        .get_or_init(|| {
            let dir = tempfile::TempDir::with_prefix("trumanfs-probe-").unwrap();
            let path = dir.path().join("probe");
            let mut compile = std::process::Command::new("gcc");
            compile.args(["-O1", "-Wall", "-o"]).arg(&path);
            compile.arg(common::repository().join("tests/sandbox/probe.c"));
            let output = common::run_limited(compile, LIMIT);
            assert!(output.status.success(), "{}", common::describe(&output));
            let memory =
                rustix::fs::memfd_create("probe", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            let mut from = File::open(&path).unwrap();
            std::io::copy(&mut from, &mut File::from(memory.try_clone().unwrap())).unwrap();
            let name = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
            (memory, name.into())
        })
        .1
}
