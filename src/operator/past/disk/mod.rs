//! The store as it lies on the disk now: which things there are, by number, and the names that they were met at.

pub(super) mod disk_tree;
pub(super) mod inode;
pub(super) mod interner;
mod listing;
mod node_index;
pub(super) mod node_set;
mod search;
mod table;
