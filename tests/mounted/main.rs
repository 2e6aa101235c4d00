//! What an occupant sees and what programs do in a mounted home: system calls, rules, attacks, real programs.
//!
//! `cargo test --test mounted posix::` runs one subject. Each module's header describes what it owns.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;
mod door;
#[path = "../common/need.rs"]
mod need;

mod actors;
mod append;
mod coherence;
mod command;
mod copies;
mod destruction;
mod doors;
mod escape;
mod gather;
mod keep;
mod labels;
mod leaks;
mod maps;
mod model;
mod opens;
mod ordinary_user;
mod page_cache;
mod posix;
mod programs;
mod semantics_doc;
mod storms;
mod unreadable;
