//! `review`, `accept` and `reject`: which changes nobody has accepted yet, and what becomes of them.

mod at;
mod decide;
mod list;
mod patch;
mod screen;
mod who;

pub(super) use at::{has_screen, screen};
pub(super) use decide::{AcceptArgs, RejectArgs, accept, reject};
pub(super) use list::{ReviewArgs, review};
pub(super) use screen::ScreenExit;
