//! The reasons of failures, for programs: a closed list beside the codes.
//!
//! Owns the mapping from a reason to its code, and from an error of the operating system to a reason. `docs/TASKS.md` has
//! each with its meaning, and a test holds the two lists together.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::failure::{FailureCode, TaskFailure};
use super::strict::FormatError;
use crate::error::Error;

/// Declares the reasons once: the variant with its meaning, the text of it in results, the code that it belongs to.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal in $code:ident,)+) => {
        /// Why a task failed, for programs. There are no other reasons.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        pub enum FailureReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl FailureReason {
            /// All reasons.
            pub const ALL: &'static [FailureReason] = &[$(FailureReason::$variant,)+];

            /// Returns the reason as results have it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(FailureReason::$variant => $text,)+
                }
            }

            /// Returns the code that the reason belongs to.
            pub fn code(self) -> FailureCode {
                match self {
                    $(FailureReason::$variant => FailureCode::$code,)+
                }
            }
        }
    };
}

reasons! {
    /// The manifest's capability is none of those that there are.
    Capability = "capability" in UnsupportedCapability,
    /// The lease is missing, or no envelope of a lease as it has to be.
    LeaseMalformed = "lease_malformed" in InvalidLease,
    /// No kernel key that counts now has signed the lease.
    LeaseUntrusted = "lease_untrusted" in InvalidLease,
    /// The lease is for another executor.
    LeaseAudience = "lease_audience" in InvalidLease,
    /// The lease is for another task, manifest or result.
    LeaseMismatch = "lease_mismatch" in InvalidLease,
    /// The id of the task belongs to another manifest.
    TaskIdTaken = "task_id_taken" in InvalidLease,
    /// The lease lasts longer than the executor allows.
    LeaseTooLong = "lease_too_long" in InvalidLease,
    /// The lease is not valid yet.
    LeaseEarly = "lease_early" in InvalidLease,
    /// The lease is revoked.
    LeaseRevoked = "lease_revoked" in InvalidLease,
    /// The lease is used up.
    LeaseUsedUp = "lease_used_up" in InvalidLease,
    /// The lease does not have the capability.
    LeaseCapability = "lease_capability" in InvalidLease,
    /// The lease's time is over.
    LeaseExpired = "lease_expired" in LeaseExpired,
    /// The line, the manifest, its inputs or the result to undo cannot be read as such.
    Malformed = "malformed" in ExecutionFailed,
    /// FILE_DELETE without `constraints.reversible`.
    Irreversible = "irreversible" in ExecutionFailed,
    /// The result to undo is of no task that can be undone here.
    NotUndoable = "not_undoable" in ExecutionFailed,
    /// A path does not lie below a base of the configuration and of the lease.
    Outside = "outside" in ExecutionFailed,
    /// A path is of the executor's or a store's own files, or moves a file out of the trash.
    Protected = "protected" in ExecutionFailed,
    /// No file is there, or a directory on its path is absent.
    Missing = "missing" in ExecutionFailed,
    /// Something stands at the destination.
    Exists = "exists" in ExecutionFailed,
    /// A directory is there and no file.
    IsDirectory = "is_directory" in ExecutionFailed,
    /// A file stands where the path has a directory.
    NotDirectory = "not_directory" in ExecutionFailed,
    /// A symbolic link is there; one on the way to it counts as absent.
    Symlink = "symlink" in ExecutionFailed,
    /// A FIFO, a socket or a device is there.
    NotRegular = "not_regular" in ExecutionFailed,
    /// A program has the file open or mapped for writing.
    InUse = "in_use" in ExecutionFailed,
    /// Another file is there, or the content has changed, since the task to undo or while the task ran.
    Changed = "changed" in ExecutionFailed,
    /// The user of the executor may not do that there, or the file system is read-only.
    Access = "access" in ExecutionFailed,
    /// A removed file cannot be kept, or put back, across file systems.
    OtherFileSystem = "other_file_system" in ExecutionFailed,
    /// The file system cannot do what the operation needs.
    Unsupported = "unsupported" in ExecutionFailed,
    /// The home of the base cannot be changed now.
    Unavailable = "unavailable" in ExecutionFailed,
    /// The disk or the system failed in another way.
    Io = "io" in ExecutionFailed,
    /// The task was ended before it was done, and nothing of it is left.
    Interrupted = "interrupted" in ExecutionFailed,
    /// The worker could not be started or confined, or died.
    Worker = "worker" in ExecutionFailed,
    /// From what lies on the disk it cannot be told whether the task was done, or another file was taken for its file.
    Unclear = "unclear" in ExecutionFailed,
    /// The quota's `wall_ms` was used up.
    QuotaWall = "quota_wall_ms" in ResourceExhausted,
    /// The quota's `cpu_ms` was used up.
    QuotaCpu = "quota_cpu_ms" in ResourceExhausted,
    /// The quota's `memory_bytes` was used up.
    QuotaMemory = "quota_memory_bytes" in ResourceExhausted,
    /// The quota's `io_bytes` was used up.
    QuotaIo = "quota_io_bytes" in ResourceExhausted,
    /// A file is longer than the quota's `file_bytes`.
    QuotaFile = "quota_file_bytes" in ResourceExhausted,
    /// A disk, or a user's share of it, is full; also that of the state directory.
    FullDisk = "full_disk" in ResourceExhausted,
    /// The machine has no memory, processes or descriptors left.
    SystemLimit = "system_limit" in ResourceExhausted,
}

