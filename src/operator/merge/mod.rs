//! Merges a fork into its origin: all changes since the fork was made, as a single run that can be undone.
//!
//! Three states are compared, path by path: the base is the fork as it was made, which its own records and versions
//! give; theirs is the fork now; ours is the origin now, whoever changed it. Changes of one side only are taken from
//! that side. A text that changed on both sides is merged line by line (`operator/text`). Every other change of both
//! sides is a conflict, and reported.
//!
//! `plan.rs` decides and changes nothing, `apply.rs` carries out, under one record.

mod apply;
mod contents;
mod earlier_contents;
mod names;
mod origin_tree;
mod perform;
mod plan;
mod steps;
mod unrecorded;
mod unrecorded_edits;
mod unrecorded_removals;

pub use perform::{MergeReport, MergeRequest, perform};
pub use steps::MergeConflict;
