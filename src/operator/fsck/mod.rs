//! Consistency checks: whether a store's journals, versions, trash and lists agree with each other.
//!
//! Checking only reads, needs no lock and works on a mounted store. Each record is read once; memory grows with the
//! trash and the versions and with what is missing there, not with the records. Repairing takes the store's lock,
//! deletes nothing of the occupant's, and is followed by another check.

mod check;
mod contents;
mod finding;
mod inode_lists;
mod journal_pass;
mod journals;
mod missing;
mod records;
mod repair;
mod seal_digests;
mod seals;

pub use check::check;
pub use finding::{
    CheckProgress, Finding, FindingKind, FindingWeight, FsckReport, RepairAction, VerifiedTotals,
};
pub use repair::repair;
