//! A finding from opening a store, for an operator to read.

/// A finding when a store was opened, after a crash or in a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFinding {
    /// The session that the finding belongs to.
    pub session: String,
    /// The text of the finding, in plain English.
    pub what: String,
    /// True if a crash caused it.
    pub crash: bool,
}

impl std::fmt::Display for StoreFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let when = if self.crash { "after a crash, " } else { "" };
        write!(f, "{when}session {}: {}", self.session, self.what)
    }
}
