//! The store on the disk now: its nodes by number, and their known names.

pub(super) mod disk_tree;
pub(super) mod inode;
pub(super) mod interner;
mod listing;
mod listings;
pub(super) mod node_id;
mod node_index;
pub(super) mod node_set;
mod search;
mod table;
