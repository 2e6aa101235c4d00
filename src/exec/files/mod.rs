//! Single operations on files: an agent's server offers them as tools beside the shell.
//!
//! Each is a request like any other: admitted, a run of its own, a line in the audit log. What a program could not do in
//! the home, none of them can. Text goes to standard output, within the limits of the request; what has a shape is a
//! [`FileResult`] besides.

mod edit;
mod list;
mod read;
mod request;
mod work;
mod write;

pub use edit::{EditResult, FileEdit};
pub use list::ListedEntry;
pub use read::LineWindow;
pub use request::{FileCall, FileRequest, FileResult};
