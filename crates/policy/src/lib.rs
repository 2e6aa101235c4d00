//! The policy of real programs, and the decision about one command.
//!
//! A policy judges the command line. It is no boundary: `git status` alone can start programs that a repository names.
//! The sandbox limits what a running program can do; neither half knows the other.
//!
//! [`Policy`] is a file, read strictly; [`split()`] makes words of a line; [`decide()`] is a pure function of
//! both. The meaning of the keys of a file is in `docs/POLICY.md`.

#![warn(missing_docs)]

mod data;
mod decide;
mod describe;
mod environment;
mod error;
mod file;
mod grammar;
mod lint;
mod load;
mod locate;
pub mod network;
mod own_dir;
mod question;
mod read;
mod required;
mod root_paths;
mod scan;
mod schema;
mod shipped;
mod split;
mod tools;
mod trust;
mod validator;
mod verdict;
mod watched;
mod within;
mod words;
mod yaml;

pub use data::read_yaml;
pub use decide::decide;
pub use describe::SandboxReach;
pub use error::{PolicyError, PolicyWarning};
pub use file::{FileExposure, exposure, open};
pub use load::PolicyReport;
pub use locate::{PolicySource, TrustedPolicy, distrust, locate, of_machine, trust};
pub use own_dir::OWN_DIR;
pub use question::{CommandRequest, PathPlace, PathResolver, TextPaths};
pub use root_paths::RootPaths;
pub use schema::{NetworkRule, Policy, PublishedPort};
pub use shipped::names as shipped_names;
pub use split::split;
pub use verdict::{AllowedCommand, CommandRefusal, RefusalClass};
pub use watched::WatchedPolicy;

// Skipping has one home, the test binaries'.
#[cfg(test)]
#[path = "../../../tests/common/need.rs"]
mod need;

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
mod tests;
