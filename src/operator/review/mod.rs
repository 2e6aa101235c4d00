//! Reviews: the changes that are not accepted yet, their authors, and the meaning of accepting and taking back.
//!
//! A review reads the records of a session or a run twice. The first pass, over headers, finds the accepted changes and
//! the authors (`scope_index`); the second compares the paths (`list`). Changes belong to paths by identity: the record
//! of a file's change holds for the file wherever it is now.

mod accept;
mod edited_text;
mod hunk_plan;
mod hunks;
mod later_changes;
mod lines;
mod list;
mod other_changes;
mod path_class;
mod scope;
mod scope_index;

pub use accept::{AcceptReport, AcceptRequest, accept};
pub use edited_text::EditableText;
pub use hunk_plan::HunkPlan;
pub use hunks::{PathHunks, ReviewHunk};
pub use later_changes::HunkState;
pub use list::{ChangeCause, Review, ReviewedPath};
pub use path_class::PathClass;
pub use scope::{ReviewScope, newest};
pub use scope_index::ChangeAuthor;
