//! The tree at a point: its differences from the disk, the reversal of records, and the contents of its files.

pub(super) mod births;
pub(super) mod content;
mod copy;
mod dir_cache;
mod dir_lookup;
pub mod effect;
mod inverse;
pub mod layer;
pub(super) mod layered_content;
pub(super) mod missing_part;
mod node_names;
pub(super) mod outside;
pub(in crate::operator) mod past_tree;
mod places;
pub(super) mod unknown_writes;
