//! The backends that make sandboxes.

/// A mechanism that makes a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Backend {
    /// Namespaces and a root that this program makes itself.
    Namespaces = 1,
    /// Namespaces and a root that bubblewrap makes.
    Bwrap = 2,
    /// No namespaces: rules decide which of the caller's files the program may open (landlock(7)), and system calls are
    /// filtered. It has the caller's processes, network and root around it.
    Landlock = 3,
    /// Nothing: what is around the caller, such as a container, is the wall.
    Unconfined = 4,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Namespaces,
        Self::Bwrap,
        Self::Landlock,
        Self::Unconfined,
    ];

    /// Returns the name of the backend, in options and outcomes too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bwrap => "bwrap",
            Self::Landlock => "weak",
            Self::Unconfined => "none",
        }
    }

    /// Returns whether programs have namespaces of their own: other paths, processes and networks than the caller.
    #[must_use]
    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::Namespaces | Self::Bwrap)
    }

    /// Returns the backend with a number that came over the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == number)
    }
}
