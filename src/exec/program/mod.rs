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

pub use agent::AgentCommand;
pub use foresee::refusal as foreseen_refusal;
pub use line::LineSource;
pub use profile::AgentProfile;
pub use programs::{CommandDecision, ProgramCommand, ProgramHome};
pub use refuse::RefusedCommand;
pub use terminal::UserTerminal;
/// The policy: the programs that are meant to run.
pub use trumanfs_policy as policy;
/// The sandbox: the things that a running program can see and do.
pub use trumanfs_sandbox as sandbox;
/// The network: the hosts that the program reaches from the sandbox.
pub use trumanfs_sandbox::network;
