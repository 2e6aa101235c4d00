//! The sandbox: what a program that runs in a home can see and do.
//!
//! [`launch()`] takes a [`Plan`], in which everything is decided, and starts the program in namespaces of its own with a
//! root that is made for it. Its first process is a program of its own (`init/`), which gets its orders over a descriptor,
//! carries them out, gives up all privileges, starts the program and waits for what it leaves behind. The launcher has
//! a descriptor of that process ([`Running`]): when it ends, the kernel ends everything in the sandbox.
//!
//! The sandbox knows nothing of policies, homes' journals or runs. There is no running without one: what cannot be set
//! up is a [`LaunchError`] that names the step.

#![warn(missing_docs)]

mod backend;
mod bound;
mod bwrap;
mod end;
mod error;
mod first;
mod given;
mod image;
mod launch;
mod layout;
mod limits;
pub mod network;
mod order;
mod plan;
mod probe;
mod reaper;
mod running;
mod service;
mod sockets;
mod tree;

pub use backend::Choice;
pub use end::{End, Ended};
pub use error::{LaunchError, Step};
pub use image::allow_this_program;
pub use launch::{Launcher, launch, launch_with};
pub use layout::check_home;
pub use limits::{InForce, Mechanism};
pub use plan::{Captured, Limits, Network, Plan, Writable};
pub use probe::{Capability, Probe, probe};
pub use running::{Running, Until};
pub use service::{Service, serve};
pub use sockets::{Sockets, Within};
pub use tree::{InstallTree, directories_of, tree_of};
pub use trumanfs_init::backend::Backend;
pub use trumanfs_init::limit::Limit;
pub use trumanfs_init::{INIT, run as run_init};
