//! Real programs in a home: what is meant to run ([`policy`]), and in what surroundings it runs ([`sandbox`]).

pub mod cap;
mod executor;
mod line;
mod output;
pub mod policy;
mod programs;
mod quote;
mod refuse;
mod run;
pub mod sandbox;

pub use line::LineSource;
pub use programs::{Command, Decision, Programs};
pub use refuse::RefusedCommand;
