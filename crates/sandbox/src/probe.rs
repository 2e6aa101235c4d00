//! The probe of this machine: a sandbox is made as any other is, and what it fails at is named, with what is in the
//! way.
//!
//! Nothing is guessed from versions or settings. Settings are read only to say why something that was tried failed.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use super::error::{LaunchError, Step};
use super::in_place::has_file_rules;
use super::launch::{Launcher, launch_by};
use super::limits::{ActiveLimit, LimitMechanism};
use super::plan::{NetworkAccess, ResourceLimits, SandboxPlan};
use super::program_end::ProgramEnd;
use super::running::KillCondition;
use trumanfs_init::backend::Backend;
use trumanfs_init::limit::LimitKind;

use trumanfs_mounts::obstacle::CONTAINER_OPTIONS;

/// Something that a sandbox needs or uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineCapability {
    /// The name of the capability.
    pub name: &'static str,
    /// True if the capability works; `None` where it could not be tried, because something before it failed.
    pub works: Option<bool>,
    /// True if there is no sandbox without the capability. A capability that is not needed has something that takes its
    /// place.
    pub needed: bool,
    /// The finding, in words.
    pub found: String,
    /// The remedy, where the capability does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The user that everybody knows and that owns nothing.
const NOBODY: u32 = 65534;

/// The capabilities that are tried, in this order: the name, the steps of a launch that belong to it, and what works if
/// they do.
const TRIED_PARTS: [(&str, &[Step], &str); 6] = [
    (
        "namespaces",
        &[
            Step::Plan,
            Step::Identity,
            Step::Namespaces,
            Step::Init,
            Step::UserMap,
        ],
        "user, mount, PID, network, IPC, UTS and cgroup namespaces can be made",
    ),
    (
        "mounts",
        &[Step::Source, Step::Root, Step::Mount, Step::Pivot],
        "a root can be made in which only system software and the home are",
    ),
    (
        "proc",
        &[Step::Proc],
        "a /proc of the sandbox's own can be mounted",
    ),
    (
        "loopback",
        &[Step::Loopback],
        "a network of the sandbox's own can be brought up",
    ),
    (
        "filter",
        &[Step::Limits, Step::Privileges, Step::Filter],
        "privileges can be given up, and system calls filtered",
    ),
    (
        "program",
        &[Step::Directory, Step::Program, Step::Control],
        "a program was run",
    ),
];

/// The order in which the first process goes through the parts.
const STEP_ORDER: [Step; 14] = [
    Step::Plan,
    Step::Identity,
    Step::Namespaces,
    Step::Init,
    Step::UserMap,
    Step::Loopback,
    Step::Source,
    Step::Root,
    Step::Mount,
    Step::Proc,
    Step::Pivot,
    Step::Limits,
    Step::Privileges,
    Step::Filter,
];

/// Settings that forbid namespaces: the file, the value that does, and what to do about it.
const FORBIDDING_SETTINGS: [(&str, &str, &str); 5] = [
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "load the AppArmor profile that comes with trumanfs; mount-scripts/trumanfs.apparmor says how",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "sysctl user.max_user_namespaces=10000",
    ),
    (
        "/proc/sys/user/max_net_namespaces",
        "0",
        "sysctl user.max_net_namespaces=10000",
    ),
    (
        "/proc/sys/user/max_mnt_namespaces",
        "0",
        "sysctl user.max_mnt_namespaces=10000",
    ),
];

/// The report on what a machine can do for sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    /// The backend that makes the sandboxes of homes of this process's user where nobody asks for another one; nothing
    /// if none works.
    pub backend: Option<Backend>,
    /// The capabilities that were tried, in this order.
    pub capabilities: Vec<MachineCapability>,
}

/// Tries everything, by making a sandbox of each backend that shows no home and runs `true`.
#[must_use]
pub fn probe(launcher: &Launcher) -> ProbeReport {
    let mut capabilities = probe_namespaces(launcher);
    let own_works = capabilities
        .iter()
        .all(|one| !one.needed || one.works == Some(true));
    let bwrap = probe_bwrap(launcher);
    let bwrap_works = bwrap.works == Some(true);
    capabilities.push(bwrap);
    capabilities.push(probe_file_rules());
    ProbeReport {
        backend: match (own_works, bwrap_works) {
            (true, _) => Some(Backend::Namespaces),
            // A home of root's has no sandbox of bubblewrap's.
            (false, true) if own_ids().0 != 0 => Some(Backend::Bwrap),
            (false, _) => None,
        },
        capabilities,
    }
}

