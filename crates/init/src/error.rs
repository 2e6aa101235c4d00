//! The steps at which the first process of a sandbox can fail.

use rustix::io::Errno;

use crate::sys::program;

/// A step of a launch, in the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// The plan asks for something that cannot be.
    Plan = 1,
    /// Taking the identity of the home's owner (root only).
    Identity = 2,
    /// Making the namespaces.
    Namespaces = 3,
    /// Executing this program anew as the first process of the sandbox.
    Init = 4,
    /// Entering the user into the user namespace.
    UserMap = 5,
    /// Finding something of the host that the program shall see.
    Source = 6,
    /// Making the sandbox's root, a file system in memory.
    Root = 7,
    /// Mounting something in the sandbox.
    Mount = 8,
    /// Mounting `/proc`.
    Proc = 9,
    /// Leaving the host's root.
    Pivot = 10,
    /// Bringing up the loopback interface.
    Loopback = 11,
    /// Giving up capabilities.
    Privileges = 12,
    /// Installing the filter of system calls.
    Filter = 13,
    /// Setting limits.
    Limits = 14,
    /// Going to the working directory.
    Directory = 15,
    /// Executing the program.
    Program = 16,
    /// Talking to the first process of the sandbox.
    Control = 17,
    /// Preparing the network that the launcher answers for.
    Network = 18,
    /// Having another program or mechanism make the sandbox.
    Backend = 19,
    /// Making a terminal for the program.
    Terminal = 20,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Plan,
        Self::Identity,
        Self::Namespaces,
        Self::Init,
        Self::UserMap,
        Self::Source,
        Self::Root,
        Self::Mount,
        Self::Proc,
        Self::Pivot,
        Self::Loopback,
        Self::Privileges,
        Self::Filter,
        Self::Limits,
        Self::Directory,
        Self::Program,
        Self::Control,
        Self::Network,
        Self::Backend,
        Self::Terminal,
    ];

    /// Returns the step with a number that came over the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step as u8 == number)
    }
}

/// Why a sandbox was not set up, or its program not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFailure {
    /// The step that failed.
    pub step: Step,
    /// The object of the step: a path, a number, a reason in words. May be empty.
    pub about: String,
    /// The error of the kernel, if it was asked.
    pub errno: Option<Errno>,
}

impl StepFailure {
    /// Makes one of a call that failed.
    pub fn new(step: Step, about: impl Into<String>, errno: Errno) -> Self {
        Self {
            step,
            about: about.into(),
            errno: Some(errno),
        }
    }

    /// Makes one of a step that is not taken, for this reason and not because a call failed.
    pub fn refused(step: Step, reason: impl Into<String>) -> Self {
        Self {
            step,
            about: reason.into(),
            errno: None,
        }
    }
}

impl From<program::StartFailure> for StepFailure {
    fn from(failure: program::StartFailure) -> Self {
        let step = if failure.at_directory {
            Step::Directory
        } else {
            Step::Program
        };
        Self::new(step, "", failure.errno)
    }
}
