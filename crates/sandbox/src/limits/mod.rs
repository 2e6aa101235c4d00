//! The limits on what all processes of a sandbox may use together, and the mechanism by which each limit is in force.
//!
//! The kernel's own accounting is taken where there is one (a cgroup, an rlimit that counts for the whole sandbox);
//! else the sandbox's first process looks at what the others use, and ends the sandbox when it is too much.

mod cgroup;
mod enforce;
mod limit;

pub(super) use cgroup::{CgroupHierarchies, SandboxCgroup};
pub(super) use enforce::{EnforcedLimits, enforce};
pub use limit::{ActiveLimit, LimitMechanism};
