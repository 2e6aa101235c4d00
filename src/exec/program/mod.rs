//! Real programs in a home: what is meant to run ([`policy`]), in what surroundings it runs ([`sandbox`]),
//! and whom it reaches from there ([`network`]).

mod agent;
pub mod cap;
mod executor;
mod extra;
mod foresee;
mod line;
pub mod network;
mod output;
mod profile;
mod programs;
mod reach;
mod ready;
mod refuse;
mod run;
pub mod sandbox;
mod sandboxes;
mod terminal;

pub use agent::Agent;
pub use foresee::refusal as foreseen_refusal;
pub use line::LineSource;
pub use profile::Profile;
pub use programs::{Command, Decision, Programs};
pub use refuse::RefusedCommand;
pub use terminal::Terminal;
/// What is meant to run: a crate of its own.
pub use trumanfs_policy as policy;
