//! Volatile files: what can be made again, so that its removal and its former contents are not kept.
//!
//! `files.rs` has which inodes are volatile, `list.rs` those of the last session, `git_tracked.rs` what git tracks,
//! `erase.rs` their deletion for good.

mod erase;
mod files;
mod git_tracked;
mod list;

pub use erase::EraseListener;
pub(in crate::world) use files::{VolatileFiles, Volatility};
