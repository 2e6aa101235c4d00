//! The tree at a point: how it differs from the disk, how a record is taken back in it, and what its files hold.

pub(super) mod content;
mod copy;
mod dir_cache;
pub mod effect;
mod inverse;
pub mod layer;
pub(super) mod missing;
mod parents;
pub(in crate::operator) mod past_tree;
mod reader;
