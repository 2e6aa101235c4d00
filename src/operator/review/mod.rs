//! Reviews: the changes that are not accepted yet, their authors, and the meaning of accepting and taking back.
//!
//! A review reads the records of a session or a run twice. The first pass, over headers, finds the accepted changes and
//! the authors (`seen`); the second compares the paths (`list`). Changes belong to paths by identity: the record of a
//! file's change holds for the file wherever it is now.

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
