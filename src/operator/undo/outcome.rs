//! The result of applying a plan.

use super::skipped::SkippedSteps;
use crate::error::Error;

/// The result of an undo.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct UndoOutcome {
    /// The number of its record in the session; `None` where there was nothing to do.
    pub record: Option<u64>,
    /// The number of nodes that moved.
    pub moves: u64,
    /// The number of contents that were restored.
    pub contents: u64,
    /// The number of nodes whose attributes were changed.
    pub attributes: u64,
    /// The changes that failed while the rest was made.
    pub skipped: SkippedSteps,
    /// The error that stopped it half-way, if any.
    pub failed: Option<Error>,
}
