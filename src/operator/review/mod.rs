//! Reviews: which changes nobody has accepted yet, whose they are, and what accepting and taking back means.
//!
//! A review reads the records of a session or a run twice. The first pass, over headers, finds what was accepted and who
//! changed something (`seen`); the second compares the paths (`list`). Changes belong to paths by identity: what a record
//! says of a file holds for it wherever it is now.

mod accept;
mod hunks;
mod lines;
mod list;
mod others;
mod part;
mod scope;
mod seen;
mod since;

pub use accept::{AcceptRequest, Accepted, accept};
pub use hunks::{Lines, ReviewHunk};
pub use list::{By, Change, Review};
pub use part::HunkPlan;
pub use scope::{Scope, newest};
pub use seen::Who;
pub use since::HunkState;
