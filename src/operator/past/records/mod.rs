//! The records of all sessions, read from the newest to the oldest.

pub(super) mod file_history;
pub(super) mod file_records;
pub(super) mod path_filter;
mod prefetch;
pub(super) mod reverse_records;
