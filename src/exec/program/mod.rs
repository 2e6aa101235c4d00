//! Real programs in a home: what is meant to run ([`policy`]), in what surroundings it runs ([`sandbox`]),
//! and whom it reaches from there ([`network`]).

mod agent;
pub mod cap;
mod executor;
mod extra;
mod foresee;
mod line;
mod output;
mod profile;
mod programs;
mod reach;
mod ready;
mod refuse;
mod run;
mod sandboxes;
mod terminal;

pub use agent::Agent;
pub use foresee::refusal as foreseen_refusal;
pub use line::LineSource;
pub use profile::Profile;
pub use programs::{Command, Decision, Programs};
pub use refuse::RefusedCommand;
pub use terminal::Terminal;
/// What is meant to run.
pub use trumanfs_policy as policy;
/// What a program that runs can see and do.
pub use trumanfs_sandbox as sandbox;
/// Whom it reaches from there.
pub use trumanfs_sandbox::network;
