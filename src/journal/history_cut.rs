//! A cut of the history: what a record says about journals that were taken away.

use serde::{Deserialize, Serialize};

/// The place before which the history has expired, and the ends of the journals that went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCut {
    /// The first record that stayed: session and number.
    pub before: (String, u64),
    /// The sessions whose journals went, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<CutSession>,
}

/// A session whose journal went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutSession {
    /// The session.
    pub id: String,
    /// The number of its records.
    pub records: u64,
    /// The SHA-256 (hex) of its last line, which the session after it names, too.
    pub last: String,
}