impl FailureReason {
    /// Returns the failure of this reason, in words.
    pub fn because(self, message: impl AsRef<str>) -> TaskFailure {
        TaskFailure {
            code: self.code(),
            reason: Some(self),
            message: FormatError::new(message).to_string(),
        }
    }

    /// Returns whether a failure of this code may have the reason.
    pub fn fits(self, code: FailureCode) -> bool {
        // An exhausted task may have left what nobody can tell.
        self.code() == code
            || (self == FailureReason::Unclear && code == FailureCode::ResourceExhausted)
    }

    /// Returns the reason of an error in a file system.
    pub(super) fn of(error: &Error) -> FailureReason {
        match error.errno() {
            Errno::NOENT => FailureReason::Missing,
            Errno::EXIST => FailureReason::Exists,
            Errno::ISDIR => FailureReason::IsDirectory,
            Errno::NOTDIR => FailureReason::NotDirectory,
            Errno::LOOP => FailureReason::Symlink,
            Errno::AGAIN | Errno::BUSY | Errno::TXTBSY => FailureReason::InUse,
            Errno::STALE => FailureReason::Changed,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => FailureReason::Access,
            Errno::XDEV => FailureReason::OtherFileSystem,
            Errno::OPNOTSUPP | Errno::NOSYS => FailureReason::Unsupported,
            Errno::NOSPC | Errno::DQUOT => FailureReason::FullDisk,
            Errno::FBIG => FailureReason::QuotaFile,
            Errno::NOMEM | Errno::MFILE | Errno::NFILE => FailureReason::SystemLimit,
            _ => FailureReason::Io,
        }
    }
}

impl From<FailureReason> for &'static str {
    fn from(reason: FailureReason) -> &'static str {
        reason.as_str()
    }
}

impl TryFrom<String> for FailureReason {
    type Error = FormatError;

    fn try_from(text: String) -> Result<FailureReason, FormatError> {
        let known = FailureReason::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text);
        known.ok_or_else(|| FormatError::new(format!("{text:?} is no reason of a failure")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_a_closed_list_with_meanings_in_the_documents() {
        let page = include_str!("../../../docs/TASKS.md");
        let (_, section) = page.split_once("\n### Reasons\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let mut documented = Vec::new();
        let mut code = "";
        for line in section.lines() {
            if let Some(heading) = line.strip_prefix("Of `") {
                code = heading.split('`').next().unwrap();
            } else if let Some(entry) = line.strip_prefix("- `") {
                documented.push((code, entry.split('`').next().unwrap()));
            }
        }
        let known: Vec<_> = FailureReason::ALL
            .iter()
            .map(|reason| (reason.code().as_str(), reason.as_str()))
            .collect();
        assert_eq!(documented, known);
        for reason in FailureReason::ALL {
            assert_eq!(
                FailureReason::try_from(reason.as_str().to_owned()),
                Ok(*reason)
            );
            assert_eq!(reason.because("x").code, reason.code());
        }
        for other in ["", "EXISTS", "other"] {
            assert!(FailureReason::try_from(other.to_owned()).is_err());
        }
    }
}