/// Makes a sandbox of a backend for a user, and runs `true` in it; returns the limits that were in force, and the warnings
/// about what it shows.
fn run(
    launcher: &Launcher,
    backend: Backend,
    ids: (u32, u32),
) -> Result<(Vec<ActiveLimit>, Vec<String>), LaunchError> {
    let mut running = launch_by(backend, &probe_plan(ids)?, launcher, &mut |_| {})?;
    let found = (running.in_force().to_vec(), running.warnings().to_vec());
    match running.wait(KillCondition::default()).end {
        ProgramEnd::Exited(0) => Ok(found),
        ProgramEnd::NotStarted(error) => Err(error),
        other => Err(LaunchError::refused(
            Step::Program,
            format!("`true` ended with {other:?}"),
        )),
    }
}

/// The ids of this process.
fn own_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

/// Tries bubblewrap. Root tries it for somebody else, because it is for no home of root's.
fn probe_bwrap(launcher: &Launcher) -> MachineCapability {
    let ids = match own_ids() {
        (0, _) => (NOBODY, NOBODY),
        ids => ids,
    };
    let failed = run(launcher, Backend::Bwrap, ids).err();
    let works = "bwrap can make a sandbox where own namespaces are refused: no network but loopback, no home that is root's or below /tmp";
    MachineCapability {
        name: Backend::Bwrap.name(),
        works: Some(failed.is_none()),
        needed: false,
        found: failed.as_ref().map_or(works.to_owned(), LaunchError::what),
        remedy: failed.as_ref().and_then(remedy),
    }
}

/// Looks for the rules that hold an agent where no namespaces can be made.
fn probe_file_rules() -> MachineCapability {
    let works = has_file_rules();
    let found = match works {
        true => {
            "rules about files (Landlock) can hold an agent in a fork: `agent --home fork --sandbox weak`"
        }
        false => "rules about files (Landlock of Linux 6.2) are not in force",
    };
    MachineCapability {
        name: Backend::Landlock.name(),
        works: Some(works),
        needed: false,
        found: found.to_owned(),
        remedy: None,
    }
}

/// Tries own namespaces, and what is to be had in them.
fn probe_namespaces(launcher: &Launcher) -> Vec<MachineCapability> {
    let outcome = run(launcher, Backend::Namespaces, own_ids());
    let failed = outcome.as_ref().err();
    let mut all: Vec<MachineCapability> = TRIED_PARTS
        .iter()
        .map(|part| part_of(part, failed))
        .collect();
    let (in_force, warnings) = outcome.as_ref().ok().cloned().unwrap_or_default();
    let in_force = in_force.as_slice();
    // With nothing bound, there is a warning of one kind: the container's own /proc is shown.
    if let (Some(proc), Some(warning)) = (
        all.iter_mut().find(|one| one.name == "proc"),
        warnings.into_iter().next(),
    ) {
        proc.found = warning;
    }
    all.push(limit_capability(LimitKind::Memory, in_force, "memory"));
    all.push(limit_capability(
        LimitKind::Processes,
        in_force,
        "processes",
    ));
    all
}

/// A plan that needs nothing of this machine but what each sandbox needs.
fn probe_plan((uid, gid): (u32, u32)) -> Result<SandboxPlan, LaunchError> {
    let open = |path: &str, flags: OFlags| -> Result<OwnedFd, LaunchError> {
        rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| LaunchError::new(Step::Source, path, errno))
    };
    Ok(SandboxPlan {
        home: open("/usr", OFlags::PATH)?,
        further_homes: Vec::new(),
        home_is_detached: false,
        home_path: "/home/nobody".into(),
        cwd: "/".into(),
        read_only: true,
        scratch: open("/usr", OFlags::PATH)?,
        argv: vec!["true".into()],
        env: Vec::new(),
        search_path: None,
        placed: Vec::new(),
        etc_files: Vec::new(),
        bind_ro: Vec::new(),
        private: Vec::new(),
        state_name: b"",
        writable: Vec::new(),
        ptrace: false,
        uid,
        gid,
        limits: ResourceLimits {
            memory: Some(1 << 30),
            processes: Some(100),
            ..ResourceLimits::default()
        },
        stdin: open("/dev/null", OFlags::RDWR)?,
        stdout: open("/dev/null", OFlags::RDWR)?,
        stderr: open("/dev/null", OFlags::RDWR)?,
        terminal: None,
        network: NetworkAccess::None,
    })
}

