//! The bundled shell, compared with bash and GNU's tools, through both doors, under attack and at the prompt; and the verbs of
//! policies.
//!
//! `cargo test --test shell escape::` runs one subject. Each module's header describes what it owns.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;
mod generate;
#[path = "../common/need.rs"]
mod need;

mod agents;
mod deadlines;
mod doors;
mod escape;
mod hanging;
mod hook;
mod library;
mod line_output;
mod line_sandboxes;
mod package;
mod pages;
mod policy;
mod policy_in_force;
mod programs;
mod prompt;
mod runs;
mod signals;
mod spec;
mod store;
