//! The mount harness, the basis of every mounted test.
//!
//! [`Home`] makes a temporary directory with `store/` and `home/`, mounts one on the other with the real binary and
//! takes everything down again. Teardown is part of the test: a mount or a daemon left over fails it. A
//! [`watch::Deadline`] guards each home, so that a test that hangs in the file system fails instead of blocking the
//! run.
//!
//! A test that cannot run here reports that with [`skip!`] (`need.rs`).

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses its own part of the harness"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub(crate) mod calls;
pub(crate) mod child;
pub(crate) mod disk;
pub(crate) mod ordinary_user;
pub(crate) mod random;
pub(crate) mod terminal;
pub(crate) mod tree;
pub(crate) mod watch;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Seek, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal};

pub(crate) use child::{as_user, in_child};
use watch::Deadline;

/// The time limit of mounting, unmounting and other short commands of the binary.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// The time that a home may stay busy when it is taken down: a process that another test forks at that moment holds copies of this
/// test's descriptors until it runs another program or ends.
const BUSY_LIMIT: Duration = Duration::from_secs(3);
/// The time limit of a mounted test that asks for no other.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(120);

pub(crate) use crate::need::skip;

/// Skips the test where no home can be mounted.
macro_rules! need_mount {
    () => {
        if let Some(reason) = $crate::common::why_not_mountable() {
            $crate::need::skip!("fuse", "{reason}");
        }
    };
}
pub(crate) use need_mount;

/// Skips the test where it is not run by root, and says what it needs root for: `need_root!("to give files away")`.
macro_rules! need_root {
    ($what:literal) => {
        if !rustix::process::geteuid().is_root() {
            $crate::need::skip!("root", "needs root {}", $what);
        }
    };
}
pub(crate) use need_root;

/// Skips the test where the kernel does not read and write the store's files itself for a home.
macro_rules! need_passthrough {
    ($home:expr) => {
        if $home.status().unwrap()["mechanisms"]["passthrough"] != true {
            $crate::need::skip!(
                "passthrough",
                "the kernel does not pass reading and writing through here"
            );
        }
    };
}
pub(crate) use need_passthrough;

/// Skips the test where a program is missing.
macro_rules! need_tools {
    ($($name:literal),+) => {
        $(if $crate::common::tool($name).is_none() {
            $crate::need::skip!("tools", "there is no {} on this machine", $name);
        })+
    };
}
pub(crate) use need_tools;

/// Finds a program in `PATH` and in the places of administration.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(name))
        .find(|file| {
            fs::metadata(file)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

/// The program. A run as another user (`ordinary_user.rs`) has a copy in a place that the user can reach.
pub(crate) fn binary() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        std::env::var("TRUMANFS_BINARY")
            .unwrap_or_else(|_| env!("CARGO_BIN_EXE_trumanfs").to_owned())
    })
}

/// The repository, or as much of it as tests read.
pub(crate) fn repository() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        std::env::var_os("TRUMANFS_REPOSITORY")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
    })
}

/// Returns what is missing for mounting a home, if anything.
pub(crate) fn why_not_mountable() -> Option<String> {
    if !rustix::process::geteuid().is_root() && tool("fusermount3").is_none() {
        return Some("needs root or fusermount3 to mount".to_owned());
    }
    match fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        Ok(_) => None,
        Err(error) => Some(format!("/dev/fuse cannot be opened: {error}")),
    }
}

/// Fills a store before it is mounted.
type Prepare<'a> = Box<dyn FnOnce(&Path) + 'a>;

/// A plan for mounting a home; [`Home::plan`] makes one.
pub(crate) struct Plan<'a> {
    base: Option<PathBuf>,
    options: Vec<OsString>,
    prepare: Option<Prepare<'a>>,
    limit: Duration,
}

impl<'a> Plan<'a> {
    /// Adds options of `trumanfs mount`.
    pub(crate) fn options<O: AsRef<OsStr>>(mut self, options: &[O]) -> Self {
        self.options
            .extend(options.iter().map(|option| option.as_ref().to_owned()));
        self
    }

    /// Puts store and mountpoint below `base` (another file system, say) instead of the usual temporary directory.
    pub(crate) fn on(mut self, base: &Path) -> Self {
        self.base = Some(base.to_owned());
        self
    }

