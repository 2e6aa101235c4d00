//! What a store holds and what an operator does with it, mounted or not: the journal, the trash, going back, crashes,
//! full and other disks.
//!
//! `cargo test --test store undo::` runs one subject. Each module's header describes what it owns.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/need.rs"]
mod need;

mod answers;
mod clocks;
mod crash;
mod disks;
mod enclosing;
mod expire;
mod flagged;
mod folded;
mod fork;
mod fork_hostile;
mod fork_users;
mod fsck;
mod full_audit;
mod full_disk;
mod half_way;
mod history;
mod hunks;
mod hunks_hostile;
mod interrupted;
mod merge;
mod merge_beside;
mod merge_shapes;
mod offline;
mod outside;
mod outside_maps;
mod outside_past;
mod outside_replaced;
mod outside_stamps;
mod outside_trees;
mod pager;
mod partly;
mod prepared;
mod report;
mod review;
mod runs;
mod screen;
mod screen_large;
mod seals;
mod space;
mod strangers;
mod swapped;
mod task_keys;
mod task_vectors;
mod trash;
mod two;
mod undo;
mod undo_by_user;
mod undo_editors;
mod undo_hostile;
mod usage;
mod volatile;
mod weak_disks;
