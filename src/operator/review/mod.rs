//! Reviews: which changes nobody has accepted yet, whose they are, and what accepting and taking back means.
//!
//! A review reads the records of a session or a run twice. The first pass, over headers, finds what was accepted and
//! who changed something (`seen`); the second compares the paths (`list`). Changes belong to paths by identity: what a
//! record says of a file holds for it wherever it is now.

mod accept;
mod hunks;
mod lines;
mod list;
mod others;
mod part;
mod scope;
mod seen;
mod since;

pub use accept::{AcceptReport, AcceptRequest, accept};
pub use hunks::{PathHunks, ReviewHunk};
pub use list::{ChangeCause, Review, ReviewedPath};
pub use part::HunkPlan;
pub use scope::{ReviewScope, newest};
pub use seen::ChangeAuthor;
pub use since::HunkState;