    /// Lets `prepare` fill the store before it is mounted.
    pub(crate) fn prepare(mut self, prepare: impl FnOnce(&Path) + 'a) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Sets the test's time limit.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Mounts, or hands back what the binary said instead.
    pub(crate) fn try_mount(self) -> Result<Home, Output> {
        let dir = match &self.base {
            Some(base) => tempfile::TempDir::with_prefix_in("trumanfs-", base),
            None => tempfile::TempDir::with_prefix("trumanfs-"),
        }
        .expect("a temporary directory");
        // Other users must be able to reach a home mounted with --allow-other.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let base = fs::canonicalize(dir.path()).expect("canonicalize");
        usual_umask();
        let (store, home) = (base.join("store"), base.join("home"));
        fs::create_dir(&store).expect("mkdir store");
        fs::create_dir(&home).expect("mkdir home");
        if let Some(prepare) = self.prepare {
            prepare(&store);
        }
        let deadline = Deadline::start(&home, self.limit);
        let mut made = Home {
            dir: Some(dir),
            base,
            store,
            home,
            options: self.options,
            daemon: None,
            deadline,
        };
        made.start()?;
        Ok(made)
    }

    /// Mounts; panics with the binary's message if it does not.
    pub(crate) fn mount(self) -> Home {
        self.try_mount()
            .unwrap_or_else(|output| panic!("trumanfs mount failed: {}", describe(&output)))
    }
}

/// A daemon that serves a home, held by a pidfd so that its number cannot come to mean another process.
struct Daemon {
    pid: u32,
    fd: OwnedFd,
    /// The device of its mount.
    minor: u32,
}

impl Daemon {
    fn find(home: &Home) -> Result<Self, String> {
        let status = home.status()?;
        let pid = status["pid"]
            .as_u64()
            .ok_or_else(|| format!("`trumanfs status --json` has no pid: {status}"))?;
        let pid = u32::try_from(pid).map_err(|error| format!("pid {pid}: {error}"))?;
        let fd = rustix::process::pidfd_open(pid_of(pid), PidfdFlags::empty())
            .map_err(|error| format!("the daemon {pid} that status names does not run: {error}"))?;
        let mount = watch::mount_at(&home.home).ok_or("the home is gone from the mount table")?;
        let minor = mount.minor;
        Ok(Self { pid, fd, minor })
    }

    /// Waits until a daemon has ended whose home was unmounted.
    ///
    /// `umount` has waited already, so there is no more than a moment for it. But other tests, and whatever else this
    /// machine runs, make mount namespaces, which get copies of the mount: as long as those last is nobody's fault.
    fn ends(&self) -> Result<(), String> {
        let until = Instant::now() + COMMAND_LIMIT;
        while !self.ended_within(Duration::from_secs(2)) {
            let copies = watch::copies_elsewhere(self.minor);
            if copies.is_empty() || Instant::now() > until {
                return Err(format!(
                    "the daemon {} is left (its threads: {}; copies of its mount have: {})",
                    self.pid,
                    watch::threads_of(self.pid),
                    copies.join(", ")
                ));
            }
        }
        Ok(())
    }

    fn ended_within(&self, limit: Duration) -> bool {
        wait_readable(&self.fd, limit)
    }
}

/// A mounted home in a temporary directory of its own. Dropping it unmounts, and fails the test if anything is left over.
pub(crate) struct Home {
    dir: Option<tempfile::TempDir>,
    base: PathBuf,
    store: PathBuf,
    home: PathBuf,
    options: Vec<OsString>,
    daemon: Option<Daemon>,
    deadline: Deadline,
}

impl Home {
    /// Starts a plan: where, with which options, with what in the store.
    pub(crate) fn plan<'a>() -> Plan<'a> {
        Plan {
            base: None,
            options: Vec::new(),
            prepare: None,
            limit: TEST_LIMIT,
        }
    }

    /// Mounts an empty store as `trumanfs mount STORE HOME` does.
    pub(crate) fn mount() -> Self {
        Self::plan().mount()
    }

    /// Mounts an empty store with options.
    pub(crate) fn with(options: &[&str]) -> Self {
        Self::plan().options(options).mount()
    }

    /// Mounts a store that `prepare` has filled.
    pub(crate) fn prepared(prepare: impl FnOnce(&Path), options: &[&str]) -> Self {
        Self::plan().prepare(prepare).options(options).mount()
    }

