//! The mechanisms that enforce limits.

use trumanfs_init::limit::LimitKind;

/// The mechanism that enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitMechanism {
    /// A cgroup of version 2.
    CgroupV2,
    /// A cgroup of version 1.
    CgroupV1,
    /// A limit of each process, or of the user in the sandbox's user namespace; setrlimit(2).
    Rlimit,
    /// The sandbox's first process, which looks several times a second: what is used may be more for a moment.
    Watched,
}

impl LimitMechanism {
    /// Returns the name of the mechanism, in outcomes too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup-v2",
            Self::CgroupV1 => "cgroup-v1",
            Self::Rlimit => "rlimit",
            Self::Watched => "watched",
        }
    }
}

/// A limit that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveLimit {
    /// Which.
    pub limit: LimitKind,
    /// By what.
    pub mechanism: LimitMechanism,
}

impl ActiveLimit {
    /// Returns it in words: `memory by cgroup-v2`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("{} by {}", self.limit.name(), self.mechanism.name())
    }
}
