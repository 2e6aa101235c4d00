//! Real programs in a home: what is meant to run ([`policy`]), and in what surroundings it runs ([`sandbox`]).

pub mod cap;
mod executor;
mod output;
pub mod policy;
mod programs;
mod run;
pub mod sandbox;

pub use programs::{Command, Decision, Programs};
