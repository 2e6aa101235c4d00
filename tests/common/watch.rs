//! Protection of the test run from a hung mount: the mount table, aborting a FUSE connection, and the deadline.
//!
//! Nothing here touches files below a mountpoint: a call into a hung mount would never return. Everything is read
//! from `/proc/self/mountinfo`, and `umount2(MNT_DETACH)` does not involve the daemon.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags};

const FUSECTL: &str = "/sys/fs/fuse/connections";

/// One line of the mount table.
pub(crate) struct Mount {
    /// The minor device number, which is a FUSE connection's name in fusectl.
    pub(crate) minor: u32,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The options of the mount itself and of its file system, with a comma between.
    pub(crate) options: String,
    /// The type, `fuse.trumanfs` for a home.
    pub(crate) kind: String,
    /// The source, `trumanfs` for a home.
    pub(crate) source: String,
}

/// Reads the mount table of this process.
pub(crate) fn mounts() -> Vec<Mount> {
    // Another test's home may have any bytes in its path; whose mount is looked for has a path that is text.
    let table = fs::read("/proc/self/mountinfo").expect("mountinfo");
    String::from_utf8_lossy(&table)
        .lines()
        .filter_map(parse)
        .collect()
}

fn parse(line: &str) -> Option<Mount> {
    // 36 35 98:0 /root /mountpoint options [tags…] - type source superblock-options
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.splitn(3, ' ');
    let (kind, source, of_fs) = (right.next()?, right.next()?, right.next()?);
    Some(Mount {
        minor: left.get(2)?.split_once(':')?.1.parse().ok()?,
        point: unescape(left.get(4)?),
        options: format!("{},{of_fs}", left.get(5)?),
        kind: kind.to_owned(),
        source: source.to_owned(),
    })
}

/// Names the processes whose mount tables have a home that is gone from this one. A mount namespace that is made while a
/// home is mounted gets a copy of the mount, and the daemon goes on as long as that exists.
pub(crate) fn copies_elsewhere(minor: u32) -> Vec<String> {
    let has = |table: &str| {
        let mut mounts = table.lines().filter_map(parse);
        mounts.any(|mount| mount.minor == minor && mount.kind == "fuse.trumanfs")
    };
    let read =
        |path: String| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    if has(&read("/proc/self/mountinfo".to_owned())) {
        // The number means another home by now, so nobody has a copy of that one.
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| has(&read(format!("/proc/{pid}/mountinfo"))))
        .map(|pid| format!("{pid} ({})", read(format!("/proc/{pid}/comm")).trim()))
        .collect()
}

/// Says of each thread of a process what it waits for, as far as /proc tells.
pub(crate) fn threads_of(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let said = tasks.map(|task| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').next());
        // The innermost calls; root only.
        let stack: Vec<String> = read("stack")
            .lines()
            .take(4)
            .map(|l| l.trim_start_matches("[<0>] ").to_owned())
            .collect();
        format!(
            "{} {} {} [{}]",
            read("comm").trim(),
            state.unwrap_or("?"),
            read("wchan"),
            stack.join(" < ")
        )
    });
    said.collect::<Vec<_>>().join(", ")
}

/// Undoes the table's octal escapes (`\040` for a space).
fn unescape(field: &str) -> PathBuf {
    let mut bytes = field.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digits = bytes.by_ref().take(3);
            plain.push(digits.fold(0u8, |value, digit| {
                value.wrapping_mul(8).wrapping_add(digit.wrapping_sub(b'0'))
            }));
        } else {
            plain.push(byte);
        }
    }
    OsString::from_vec(plain).into()
}

/// Returns the uppermost mount at a path.
pub(crate) fn mount_at(point: &Path) -> Option<Mount> {
    mounts().into_iter().rfind(|mount| mount.point == point)
}

/// Tells whether something is mounted exactly there.
pub(crate) fn is_mountpoint(point: &Path) -> bool {
    mount_at(point).is_some()
}

/// Lists the mountpoints below a directory, innermost first.
pub(crate) fn mounts_below(base: &Path) -> Vec<PathBuf> {
    mounts()
        .into_iter()
        .rev()
        .map(|mount| mount.point)
        .filter(|point| point.starts_with(base))
        .collect()
}

/// Takes a mount out of the tree without asking its daemon.
pub(crate) fn detach(point: &Path) {
    let by_user = || {
        let mut program = Command::new("fusermount3");
        let status = program.args(["-u", "-z", "-q", "--"]).arg(point).status();
        status.is_ok_and(|status| status.success())
    };
    while is_mountpoint(point) {
        match rustix::mount::unmount(point, UnmountFlags::DETACH) {
            Ok(()) => {}
            Err(rustix::io::Errno::PERM) if by_user() => {}
            Err(_) => break,
        }
    }
}

/// Has fusectl mounted. Systemd does it where it runs; in a container nobody may have.
pub(crate) fn show_connections() {
    if !is_mountpoint(Path::new(FUSECTL)) {
        let _ = rustix::mount::mount("fusectl", FUSECTL, "fusectl", MountFlags::empty(), None);
    }
}

/// Ends every call that waits for the daemon (they get ECONNABORTED), then takes the mount out of the tree.
pub(crate) fn abort_and_detach(point: &Path) {
    if let Some(mount) = mount_at(point).filter(|mount| mount.kind.starts_with("fuse")) {
        show_connections();
        let _ = fs::write(format!("{FUSECTL}/{}/abort", mount.minor), "1");
    }
    detach(point);
}

/// A time limit on a mounted test. When it passes, the FUSE connection is aborted, so the test's calls fail instead of hanging.
pub(crate) struct Deadline {
    passed: Arc<AtomicBool>,
    // Dropping it wakes and ends the watching thread.
    _alive: Sender<()>,
}

impl Deadline {
    /// Starts watching over the home at `point`.
    pub(crate) fn start(point: &Path, limit: Duration) -> Self {
        let (alive, until_dropped) = channel();
        let passed = Arc::new(AtomicBool::new(false));
        let (point, told) = (point.to_owned(), Arc::clone(&passed));
        std::thread::spawn(move || {
            if until_dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                told.store(true, Ordering::SeqCst);
                abort_and_detach(&point);
            }
        });
        Self {
            passed,
            _alive: alive,
        }
    }

    /// Tells whether the limit passed.
    pub(crate) fn passed(&self) -> bool {
        self.passed.load(Ordering::SeqCst)
    }
}
