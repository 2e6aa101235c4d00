//! The kinds of limits.

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LimitKind {
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

impl LimitKind {
    /// Returns the limit with a number that came over the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
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

    /// Returns the name of the limit, in outcomes too.
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

/// The numbers of resources, for [`InitOrders::rlimits`](crate::orders::InitOrders::rlimits); those of x86-64 and most
/// others, in no use but this program's.
pub mod resource {
    /// Processor time of a process, in seconds.
    pub const CPU: u32 = 0;
    /// The size of a file, in bytes.
    pub const FILE_SIZE: u32 = 1;
    /// The size of a core dump, in bytes.
    pub const CORE: u32 = 4;
    /// The number of processes and threads.
    pub const PROCESSES: u32 = 6;
    /// The number of open files of a process.
    pub const OPEN_FILES: u32 = 7;
}
