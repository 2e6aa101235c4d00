//! The sandbox: what a program that runs in a home can see and do.
//!
//! [`launch()`] takes a [`Plan`], in which everything is decided, and starts the program in namespaces of its own with a
//! root that is made for it. Its first process is this program anew (`init/`), which gets its orders over a descriptor,
//! carries them out, gives up all privileges, starts the program and waits for what it leaves behind. The launcher has
//! a descriptor of that process ([`Running`]): when it ends, the kernel ends everything in the sandbox.
//!
//! The sandbox knows nothing of policies, homes' journals or runs. There is no running without one: what cannot be set
//! up is a [`LaunchError`] that names the step.

mod backend;
mod bwrap;
mod channel;
mod error;
mod filter;
mod first;
mod given;
mod init;
mod launch;
mod layout;
mod limits;
mod orders;
mod plan;
mod probe;
mod running;
mod service;
mod sockets;
mod tree;

pub use backend::{Backend, Choice};
pub use error::{LaunchError, Step};
pub use init::{INIT, run as run_init};
pub use launch::{Launcher, launch, launch_with};
pub use layout::check_home;
pub use limits::{InForce, Limit, Mechanism};
pub use plan::{Captured, Limits, Network, Plan};
pub use probe::{Capability, Probe, probe};
pub use running::{End, Ended, Running, Until};
pub use service::{Service, serve};
pub use sockets::{Sockets, Within};
pub use tree::{InstallTree, tree_of};
