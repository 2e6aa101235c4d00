//! Undo: of one operation, a program's changes, a session, or everything since a point; and restoring single files.
//!
//! There are three steps. `select` finds the records. `plan` takes them back on a tree, the newest first, and compares
//! the state that each left with the present one: a pure function of the records and the store, which changes nothing.
//! [`apply`] carries out a plan through the world, recorded, so that it can be undone itself and nothing is lost.
//!
//! The plan compares *states*, not histories: the number of operations in between does not matter, only whether a
//! name, a content or an attribute is still as the record left it. And it goes by identity, not by path: a file
//! removed from a directory comes back into that directory, wherever it is now.
//!
//! [`apply`]: apply::apply

pub mod apply;
mod cancelled;
pub mod change_backend;
mod conflicting_records;
mod content_changes;
mod copier;
pub mod edit;
mod git_changes;
mod git_files;
mod last_undo;
mod later_lines;
mod moves;
mod node_equality;
pub mod perform;
pub mod plan;
mod plan_checks;
mod planner;
mod requested_paths;
pub mod restore;
pub mod select;
pub mod selection;
pub mod step_summary;
mod steps;
mod touch_times;
pub mod undo_outcome;
mod volatile_gone;

pub use apply::apply;
pub use change_backend::{ChangeBackend, OfflineBackend};
pub(in crate::operator) use conflicting_records::describe_conflicting_records;
pub(in crate::operator) use copier::PastCopier;
pub use last_undo::{LastUndo, last_undo};
pub use perform::{JointRun, UndoReport, UndoRequest, perform};
pub use plan::plan;
pub(in crate::operator) use planner::ConflictCause;
pub use planner::{OnConflict, UndoConflict, UndoPlan};
pub use select::{TurnRange, TurnScope, UndoScope, select};
pub use selection::RecordSelection;
pub use step_summary::in_words;
pub(in crate::operator) use steps::FormerBytes;
pub use steps::put_xattr_if_allowed;
pub use undo_outcome::{SkippedSteps, UndoOutcome};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
