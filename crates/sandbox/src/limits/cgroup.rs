//! Cgroups: finding where this process may make one, making it, asking it what happened, removing it.
//!
//! A group is made below the launcher's own (version 1), or below the nearest ancestor that hands controllers on
//! (version 2, where a group with processes in it cannot), so that the limits of the groups around it hold as well. No
//! setting of a group that was there before is changed.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::limit::LimitMechanism;
use crate::plan::ResourceLimits;

/// The prefix of the names of groups: this, then the launcher's PID namespace and process, and a number.
const GROUP_PREFIX: &str = "trumanfs-";

/// The number of tries to remove a group that its processes have just left, each a millisecond after the last.
const MAX_REMOVE_TRIES: u32 = 50;

/// The groups below which groups can be made, by controller.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct CgroupHierarchies {
    memory: Option<ParentGroup>,
    pids: Option<ParentGroup>,
}

/// A group below which others can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ParentGroup {
    path: PathBuf,
    unified: bool,
}

impl ParentGroup {
    fn mechanism(&self) -> LimitMechanism {
        if self.unified {
            LimitMechanism::CgroupV2
        } else {
            LimitMechanism::CgroupV1
        }
    }
}

impl CgroupHierarchies {
    /// Looks where this process may make groups, and removes what launchers left there that were killed.
    pub(in super::super) fn find() -> Self {
        let (Some(mounts), Some(own)) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"))
        else {
            return Self::default();
        };
        let found = Self::from_tables(&mounts, &own, &|dir, controller| {
            read(dir.join("cgroup.subtree_control"))
                .is_some_and(|all| all.split_whitespace().any(|one| one == controller))
        });
        for parent in [&found.memory, &found.pids].into_iter().flatten() {
            remove_dead_groups(&parent.path);
        }
        found
    }

    /// As [`CgroupHierarchies::find`], from the text of both tables. `hands_on`: whether a group of version 2 hands a
    /// controller on to those below.
    fn from_tables(mounts: &str, own: &str, hands_on: &dyn Fn(&Path, &str) -> bool) -> Self {
        let find = |controller: &str| {
            let one = own
                .lines()
                .find_map(|line| version_one(line, controller, mounts));
            one.or_else(|| version_two(own, controller, mounts, hands_on))
        };
        Self {
            memory: find("memory"),
            pids: find("pids"),
        }
    }
}

/// The group of this process in a line of /proc/self/cgroup, if it is of version 1 and has the controller.
fn version_one(line: &str, controller: &str, mounts: &str) -> Option<ParentGroup> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    if !controllers.split(',').any(|one| one == controller) {
        return None;
    }
    let path = mounts.lines().find_map(|mount| {
        below_mount(mount, path, |kind, options| {
            kind == "cgroup" && options.split(',').any(|one| one == controller)
        })
    })?;
    Some(ParentGroup {
        path,
        unified: false,
    })
}

/// The nearest group above this process's own that hands the controller on.
fn version_two(
    own: &str,
    controller: &str,
    mounts: &str,
    hands_on: &dyn Fn(&Path, &str) -> bool,
) -> Option<ParentGroup> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let of_mount = |path: &str| {
        let mut mounts = mounts.lines();
        mounts.find_map(|mount| below_mount(mount, path, |kind, _| kind == "cgroup2"))
    };
    let (top, own) = (of_mount("/")?, of_mount(path)?);
    // The own group has processes in it; only the root may have both.
    own.ancestors()
        .take_while(|dir| dir.starts_with(&top))
        .find(|dir| hands_on(dir, controller))
        .map(|dir| ParentGroup {
            path: dir.to_owned(),
            unified: true,
        })
}

/// Returns the path of a group by way of a line of mountinfo, if the mount is of the right kind and shows the group;
/// proc_pid_mountinfo(5).
fn below_mount(line: &str, path: &str, is_right: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, point) = (front.next()?, front.next()?);
    let mut back = back.split(' ');
    let (kind, options) = (back.next()?, back.nth(1)?);
    if !is_right(kind, options) || point.contains('\\') {
        return None;
    }
    // What is mounted may be a part of the hierarchy only, as in containers.
    let below = if root == "/" {
        path
    } else {
        path.strip_prefix(root)?
    };
    Some(Path::new(point).join(below.trim_start_matches('/')))
}

/// A group of one sandbox. Dropping it removes it, if nothing is in it any more.
#[derive(Debug)]
pub(in super::super) struct SandboxCgroup {
    parts: Vec<CgroupDir>,
    /// Readable when memory has run out; version 1 alone, where the kernel kills one process and not the group.
    out_of_memory: Option<OwnedFd>,
}

/// Its directory in one hierarchy.
#[derive(Debug)]
struct CgroupDir {
    path: PathBuf,
    dir: OwnedFd,
    mechanism: LimitMechanism,
    memory: bool,
    pids: bool,
}

