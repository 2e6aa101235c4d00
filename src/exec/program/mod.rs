//! Real programs in a home: what is meant to run ([`policy`]), in what surroundings it runs ([`sandbox`]),
//! and whom it reaches from there ([`network`]).

pub mod cap;
mod executor;
mod line;
pub mod network;
mod output;
pub mod policy;
mod programs;
mod quote;
mod reach;
mod ready;
mod refuse;
mod run;
pub mod sandbox;
mod sandboxes;

pub use line::LineSource;
pub use programs::{Command, Decision, Programs};
pub use refuse::RefusedCommand;
