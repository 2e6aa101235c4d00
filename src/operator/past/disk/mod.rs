//! The store on the disk now: its nodes by number, and their known names.

pub(super) mod compact_inode;
pub(super) mod disk_tree;
mod inode_search;
pub(super) mod interner;
mod listing;
mod listings;
pub(super) mod node_id;
mod node_index;
pub(super) mod node_set;
mod number_table;
