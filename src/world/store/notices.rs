//! Notices for the user who mounts a store: shown in the daemon's log, by `mount`, `status` and `agent`; and findings
//! from opening a store, for an operator to read.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The notices of one session, each under its subject. A later notice of a subject replaces the former.
#[derive(Debug, Default)]
pub struct SessionNotices(Mutex<BTreeMap<&'static str, String>>);

impl SessionNotices {
    /// Sets the notice of a subject.
    pub fn set(&self, subject: &'static str, text: String) {
        self.0.lock().insert(subject, text);
    }

    /// Returns all notices.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().values().cloned().collect()
    }
}

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
