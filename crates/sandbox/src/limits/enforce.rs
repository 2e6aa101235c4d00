//! Deciding the mechanism of each limit.

use super::cgroup::{CgroupHierarchies, SandboxCgroup};
use super::limit::{ActiveLimit, LimitMechanism};
use crate::error::{LaunchError, Step};
use crate::plan::ResourceLimits;
use trumanfs_init::limit::{LimitKind, resource};
use trumanfs_init::orders::WatchLimits;

/// The mechanisms that enforce the limits of a launch.
#[derive(Debug, Default)]
pub(in super::super) struct EnforcedLimits {
    /// The cgroup, if any.
    pub(in super::super) group: Option<SandboxCgroup>,
    /// Limits by number of the resource.
    pub(in super::super) rlimits: Vec<(u32, u64)>,
    /// The limits that the first process watches.
    pub(in super::super) watch: WatchLimits,
    pub(in super::super) in_force: Vec<ActiveLimit>,
}

/// Decides the mechanisms, and makes the cgroup if one is of use. `uid`: whom the program runs as. `helpers`: how many
/// processes of the backend are in the group beside the sandbox's first.
///
/// # Errors
/// [`Step::Limits`] where a limit makes no sense.
pub(in super::super) fn enforce(
    limits: &ResourceLimits,
    hierarchies: Option<&CgroupHierarchies>,
    uid: u32,
    helpers: u64,
) -> Result<EnforcedLimits, LaunchError> {
    let cpu = limits.cpu.map(|time| u64::from(!time.is_zero()));
    for (limit, value) in [
        (LimitKind::Cpu, cpu),
        (LimitKind::FileSize, limits.file_size),
        (LimitKind::Memory, limits.memory),
        (LimitKind::Processes, limits.processes),
        (LimitKind::OpenFiles, limits.open_files),
    ] {
        if value == Some(0) {
            let why = format!("a limit of {} that is 0 lets nothing run", limit.name());
            return Err(LaunchError::refused(Step::Limits, why));
        }
    }
    let mut enforced = EnforcedLimits {
        // No core dumps: they would lie in the home.
        rlimits: vec![(resource::CORE, 0)],
        ..EnforcedLimits::default()
    };
    if let Some(size) = limits.file_size {
        enforced.rlimit(LimitKind::FileSize, resource::FILE_SIZE, size);
    }
    if let Some(count) = limits.open_files {
        enforced.rlimit(LimitKind::OpenFiles, resource::OPEN_FILES, count);
    }
    if let Some(time) = limits.cpu {
        // Each process has an end of its own besides, in case that the first process does not come to look.
        enforced.rlimits.push((resource::CPU, time.as_secs() + 2));
        enforced.watch.cpu_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        enforced.watched(LimitKind::Cpu);
    }
    if limits.memory.is_some() || limits.processes.is_some() {
        let counted = ResourceLimits {
            processes: limits.processes.map(|count| count.saturating_add(helpers)),
            ..limits.clone()
        };
        enforced.group = hierarchies.and_then(|all| SandboxCgroup::make(all, &counted));
    }
    let group = enforced.group.as_ref();
    let (memory, processes) = group.map_or((None, None), |g| {
        (g.memory_mechanism(), g.process_mechanism())
    });
    match (limits.memory, memory) {
        (Some(_), Some(mechanism)) => enforced.note(LimitKind::Memory, mechanism),
        (Some(bytes), None) => {
            enforced.watch.memory = bytes;
            enforced.watched(LimitKind::Memory);
        }
        (None, _) => {}
    }
    match (limits.processes, processes) {
        (Some(_), Some(mechanism)) => enforced.note(LimitKind::Processes, mechanism),
        // In a user namespace of its own a user begins to count from nothing; user_namespaces(7). Root is not counted.
        (Some(count), None) if uid != 0 => {
            enforced.rlimit(
                LimitKind::Processes,
                resource::PROCESSES,
                count.saturating_add(1),
            );
        }
        (Some(count), None) => {
            enforced.watch.processes = count;
            enforced.watched(LimitKind::Processes);
        }
        (None, _) => {}
    }
    Ok(enforced)
}

impl EnforcedLimits {
    fn note(&mut self, limit: LimitKind, mechanism: LimitMechanism) {
        self.in_force.push(ActiveLimit { limit, mechanism });
    }

    fn rlimit(&mut self, limit: LimitKind, resource: u32, value: u64) {
        self.rlimits.push((resource, value));
        self.note(limit, LimitMechanism::Rlimit);
    }

    fn watched(&mut self, limit: LimitKind) {
        self.note(limit, LimitMechanism::Watched);
    }
}
