//! `review`, `accept` and `reject`: which changes nobody has accepted yet, and what becomes of them.

mod decide;
mod list;
mod open_screen;
mod patch;
mod screen;

pub(super) use decide::{AcceptArgs, RejectArgs, accept, reject};
pub(super) use list::{ReviewArgs, review};
pub(super) use open_screen::{has_screen, open_screen};
pub(super) use screen::ScreenExit;
