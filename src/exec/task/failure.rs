//! Why a task failed: the closed set of codes, and words for people.

use std::fmt;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::failure_reason::FailureReason;
use super::strict::{self, FormatError};
use crate::error::Error;

/// Why a task failed. There are no other codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum FailureCode {
    /// The manifest's capability is none of those that there are.
    UnsupportedCapability,
    /// The lease is missing, malformed, not by a trusted key, for something else, not valid yet, revoked or used up.
    InvalidLease,
    /// The lease's time is over.
    LeaseExpired,
    /// The manifest is malformed, its paths are not allowed, or the operation failed.
    ExecutionFailed,
    /// A quota of the lease, the memory or the disk was exhausted.
    ResourceExhausted,
}

impl FailureCode {
    /// All codes.
    pub const ALL: [FailureCode; 5] = [
        FailureCode::UnsupportedCapability,
        FailureCode::InvalidLease,
        FailureCode::LeaseExpired,
        FailureCode::ExecutionFailed,
        FailureCode::ResourceExhausted,
    ];

    /// Returns the code as results have it.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureCode::UnsupportedCapability => "UNSUPPORTED_CAPABILITY",
            FailureCode::InvalidLease => "INVALID_LEASE",
            FailureCode::LeaseExpired => "LEASE_EXPIRED",
            FailureCode::ExecutionFailed => "EXECUTION_FAILED",
            FailureCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
        }
    }
}

impl From<FailureCode> for &'static str {
    fn from(code: FailureCode) -> &'static str {
        code.as_str()
    }
}

impl TryFrom<String> for FailureCode {
    type Error = FormatError;

    fn try_from(text: String) -> Result<FailureCode, FormatError> {
        let known = FailureCode::ALL
            .into_iter()
            .find(|code| code.as_str() == text);
        known.ok_or_else(|| FormatError::new(format!("{text:?} is no code of a failure")))
    }
}

/// A failure: its code, its reason, and that in words. The words say nothing that the lease does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFailure {
    /// Which kind it is.
    pub code: FailureCode,
    /// Its reason, for programs; absent in results of releases that knew none.
    #[serde(
        default,
        deserialize_with = "strict::if_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub reason: Option<FailureReason>,
    /// The reason in words, for people.
    pub message: String,
}

impl TaskFailure {
    /// Returns the failure in other words.
    pub fn in_words(self, message: impl AsRef<str>) -> TaskFailure {
        TaskFailure {
            message: FormatError::new(message).to_string(),
            ..self
        }
    }

    /// Returns the failure of which it cannot be told whether its task was done.
    pub(super) fn into_unclear(self, message: impl AsRef<str>) -> TaskFailure {
        TaskFailure {
            reason: Some(FailureReason::Unclear),
            ..self.in_words(message)
        }
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for TaskFailure {}

/// Returns whether a disk or a quota of it is full.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error.errno(), Errno::NOSPC | Errno::DQUOT)
}
