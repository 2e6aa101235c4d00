//! Notices for the user who mounts a store: shown in the daemon's log, by `mount`, `status` and `agent`.

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
