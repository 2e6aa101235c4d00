//! Real programs in real homes: coreutils, git, compilers, cargo, SQLite, Python's own tests, locks, mappings,
//! mount(8).
//!
//! Wherever possible, an ordinary directory is the reference: the same script runs there and in the home, and its
//! output must be the same (`script.rs`). Programs missing on a machine are named in a `SKIPPED` line.

pub(crate) mod script;

mod build;
mod coreutils;
mod database;
mod git;
mod links;
mod mount8;
mod people;
mod sharing;
mod suite;
mod trees;
