//! Real programs on real homes: coreutils, git, compilers, cargo, SQLite, Python's own tests, locks, mappings, mount(8).
//!
//! Wherever it can be had, an ordinary directory is the judge: the same script runs there and in the home, and has to say the same
//! (`script.rs`). Programs that a machine lacks are named in a `SKIPPED:` line.

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
