//! `review`, `accept` and `reject`: which changes nobody has accepted yet, and what becomes of them.

mod decide;
mod list;

pub(super) use decide::{AcceptArgs, RejectArgs, accept, reject};
pub(super) use list::{ReviewArgs, review};