impl SandboxCgroup {
    /// Makes a group with limits; nothing where that is not allowed or does not work.
    pub(in super::super) fn make(all: &CgroupHierarchies, limits: &ResourceLimits) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}-{number}", group_prefix()?, std::process::id());
        let memory = all.memory.as_ref().filter(|_| limits.memory.is_some());
        let pids = all.pids.as_ref().filter(|_| limits.processes.is_some());
        let mut group = Self {
            parts: Vec::new(),
            out_of_memory: None,
        };
        let same = memory.is_some() && memory == pids;
        if let Some(parent) = memory
            && let Ok(mut part) = CgroupDir::make(parent, &name)
        {
            part.memory = limits
                .memory
                .is_some_and(|bytes| part.limit_memory(bytes).is_ok());
            part.pids = same
                && limits
                    .processes
                    .is_some_and(|count| part.limit_pids(count).is_ok());
            if part.memory && part.mechanism == LimitMechanism::CgroupV1 {
                group.out_of_memory = part.notice_out_of_memory().ok();
            }
            group.parts.push(part);
        }
        if let Some(parent) = pids.filter(|_| !same)
            && let Ok(mut part) = CgroupDir::make(parent, &name)
        {
            part.pids = limits
                .processes
                .is_some_and(|count| part.limit_pids(count).is_ok());
            group.parts.push(part);
        }
        // A part that limits nothing is removed here.
        group.parts.retain(|part| part.memory || part.pids);
        (!group.parts.is_empty()).then_some(group)
    }

    /// A descriptor that is readable when memory has run out and the kernel does not end the whole group for it.
    pub(in super::super) fn out_of_memory(&self) -> Option<&OwnedFd> {
        self.out_of_memory.as_ref()
    }

    /// Returns the mechanism that limits memory.
    pub(super) fn memory_mechanism(&self) -> Option<LimitMechanism> {
        self.parts
            .iter()
            .find(|part| part.memory)
            .map(|part| part.mechanism)
    }

    /// Returns the mechanism that limits processes.
    pub(super) fn process_mechanism(&self) -> Option<LimitMechanism> {
        self.parts
            .iter()
            .find(|part| part.pids)
            .map(|part| part.mechanism)
    }

    /// Puts a process into the group. `has_doors`: whether it enters by [`SandboxCgroup::join_fds`] where there are
    /// any.
    pub(in super::super) fn add_process(
        &self,
        pid: i32,
        has_doors: bool,
    ) -> rustix::io::Result<()> {
        let parts = self.parts.iter();
        for part in parts.filter(|part| !(has_doors && part.needs_join_fd())) {
            part.write("cgroup.procs", &pid.to_string())?;
        }
        Ok(())
    }

    /// Files by which a process of one thread enters the parts of version 1: it writes `0` to each. Whoever moves
    /// another process waits until no process of the machine forks, executes or ends (`cgroup_procs_write_start` in the
    /// kernel's cgroup.c), which takes milliseconds; a thread that moves itself does not.
    pub(in super::super) fn join_fds(&self) -> rustix::io::Result<Vec<OwnedFd>> {
        let parts = self.parts.iter().filter(|part| part.needs_join_fd());
        parts.map(|part| part.open("tasks")).collect()
    }

    /// Returns whether the kernel has killed a process of the group because of its memory.
    pub(in super::super) fn killed_for_memory(&self) -> bool {
        self.has_counted(|part| match part.mechanism {
            LimitMechanism::CgroupV2 => ("memory.events", "oom_kill"),
            _ => ("memory.oom_control", "oom_kill"),
        })
    }

    /// Returns whether a process could not be made because there were too many.
    pub(in super::super) fn refused_processes(&self) -> bool {
        self.has_counted(|_| ("pids.events", "max"))
    }

    fn has_counted(&self, which: impl Fn(&CgroupDir) -> (&'static str, &'static str)) -> bool {
        self.parts.iter().any(|part| {
            let (file, key) = which(part);
            let text = part.read(file).unwrap_or_default();
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            value.is_some_and(|value| value != "0")
        })
    }

    /// Kills what is in the group, where its first process could not be killed or does not end.
    pub(in super::super) fn kill(&self) {
        for part in &self.parts {
            if part.write("cgroup.kill", "1").is_ok() {
                continue;
            }
            for pid in part.read("cgroup.procs").unwrap_or_default().lines() {
                if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
    }
}

impl CgroupDir {
    fn make(parent: &ParentGroup, name: &str) -> rustix::io::Result<Self> {
        let path = parent.path.join(name);
        rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self {
            path,
            dir,
            mechanism: parent.mechanism(),
            memory: false,
            pids: false,
        })
    }

    fn limit_memory(&self, bytes: u64) -> rustix::io::Result<()> {
        let bytes = bytes.to_string();
        if self.mechanism == LimitMechanism::CgroupV2 {
            self.write("memory.max", &bytes)?;
            // Without swap there is no such file.
            let _ = self.write("memory.swap.max", "0");
            let _ = self.write("memory.oom.group", "1");
            return Ok(());
        }
        self.write("memory.limit_in_bytes", &bytes)?;
        // Memory and swap together. Where swap is not accounted, none shall be used.
        if self.write("memory.memsw.limit_in_bytes", &bytes).is_err() {
            let _ = self.write("memory.swappiness", "0");
        }
        Ok(())
    }

    /// Has an event descriptor told when memory runs out; the kernel's admin-guide/cgroup-v1/memory.rst, section 9.
    fn notice_out_of_memory(&self) -> rustix::io::Result<OwnedFd> {
        use std::os::fd::AsRawFd;
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, "memory.oom_control", flags, Mode::empty())?;
        let request = format!("{} {}", event.as_raw_fd(), file.as_raw_fd());
        self.write("cgroup.event_control", &request)?;
        Ok(event)
    }

    fn limit_pids(&self, count: u64) -> rustix::io::Result<()> {
        // The first process is not the program's.
        self.write("pids.max", &count.saturating_add(1).to_string())
    }

    /// Returns whether any process can enter by a descriptor: version 2 looks at the process itself in older kernels.
    fn needs_join_fd(&self) -> bool {
        self.mechanism == LimitMechanism::CgroupV1
    }

    fn open(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, name, flags, Mode::empty())
    }

    fn write(&self, name: &str, text: &str) -> rustix::io::Result<()> {
        rustix::io::write(self.open(name)?, text.as_bytes()).map(drop)
    }

    fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::empty()).ok()?;
        read_all(file)
    }
}

