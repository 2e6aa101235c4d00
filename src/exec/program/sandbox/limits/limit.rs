//! The kinds of limits, and what enforces them.

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Limit {
    /// Processor time.
    Cpu = 1,
    /// Memory.
    Memory = 2,
    /// Processes and threads.
    Processes = 3,
    /// Open files of a process.
    OpenFiles = 4,
    /// The size of a file.
    FileSize = 5,
}

impl Limit {
    pub(in super::super) fn from_number(number: u8) -> Option<Self> {
        [
            Self::Cpu,
            Self::Memory,
            Self::Processes,
            Self::OpenFiles,
            Self::FileSize,
        ]
        .into_iter()
        .find(|limit| *limit as u8 == number)
    }

    /// What the limit is called, in outcomes too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::FileSize => "file_size",
        }
    }
}

/// What sees to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A cgroup of version 2.
    CgroupV2,
    /// A cgroup of version 1.
    CgroupV1,
    /// A limit of each process, or of the user in the sandbox's user namespace; setrlimit(2).
    Rlimit,
    /// The sandbox's first process, which looks several times a second: what is used may be more for a moment.
    Watched,
}

impl Mechanism {
    /// What the mechanism is called, in outcomes too.
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
pub struct InForce {
    /// Which.
    pub limit: Limit,
    /// By what.
    pub mechanism: Mechanism,
}

impl InForce {
    /// Returns it in words: `memory by cgroup-v2`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("{} by {}", self.limit.name(), self.mechanism.name())
    }
}
