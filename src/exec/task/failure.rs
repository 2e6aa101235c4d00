//! Why a task failed: the closed set of codes, and words for people.

use std::fmt;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::strict::Malformed;
use crate::error::Error;

/// Why a task failed. There are no other codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Code {
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

impl Code {
    /// All codes.
    pub const ALL: [Code; 5] = [
        Code::UnsupportedCapability,
        Code::InvalidLease,
        Code::LeaseExpired,
        Code::ExecutionFailed,
        Code::ResourceExhausted,
    ];

    /// Returns the code as results have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::UnsupportedCapability => "UNSUPPORTED_CAPABILITY",
            Code::InvalidLease => "INVALID_LEASE",
            Code::LeaseExpired => "LEASE_EXPIRED",
            Code::ExecutionFailed => "EXECUTION_FAILED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        }
    }

    /// Returns the failure of this code with its reason.
    pub fn because(self, message: impl AsRef<str>) -> Failure {
        Failure {
            code: self,
            message: Malformed::new(message).to_string(),
        }
    }
}

impl From<Code> for &'static str {
    fn from(code: Code) -> &'static str {
        code.as_str()
    }
}

impl TryFrom<String> for Code {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Code, Malformed> {
        let known = Code::ALL.into_iter().find(|code| code.as_str() == text);
        known.ok_or_else(|| Malformed::new(format!("{text:?} is no code of a failure")))
    }
}

/// A failure: its code, and its reason in words. The words say nothing that the lease does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Which kind it is.
    pub code: Code,
    /// What happened, for people.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for Failure {}

/// Returns whether a disk or a quota of it is full.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error.errno(), Errno::NOSPC | Errno::DQUOT)
}
