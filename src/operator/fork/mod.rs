//! Forks: a second store that begins with everything the first one has at a point.
//!
//! `copier.rs` makes a directory of a tree of the past, `rounds.rs` makes it one consistent point while the origin goes
//! on changing. Nothing here changes the origin, and nothing of its `.trash` and `.trumanfs` comes along.

mod copier;
mod rounds;
mod trees;

pub use copier::ForkCounts;
pub use rounds::{ForkResult, make_fork, newest};
pub use trees::delete_entries;