impl Drop for CgroupDir {
    fn drop(&mut self) {
        for _ in 0..MAX_REMOVE_TRIES {
            match rustix::fs::unlinkat(CWD, &self.path, AtFlags::REMOVEDIR) {
                Err(Errno::BUSY) => std::thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
    }
}

/// Returns how the names of groups begin that launchers of this PID namespace make: in another one, their numbers are
/// those of other processes, or of none.
fn group_prefix() -> Option<String> {
    let namespace = rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino;
    Some(format!("{GROUP_PREFIX}{namespace}-"))
}

/// Removes groups of launchers that do not live any more. The kernel removes none with a process in it, but one that
/// its launcher has only just made.
fn remove_dead_groups(parent: &Path) {
    let Some(prefix) = group_prefix() else {
        return;
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing =
        rustix::fs::openat(CWD, parent, flags, Mode::empty()).and_then(rustix::fs::Dir::new);
    for entry in listing.into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let launcher = name
            .strip_prefix(&*prefix)
            .and_then(|rest| rest.split_once('-'));
        let pid = launcher.and_then(|(pid, _)| rustix::process::Pid::from_raw(pid.parse().ok()?));
        if pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH)) {
            let _ = rustix::fs::unlinkat(CWD, parent.join(name), AtFlags::REMOVEDIR);
        }
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    read_all(rustix::fs::openat(CWD, path.as_ref(), flags, Mode::empty()).ok()?)
}

fn read_all(file: OwnedFd) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::from(file).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const UNIFIED: &str =
        "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn parent(path: &str, unified: bool) -> Option<ParentGroup> {
        Some(ParentGroup {
            path: path.into(),
            unified,
        })
    }

    #[test]
    fn version_one_is_found_by_controller() {
        let own = "8:pids:/\n4:memory:/jobs/1\n0::/\n";
        let found = CgroupHierarchies::from_tables(HYBRID, own, &|_, _| false);
        assert_eq!(found.memory, parent("/sys/fs/cgroup/memory/jobs/1", false));
        assert_eq!(found.pids, parent("/sys/fs/cgroup/pids/", false));
    }

    #[test]
    fn a_container_s_part_of_a_hierarchy_is_found() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found =
            CgroupHierarchies::from_tables(mounts, "4:memory:/docker/abc/x\n", &|_, _| false);
        assert_eq!(found.memory, parent("/sys/fs/cgroup/memory/x", false));
        let found = CgroupHierarchies::from_tables(mounts, "4:memory:/elsewhere\n", &|_, _| false);
        assert_eq!(found.memory, None);
    }

    #[test]
    fn version_two_is_found_where_controllers_are_handed_on() {
        let own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope\n";
        let slice = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice";
        let found = CgroupHierarchies::from_tables(UNIFIED, own, &|dir, controller| {
            (dir == Path::new(slice) && controller == "memory")
                || dir.ends_with("user@1000.service")
        });
        assert_eq!(found.memory, parent(slice, true));
        assert_eq!(
            found.pids,
            parent(slice.trim_end_matches("/app.slice"), true)
        );
        assert_eq!(
            CgroupHierarchies::from_tables(UNIFIED, own, &|_, _| false),
            CgroupHierarchies::default()
        );
        assert_eq!(
            CgroupHierarchies::from_tables("", "", &|_, _| true),
            CgroupHierarchies::default()
        );
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn groups_of_another_pid_namespace_are_somebody_else_s() {
        let parent = tempfile::tempdir().unwrap();
        let own = group_prefix().unwrap();
        // No process has a number above 2^22 (PID_MAX_LIMIT).
        let (dead, living) = (
            format!("{own}4194305-0"),
            format!("{own}{}-0", std::process::id()),
        );
        for name in [&*dead, &*living, "trumanfs-1-4194305-0"] {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        remove_dead_groups(parent.path());
        assert!(!parent.path().join(dead).exists());
        assert!(parent.path().join(living).exists());
        assert!(parent.path().join("trumanfs-1-4194305-0").exists());
    }
}
