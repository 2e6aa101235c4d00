//! The sandbox of programs: what is in it, what is not, what its limits do, and that nothing of it stays.
//!
//! `cargo test --test sandbox kill::` runs one subject. The whole runs once more as an ordinary user (`ordinary_user`).

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
mod room;

mod ahead;
mod apparmor;
mod backends;
mod calls;
mod containers;
mod doctor;
mod first;
mod kill;
mod limits;
mod loads;
#[cfg(feature = "mcp")]
mod mcp;
mod mount_obstacles;
mod nested;
mod network;
mod ordinary_user;
mod races;
mod run;
mod surroundings;
mod system_shell;
mod task;
mod terminal;
