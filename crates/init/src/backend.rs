//! The backends that make sandboxes.

/// A mechanism that makes a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Backend {
    /// Namespaces and a root that this program makes itself.
    Namespaces = 1,
    /// Namespaces and a root that bubblewrap makes.
    Bwrap = 2,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Namespaces, Self::Bwrap];

    /// Returns the name of the backend, in options and outcomes too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bwrap => "bwrap",
        }
    }

    /// Returns the backend with a number that came over the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == number)
    }
}
