//! Bubblewrap as a backend: it makes the namespaces and the root, and starts this program there as first process.
//!
//! The root is made as the same [`InitOrders`] say that this program carries out itself, by arguments. The first
//! process has no capability there, not even in the sandbox's user namespace: AppArmor takes them from what bubblewrap
//! starts on Ubuntu. So what needs one is refused before anything runs: a network that the launcher answers for.
//! Limits, the filter of system calls, the start of the program, its end and the report of it are the first process's
//! as ever.
//!
//! Bubblewrap mounts by path and follows links, also in places that are the occupant's. So nothing is shown below
//! `/tmp`, and the first process compares the home and `/tmp` with the descriptors of the plan before the program runs.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags};

use super::error::{LaunchError, Step};
use super::plan::{NetworkAccess, SandboxPlan};
use trumanfs_init::INIT;
use trumanfs_init::orders::{BindSource, InitOrders, RootEntry};
use trumanfs_init::proc::is_shown;
use trumanfs_init::sys::clone::{CloneRequest, CloneStage, ClonedChild, start};
use trumanfs_init::sys::mount::attr;
use trumanfs_init::sys::program;

/// The paths at which bubblewrap is installed. PATH is not searched: the program that makes the sandbox is the
/// system's.
const BWRAP_PATHS: [&str; 2] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];

/// The time that bubblewrap may take to make its namespaces.
const BEGIN_LIMIT: Duration = Duration::from_secs(20);

/// The time that bubblewrap may take to end once it makes no sandbox.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The most bytes of bubblewrap's complaints that an error contains.
const MAX_COMPLAINT_BYTES: usize = 400;

/// Opens bubblewrap.
///
/// # Errors
/// [`Step::Backend`] if it is not installed.
pub(super) fn find() -> Result<OwnedFd, LaunchError> {
    let open = |file: &&str| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, *file, flags, Mode::empty()).ok()
    };
    BWRAP_PATHS.iter().find_map(open).ok_or_else(|| {
        let why = format!("bwrap is not installed ({})", BWRAP_PATHS.join(", "));
        LaunchError::refused(Step::Backend, why)
    })
}

/// Checks that bubblewrap can keep what a plan asks.
///
/// # Errors
/// [`Step::Plan`], with what it cannot.
pub(super) fn check(plan: &SandboxPlan, orders: &InitOrders) -> Result<(), LaunchError> {
    let refuse = |why: String| Err(LaunchError::refused(Step::Plan, why));
    if plan.network != NetworkAccess::None {
        return refuse(
            "bwrap gives its sandbox no network but loopback, and the policy allows the program hosts or ports"
                .to_owned(),
        );
    }
    // What is mounted read-only has no devices, in bubblewrap.
    if plan.uid == 0 {
        return refuse(
            "bwrap shows the machine's own devices writable, and a program whose user is root could change their modes"
                .to_owned(),
        );
    }
    let below_tmp = orders.binds.iter().map(|bind| &bind.target);
    let mut below_tmp = below_tmp.filter(|target| target.starts_with("tmp") && **target != *"tmp");
    match below_tmp.next() {
        Some(target) => refuse(format!(
            "/{}: bwrap follows links, and /tmp is the program's to put some in, so it cannot show what lies below /tmp",
            target.display()
        )),
        None => Ok(()),
    }
}

/// Bubblewrap, started and waiting for its arguments.
pub(super) struct PendingBwrap {
    arguments: Vec<u8>,
    to: OwnedFd,
    info: OwnedFd,
    complaint: OwnedFd,
}

/// Starts bubblewrap, which waits for its arguments, so that it can be put into a group before it makes anything.
/// `program`: this program's file. `channel`: the first process's end.
///
/// # Errors
/// The step that could not be started.
pub(super) fn begin(
    bwrap: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    channel: BorrowedFd<'_>,
    user: Option<(u32, u32)>,
    orders: &InitOrders,
) -> Result<(ClonedChild, PendingBwrap), LaunchError> {
    let failed = |errno| LaunchError::new(Step::Backend, "bwrap", errno);
    // Numbers from 3 on: the lower ones become its standard streams.
    let above = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (info, of_info) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let complaint = rustix::fs::memfd_create("bwrap", MemfdFlags::CLOEXEC).map_err(failed)?;
    let [program, from, of_info] = [
        above(program).map_err(failed)?,
        above(from.as_fd()).map_err(failed)?,
        above(of_info.as_fd()).map_err(failed)?,
    ];
    let mut files = Vec::new();
    let mut arguments = BwrapArguments::default();
    arguments.add_namespaces(orders, &of_info);
    arguments.root(orders, &mut files).map_err(failed)?;
    let mut inherited = vec![program.as_fd(), from.as_fd(), of_info.as_fd()];
    inherited.extend(files.iter().map(AsFd::as_fd));
    let from_number = from.as_raw_fd().to_string();
    // By descriptor, because its path need not be one that the user can reach, nor lie in the sandbox.
    let first = format!("/proc/self/fd/{}", program.as_raw_fd());
    let words = ["bwrap", "--args", &from_number, "--", &first, INIT];
    let words = words.map(|word| CString::new(word).unwrap_or_default());
    let words: Vec<&CStr> = words.iter().map(AsRef::as_ref).collect();
    let started = start(&CloneRequest {
        program: bwrap,
        arguments: &words,
        input: channel,
        output: Some(complaint.as_fd()),
        inherited: &inherited,
        isolated: false,
        user,
    })
    .map_err(|(stage, errno)| match stage {
        CloneStage::Identity => LaunchError::new(Step::Identity, "", errno),
        _ => failed(errno),
    })?;
    let waiting = PendingBwrap {
        arguments: arguments.0,
        to,
        info,
        complaint,
    };
    Ok((started, waiting))
}

