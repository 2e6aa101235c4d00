//! The confinement of a worker: before it acts, it gives up other files, other system calls, and more than its quota.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use rustix::process::{Resource, Rlimit};

use crate::exec::task::quota::TaskQuota;

/// The largest number of descriptors of a worker: those of its places, and a few for each file.
const DESCRIPTORS: u64 = 64;

/// Ends this process with its supervisor, and lets nobody look into it; who wants to write to a file that it copies does not
/// end it.
///
/// # Errors
/// Errors of `prctl(2)`.
pub(super) fn tie() -> rustix::io::Result<()> {
    crate::sys::file_lease::ignore_breaking();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
}

/// Sets the limits of a quota that the kernel keeps. Processor time is counted in whole seconds there; the supervisor counts
/// finer.
///
/// # Errors
/// Errors of `setrlimit(2)`.
pub(super) fn limit(quota: Option<&TaskQuota>) -> rustix::io::Result<()> {
    let set_both = |resource, soft, hard| {
        let limit = Rlimit {
            current: Some(soft),
            maximum: Some(hard),
        };
        rustix::process::setrlimit(resource, limit)
    };
    let set = |resource, most| set_both(resource, most, most);
    set(Resource::Core, 0)?;
    set(Resource::Nofile, DESCRIPTORS)?;
    let Some(quota) = quota else { return Ok(()) };
    // SIGXCPU comes first and names the limit; at the hard one comes SIGKILL, which names none.
    let seconds = quota.cpu_ms.div_ceil(1000).saturating_add(1);
    set_both(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    set(Resource::Fsize, quota.file_bytes)?;
    set(Resource::As, quota.memory_bytes)
}

/// Leaves this process the files below these directories, and the system calls that work on files.
///
/// # Errors
/// In words, where the kernel has no Landlock of at least its third version (Linux 6.2), or no filters of system calls.
pub(super) fn confine(directories: &[OwnedFd]) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| format!("Landlock: {error}");
    let all = AccessFs::from_all(ABI::V3);
    let needed: BitFlags<AccessFs> = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::RemoveFile
        | AccessFs::MakeReg
        | AccessFs::Refer
        | AccessFs::Truncate;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(Ruleset::create)
        .map_err(|error| words(&error))?;
    for directory in directories {
        ruleset = ruleset
            .add_rule(PathBeneath::new(directory, needed))
            .map_err(|error| words(&error))?;
    }
    let status = ruleset.restrict_self().map_err(|error| words(&error))?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        return Err("Landlock is not in force".to_owned());
    }
    crate::sys::seccomp::allow_files().map_err(|error| format!("seccomp: {error}"))
}