fn part_of(
    (name, steps, good): &(&'static str, &[Step], &str),
    failed: Option<&LaunchError>,
) -> MachineCapability {
    let when = |step: Step| {
        STEP_ORDER
            .iter()
            .position(|one| *one == step)
            .unwrap_or(STEP_ORDER.len())
    };
    let works = failed.is_none_or(|error| {
        !steps.contains(&error.step) && steps.iter().all(|step| when(*step) < when(error.step))
    });
    let error = failed.filter(|error| steps.contains(&error.step));
    let (works, found) = match (error, works) {
        (Some(error), _) => (Some(false), error.what()),
        (None, true) => (Some(true), (*good).to_owned()),
        (None, false) => (
            None,
            "not tried, because something before it failed".to_owned(),
        ),
    };
    MachineCapability {
        name,
        works,
        needed: true,
        found,
        remedy: error.and_then(remedy),
    }
}

/// Returns whether a filter of system calls is in force for this process.
fn is_filtered() -> bool {
    let status = read_setting("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line == "Seccomp:\t2")
}

/// Reads a file of `/proc`.
fn read_setting(file: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, file, flags, Mode::empty()).ok()?;
    let mut text = vec![0; 4096];
    let len = rustix::io::read(file, &mut text).ok()?;
    text.truncate(len);
    String::from_utf8(text).ok()
}

/// Says what to do about a failed step: by what is in the way, if that can be named.
fn remedy(error: &LaunchError) -> Option<String> {
    let about_namespaces = [
        Step::Namespaces,
        Step::UserMap,
        Step::Source,
        Step::Root,
        Step::Mount,
        Step::Pivot,
        Step::Loopback,
    ];
    let is_refused = matches!(
        error.errno,
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSPC)
    );
    if !is_refused || !about_namespaces.contains(&error.step) {
        return error.remedy();
    }
    let set = FORBIDDING_SETTINGS
        .iter()
        .find(|(file, value, _)| read_setting(file).is_some_and(|text| text.trim() == *value));
    match set {
        Some((file, value, remedy)) => Some(format!("{file} is {value}: {remedy}")),
        // A filter answers with EPERM what the kernel would not.
        None if error.errno == Some(Errno::PERM)
            && error.step != Step::UserMap
            && is_filtered() =>
        {
            Some(format!(
                "a filter of system calls refuses it. In a container, start it with {CONTAINER_OPTIONS}. In a service, leave RestrictNamespaces= and SystemCallFilter= out. In a sandbox of trumanfs none can be made"
            ))
        }
        None => error.remedy(),
    }
}

fn limit_capability(limit: LimitKind, in_force: &[ActiveLimit], what: &str) -> MachineCapability {
    let mechanism = in_force
        .iter()
        .find(|one| one.limit == limit)
        .map(|one| one.mechanism);
    let name = match limit {
        LimitKind::Memory => "memory-limit",
        _ => "process-limit",
    };
    let (works, found, remedy) = match mechanism {
        None => (None, "not tried, because there is no sandbox".to_owned(), None),
        Some(LimitMechanism::Watched) => (
            Some(false),
            format!("no cgroup can be made: the {what} of a sandbox can only be looked at several times a second, so a limit may be passed for a moment"),
            Some("start trumanfs where cgroups can be made: as root, or by `systemd-run --user --scope --property=Delegate=yes`".to_owned()),
        ),
        Some(mechanism) => (
            Some(true),
            format!("the kernel limits {what} of a sandbox as a whole: {}", mechanism.name()),
            None,
        ),
    };
    MachineCapability {
        name,
        works,
        needed: false,
        found,
        remedy,
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn of(error: &LaunchError) -> Vec<Option<bool>> {
        TRIED_PARTS
            .iter()
            .map(|part| part_of(part, Some(error)).works)
            .collect()
    }

    #[test]
    fn what_failed_is_told_from_what_was_not_tried() {
        let (yes, no) = (Some(true), Some(false));
        let userns = LaunchError::new(Step::Namespaces, "", Errno::PERM);
        assert_eq!(of(&userns), [no, None, None, None, None, None]);
        let proc = LaunchError::new(Step::Proc, "", Errno::PERM);
        // The root is left after /proc was mounted, so nobody knows yet.
        assert_eq!(of(&proc), [yes, None, no, yes, None, None]);
        let part = part_of(&TRIED_PARTS[2], Some(&proc));
        assert!(
            part.remedy
                .is_some_and(|remedy| remedy.contains("systempaths"))
        );
        let filter = LaunchError::new(Step::Filter, "", Errno::INVAL);
        assert_eq!(of(&filter), [yes, yes, yes, yes, no, None]);
    }
}