impl PendingBwrap {
    /// Gives bubblewrap its arguments. Returns the process that becomes the first of the sandbox, and what to read
    /// bubblewrap's complaints from.
    ///
    /// # Errors
    /// Errors of bubblewrap.
    pub(super) fn go_on(
        self,
        started: &ClonedChild,
    ) -> Result<(FirstProcess, BwrapMessages), LaunchError> {
        let complaint = BwrapMessages(self.complaint);
        let mut rest = &self.arguments[..];
        while !rest.is_empty() {
            match rustix::io::write(&self.to, rest) {
                Ok(some) => rest = rest.get(some..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // It has ended, and said why.
                Err(_) => break,
            }
        }
        drop(self.to);
        let first = number_in(&read_info(&self.info)).and_then(|pid| first(pid, started));
        match first {
            Some(first) => Ok((first, complaint)),
            None => {
                // So that all it has to say is said.
                program::ends_by(&started.pidfd, Instant::now() + END_LIMIT);
                let silent = LaunchError::refused(Step::Backend, "bwrap ended without a word");
                Err(complaint.explain(silent))
            }
        }
    }
}

/// The first process of a sandbox that bubblewrap has made.
#[derive(Debug)]
pub(super) struct FirstProcess {
    /// Its number in this process's PID namespace.
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
}

/// The messages that bubblewrap has written to its standard error.
pub(super) struct BwrapMessages(OwnedFd);

impl BwrapMessages {
    /// Says what bubblewrap has complained of, if it has, instead of an error that says less.
    pub(super) fn explain(&self, error: LaunchError) -> LaunchError {
        let mut bytes = [0; MAX_COMPLAINT_BYTES];
        let len = rustix::io::pread(&self.0, &mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default());
        match text.trim() {
            "" => error,
            text => LaunchError::refused(Step::Backend, text.replace('\n', "; ")),
        }
    }
}

/// Reads the object that bubblewrap writes about its sandbox; what there is of it when time is up or nobody writes.
fn read_info(info: &OwnedFd) -> Vec<u8> {
    let deadline = Instant::now() + BEGIN_LIMIT;
    let mut text = Vec::new();
    while !text.contains(&b'}') {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut fds = [PollFd::new(info, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&left)) {
            Err(Errno::INTR) => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let mut bytes = [0; 512];
        match rustix::io::read(info, &mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(some) => text.extend(bytes.iter().take(some)),
        }
    }
    text
}

fn number_in(info: &[u8]) -> Option<i32> {
    let info: serde_json::Value = serde_json::from_slice(info).ok()?;
    info.get("child-pid")?.as_i64()?.try_into().ok()
}

/// Opens the process with a number, if it is a child of what was started: nobody else's is to be killed by it.
fn first(pid: i32, started: &ClonedChild) -> Option<FirstProcess> {
    let pidfd = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let path = format!("/proc/{pid}/stat");
    let stat =
        rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = [0; 512];
    let len = rustix::io::read(stat, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..len)?).into_owned();
    // After the name, in parentheses: the state, and the parent's number.
    let parent = text.rsplit_once(')')?.1.split_whitespace().nth(1)?;
    // As long as it is not waited for, the parent keeps its number, and so does its child until the parent has waited.
    (parent == started.pid.to_string()).then_some(FirstProcess { pid, pidfd })
}

/// Arguments of bubblewrap, each with a NUL at its end.
#[derive(Default)]
struct BwrapArguments(Vec<u8>);

impl BwrapArguments {
    fn add_words<'a>(&mut self, words: impl IntoIterator<Item = &'a OsStr>) {
        for word in words {
            self.0.extend(word.as_bytes());
            self.0.push(0);
        }
    }

