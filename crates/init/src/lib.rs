//! The first process of a sandbox, and what its launcher and it say to each other.
//!
//! A crate of its own, because the program is loaded for each launch: `build.rs` of trumanfs links it statically and
//! puts it into the launcher, which starts it from memory. Of trumanfs it knows nothing. The launcher decides
//! everything and sends it as [`InitOrders`](orders::InitOrders); [`run()`] carries them out and tells by the
//! [channel](mod@channel) what came of it.

pub mod backend;
pub mod background;
pub mod channel;
pub mod error;
mod file_rules;
mod filter;
pub mod limit;
mod limit_watcher;
mod mounts;
mod network;
pub mod orders;
mod privileges;
pub mod proc;
mod process_table;
mod root;
mod run;
mod serve;
mod start;
pub mod sys;
mod terminal;
mod tmp;

pub use run::{INIT, UserIds, run};