    /// Mounts an empty store on the file system that holds `base`.
    pub(crate) fn on(base: &Path, options: &[&str]) -> Self {
        Self::plan().on(base).options(options).mount()
    }

    /// True if the home is mounted with an option.
    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }

    /// The directory that holds store and home, and is no part of either.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The mountpoint.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The backing directory.
    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    /// A path in the home.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.home.join(name)
    }

    /// Runs the binary with the arguments as they are, within [`COMMAND_LIMIT`].
    pub(crate) fn trumanfs<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        trumanfs(args)
    }

    /// Reads `trumanfs status STORE --json`.
    pub(crate) fn status(&self) -> Result<serde_json::Value, String> {
        let output = trumanfs(&[
            OsStr::new("status"),
            self.store.as_os_str(),
            OsStr::new("--json"),
        ]);
        if !output.status.success() {
            return Err(format!("trumanfs status: {}", describe(&output)));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("trumanfs status --json is not JSON: {error}"))
    }

    /// The daemon's process number.
    pub(crate) fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().expect("a mounted home").pid
    }

    /// Unmounts; panics if that fails or the daemon stays.
    pub(crate) fn umount(&mut self) {
        if let Err(problem) = self.stop() {
            panic!("{problem}");
        }
    }

    /// Mounts again what [`Home::umount`] or [`Home::kill_daemon`] took down, with the same options; returns what the binary printed.
    pub(crate) fn mount_again(&mut self) -> Output {
        self.start()
            .unwrap_or_else(|output| panic!("trumanfs mount failed: {}", describe(&output)))
    }

    /// Unmounts and mounts again with the same options; returns what mounting printed.
    pub(crate) fn remount(&mut self) -> Output {
        self.umount();
        self.mount_again()
    }

    /// Unmounts and mounts again with other options; returns what mounting printed.
    pub(crate) fn remount_with(&mut self, options: &[&str]) -> Output {
        self.umount();
        self.options = options.iter().map(OsString::from).collect();
        self.mount_again()
    }

    /// Kills the daemon outright (SIGKILL) and removes the dead mount, leaving the store as the daemon left it.
    pub(crate) fn kill_daemon(&mut self) {
        self.kill_daemon_only();
        watch::detach(&self.home);
        assert!(
            !watch::is_mountpoint(&self.home),
            "the dead mount is still there"
        );
    }

    /// Kills the daemon outright and leaves the dead mount (ENOTCONN) in place.
    pub(crate) fn kill_daemon_only(&mut self) {
        let daemon = self.daemon.take().expect("a mounted home");
        rustix::process::pidfd_send_signal(&daemon.fd, Signal::KILL).expect("SIGKILL");
        assert!(
            daemon.ended_within(COMMAND_LIMIT),
            "the daemon {} outlives SIGKILL",
            daemon.pid
        );
    }

    /// Removes the dead mount that [`Home::kill_daemon_only`] has left.
    pub(crate) fn detach(&mut self) {
        watch::detach(&self.home);
    }

    /// Runs a program with the home as working directory, within `limit`, and captures what it prints.
    pub(crate) fn run_within<A: AsRef<OsStr>>(
        &self,
        limit: Duration,
        program: &str,
        args: &[A],
    ) -> Output {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.home);
        run_limited(command, limit)
    }

    /// Runs a program as [`Home::run_within`] does, within 30 seconds.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Output {
        self.run_within(Duration::from_secs(30), program, args)
    }

    /// Runs a shell script in the home, expects it to succeed, and returns what it printed.
    pub(crate) fn sh(&self, script: &str) -> String {
        let output = self.run("sh", &["-euc", script]);
        assert!(
            output.status.success(),
            "sh -euc '{script}': {}",
            describe(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The names in the store's trash, oldest first.
    pub(crate) fn trash(&self) -> Vec<OsString> {
        self.gather();
        let Ok(listing) = fs::read_dir(self.store.join(".trash")) else {
            return Vec::new();
        };
        let mut names: Vec<_> = listing
            .map(|entry| entry.expect("readdir").file_name())
            .filter(|name| name != ".gitignore")
            .collect();
        names.sort();
        names
    }

    /// Has what was removed gathered, as everybody does who looks into the trash of a home.
    pub(crate) fn gather(&self) {
        let look = || fs::read_dir(self.home.join(".trash")).map(Iterator::count);
        if self.daemon.is_some() && look().is_err() {
            // It is another user's home.
            trumanfs(&["trash".as_ref(), "list".as_ref(), self.store.as_os_str()]);
        }
    }

    /// Returns the messages of the newest session's daemon.
    pub(crate) fn log(&self) -> String {
        log_of(self.store())
    }

    /// The trash entries of what was called `name`, as paths in the store, oldest first.
    pub(crate) fn trashed(&self, name: &str) -> Vec<PathBuf> {
        // `{timestamp}_{name}`: the timestamp has no underscore, the name may.
        let of_name = |entry: &OsString| {
            entry
                .to_string_lossy()
                .split_once('_')
                .is_some_and(|(_, rest)| rest == name)
        };
        self.trash()
            .into_iter()
            .filter(of_name)
            .map(|entry| self.store.join(".trash").join(entry))
            .collect()
    }

    /// The journal's records of all sessions, oldest session first, without the seals between them.
    pub(crate) fn journal(&self) -> Vec<serde_json::Value> {
        self.gather();
        let mut sessions: Vec<_> = fs::read_dir(self.store.join(".trumanfs/sessions"))
            .expect("the sessions of the store")
            .map(|entry| entry.expect("readdir").path())
            .collect();
        sessions.sort();
        let mut records = Vec::new();
        for session in sessions {
            let Ok(text) = fs::read_to_string(session.join("journal.jsonl")) else {
                continue;
            };
            for line in text.lines() {
                let record: serde_json::Value = serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("journal line {line:?}: {error}"));
                if record["op"] != "seal" {
                    records.push(record);
                }
            }
        }
        records
    }

    fn start(&mut self) -> Result<Output, Output> {
        let mut args = vec![
            OsString::from("mount"),
            self.store.clone().into(),
            self.home.clone().into(),
        ];
        args.extend(self.options.iter().cloned());
        let output = trumanfs(&args);
        if !output.status.success() {
            return Err(output);
        }
        assert!(
            watch::is_mountpoint(&self.home),
            "trumanfs mount returned 0 and nothing is mounted: {}",
            describe(&output)
        );
        match Daemon::find(self) {
            Ok(daemon) => self.daemon = Some(daemon),
            Err(problem) => {
                // Without its daemon's number a leak could not be seen: give up here and take the mount down by force.
                watch::abort_and_detach(&self.home);
                panic!("{problem}");
            }
        }
        Ok(output)
    }

    fn stop(&mut self) -> Result<(), String> {
        let mut problems = String::new();
        if self.deadline.passed() {
            let _ = write!(
                problems,
                "the test's time limit passed and its FUSE connection was aborted; "
            );
        }
        if watch::is_mountpoint(&self.home) {
            let until = Instant::now() + BUSY_LIMIT;
            let output = loop {
                let output = trumanfs(&[OsStr::new("umount"), self.home.as_os_str()]);
                if output.status.success()
                    || !watch::is_mountpoint(&self.home)
                    || Instant::now() > until
                {
                    break output;
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            if !output.status.success() {
                let _ = write!(problems, "trumanfs umount: {}; ", describe(&output));
                watch::abort_and_detach(&self.home);
            }
        }
        for left in watch::mounts_below(&self.base) {
            let _ = write!(problems, "a mount is left at {}; ", left.display());
            watch::detach(&left);
        }
        if let Some(daemon) = self.daemon.take()
            && let Err(problem) = daemon.ends()
        {
            let _ = write!(problems, "{problem}; ");
            let _ = rustix::process::pidfd_send_signal(&daemon.fd, Signal::KILL);
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let stopped = self.stop();
        if watch::mounts_below(&self.base).is_empty() {
            self.dir.take();
        } else if let Some(dir) = self.dir.take() {
            // Removing the directory would remove what is mounted in it.
            let kept = dir.keep();
            let _ = writeln!(
                std::io::stderr(),
                "left in place, with a mount in it: {}",
                kept.display()
            );
        }
        if let Err(problem) = stopped {
            if std::thread::panicking() {
                let _ = writeln!(std::io::stderr(), "besides: {problem}");
            } else {
                panic!("{problem}");
            }
        }
    }
}

/// A daemon that hangs, for as long as this lives: stopped, with all its threads.
pub(crate) struct Hanging(rustix::process::Pid);

impl Hanging {
    pub(crate) fn daemon_of(home: &Home) -> Hanging {
        let pid = pid_of(home.daemon_pid());
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        let hanging = Hanging(pid);
        let has_stopped = |task: &Path| {
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            status.is_empty() || status.contains("\nState:\tT")
        };
        let until = Instant::now() + BUSY_LIMIT;
        // A thread that has not noticed yet may take one more request.
        loop {
            let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
            if tasks.flatten().all(|task| has_stopped(&task.path())) {
                return hanging;
            }
            assert!(Instant::now() < until, "the daemon does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, Signal::CONT);
    }
}

/// Sets the umask that tests count on. It belongs to the process, where many tests run at once, so no test sets another one outside
/// of a child of its own.
pub(crate) fn usual_umask() {
    calls::umask(0o022);
}

/// Copies a program. Another test may fork at any moment, and a copy that this process writes would then be open for writing when it is
/// to be run (ETXTBSY); so `cp` does it.
pub(crate) fn copy_program(from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    let mut cp = Command::new("cp");
    cp.arg("--").arg(from).arg(to);
    let output = run_limited(cp, COMMAND_LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
}

/// Runs the binary with arguments, within [`COMMAND_LIMIT`].
pub(crate) fn trumanfs<A: AsRef<OsStr>>(args: &[A]) -> Output {
    let mut command = Command::new(binary());
    command.args(args);
    run_limited(command, COMMAND_LIMIT)
}

/// Runs a command in a process group of its own, captures its output, and kills the group when the limit passes.
pub(crate) fn run_limited(mut command: Command, limit: Duration) -> Output {
    // Files, not pipes: a daemon that inherited a pipe would keep its reader waiting after the command has ended.
    let mut out = tempfile::tempfile().expect("tempfile");
    let mut err = tempfile::tempfile().expect("tempfile");
    command.stdin(Stdio::null());
    command
        .stdout(out.try_clone().expect("dup"))
        .stderr(err.try_clone().expect("dup"))
        .process_group(0);
    let mut process = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let fd =
        rustix::process::pidfd_open(pid_of(process.id()), PidfdFlags::empty()).expect("pidfd_open");
    if !wait_readable(&fd, limit) {
        let _ = rustix::process::kill_process_group(pid_of(process.id()), Signal::KILL);
        // One that hangs in a file system call dies only when the call returns.
        if !wait_readable(&fd, Duration::from_secs(2)) {
            panic!("{command:?} took longer than {limit:?} and does not die");
        }
        let _ = writeln!(err, "\n[killed: took longer than {limit:?}]");
    }
    let status = process.wait().expect("wait");
    Output {
        status,
        stdout: read_all(&mut out),
        stderr: read_all(&mut err),
    }
}

/// Says in one line what came out of a command.
pub(crate) fn describe(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    format!(
        "{}, stdout {:?}, stderr {:?}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn read_all(file: &mut fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().expect("lseek");
    file.read_to_end(&mut bytes).expect("read");
    bytes
}

fn pid_of(pid: u32) -> Pid {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process number")
}

/// Waits until a descriptor (a pidfd, the reading end of a pipe) has something to say.
pub(crate) fn wait_readable(fd: &OwnedFd, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).expect("a time limit");
    loop {
        match rustix::event::poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

/// Returns the messages of the daemon of a store's newest session.
pub(crate) fn log_of(store: &Path) -> String {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).expect("sessions");
    let mut sessions: Vec<PathBuf> = sessions
        .map(|entry| entry.expect("readdir").path())
        .collect();
    sessions.sort();
    let newest = sessions.last().expect("a session");
    fs::read_to_string(newest.join("daemon.log")).expect("daemon.log")
}

/// The signals that end a program, but for those that this process, and so its children, ignore: what nohup(1) or a shell's `&` has
/// started does.
pub(crate) fn ending_signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    let all = [Signal::TERM, Signal::INT, Signal::HUP];
    let acts = |signal: &Signal| ignored & (1 << (signal.as_raw() - 1)) == 0;
    all.into_iter().filter(acts).collect()
}