    fn add_strs(&mut self, words: &[&str]) {
        self.add_words(words.iter().map(OsStr::new));
    }

    fn add_namespaces(&mut self, orders: &InitOrders, info: &OwnedFd) {
        self.add_strs(&[
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup",
            "--as-pid-1",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--hostname",
            "sandbox",
        ]);
        self.add_strs(&[
            "--uid",
            &orders.uid.to_string(),
            "--gid",
            &orders.gid.to_string(),
        ]);
        self.add_strs(&["--info-fd", &info.as_raw_fd().to_string()]);
    }

    /// The root, as ordered, but for `/dev`: terminals are mounted by bubblewrap's own `--dev` alone, which
    /// makes the same devices and links.
    fn root(&mut self, orders: &InitOrders, files: &mut Vec<OwnedFd>) -> rustix::io::Result<()> {
        for entry in &orders.entries {
            match entry {
                RootEntry::Dir(path) | RootEntry::File(path, _) | RootEntry::Link(path, _)
                    if is_own(path) => {}
                RootEntry::Dir(path) => self.add_mount("--dir", &[], path),
                RootEntry::Link(path, to) => self.add_mount("--symlink", &[to], path),
                RootEntry::File(path, content) => {
                    let file = memory_file(content)?;
                    let number = PathBuf::from(file.as_raw_fd().to_string());
                    self.add_strs(&["--perms", "0644"]);
                    self.add_mount("--file", &[&number], path);
                    files.push(file);
                }
            }
        }
        let binds = orders.binds.iter().filter(|bind| !is_own(&bind.target));
        for bind in binds.clone().filter(|bind| !bind.late) {
            self.add_bind("--ro-bind", &bind.source, &bind.target);
        }
        let size = orders.memory_files.to_string();
        self.add_strs(&["--dev", "/dev", "--perms", "1777", "--size", &size]);
        self.add_strs(&["--tmpfs", "/dev/shm"]);
        for bind in orders
            .binds
            .iter()
            .filter(|bind| bind.late && is_own(&bind.target))
        {
            self.add_bind("--dev-bind", &bind.source, &bind.target);
        }
        self.add_strs(&["--remount-ro", "/dev"]);
        self.add_strs(&["--proc", "/proc"]);
        self.hide_in_proc()?;
        self.add_strs(&["--remount-ro", "/proc"]);
        for bind in binds.filter(|bind| bind.late) {
            let how = match bind.attributes & attr::READ_ONLY {
                0 => "--bind",
                _ => "--ro-bind",
            };
            self.add_bind(how, &bind.source, &bind.target);
        }
        self.add_strs(&["--remount-ro", "/", "--chdir", "/"]);
        Ok(())
    }

    /// Covers what a sandbox does not show of /proc. What another PID namespace has there besides processes is the
    /// same.
    fn hide_in_proc(&mut self) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())?;
        for entry in rustix::fs::Dir::new(listing)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if matches!(name, "." | "..") || is_shown(name) {
                continue;
            }
            let target = Path::new("proc").join(name);
            match entry.file_type() {
                FileType::Directory => self.add_mount("--tmpfs", &[], &target),
                FileType::RegularFile => {
                    self.add_mount("--ro-bind", &[Path::new("/dev/null")], &target);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_mount(&mut self, option: &str, before: &[&Path], target: &Path) {
        self.add_strs(&[option]);
        self.add_words(before.iter().map(|path| path.as_os_str()));
        self.add_words([Path::new("/").join(target).as_os_str()]);
    }

    fn add_bind(&mut self, option: &str, source: &BindSource, target: &Path) {
        match source {
            BindSource::Path(path) | BindSource::Verified(path, _) => {
                self.add_mount(option, &[path], target)
            }
            BindSource::Empty => {
                self.add_strs(&["--perms", "0555"]);
                self.add_mount("--tmpfs", &[], target);
            }
            // No source is detached where mounts are not cloned by the launcher.
            BindSource::Detached(_) => {}
        }
    }
}

/// Returns whether bubblewrap itself makes the entry at a path.
fn is_own(path: &Path) -> bool {
    path.starts_with("dev") || path == Path::new("proc")
}

/// Makes a file in memory, to be read from its start, with a number that is no standard stream's.
fn memory_file(content: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC)?;
    let mut at = 0;
    while let Some(rest) = content.get(at..).filter(|rest| !rest.is_empty()) {
        at += rustix::io::pwrite(&file, rest, at as u64)?;
    }
    rustix::io::fcntl_dupfd_cloexec(file, 3)
}
