//! The sandbox: what a program that runs in a home can see and do.
//!
//! [`launch()`] takes a [`SandboxPlan`], in which everything is decided, and starts the program in namespaces of its
//! own with a root that is made for it. Its first process is a program of its own (`init/`), which gets its orders over
//! a descriptor, carries them out, gives up all privileges, starts the program and waits for what it leaves behind. The
//! launcher has a descriptor of that process ([`RunningProgram`]): when it ends, the kernel ends everything in the
//! sandbox.
//!
//! The sandbox knows nothing of policies, homes' journals or runs. There is no running without one: what cannot be set
//! up is a [`LaunchError`] that names the step.

#![warn(missing_docs)]

mod backend;
mod bound_contents;
mod bwrap;
mod descriptor_list;
mod devices;
mod error;
mod first_process;
mod image;
mod in_place;
mod install_tree;
mod launch;
mod layout;
mod limits;
pub mod network;
mod network_sockets;
mod plan;
mod probe;
mod program_end;
mod reaper;
mod running;
mod sandbox_socket;
mod service;
pub mod ssh_agent;
mod start_order;
mod toolchains;

pub use backend::BackendChoice;
pub use devices::{CDI_DIRS, DeviceAccess};
pub use error::{LaunchError, Step};
pub use image::allow_this_program;
pub use in_place::{has_file_rules, warning as in_place_warning};
pub use install_tree::{InstallTree, directories_of, tree_of};
pub use launch::{Launcher, launch, launch_with};
pub use layout::check_home;
pub use limits::{ActiveLimit, LimitMechanism};
pub use network_sockets::{NetworkSockets, SandboxSocketSource};
pub use plan::{
    CapturedPorts, FurtherHome, NetworkAccess, PlacedKind, PlacedMount, ResourceLimits,
    SandboxPlan, WritableDir,
};
pub use probe::{MachineCapability, ProbeReport, probe};
pub use program_end::{ProgramEnd, ProgramOutcome};
pub use running::{KillCondition, RunningProgram};
pub use sandbox_socket::SandboxSocket;
pub use service::{SandboxService, serve};
pub use toolchains::{Toolchains, VersionManager};
pub use trumanfs_init::backend::Backend;
pub use trumanfs_init::background::{BackgroundProcesses, MAX_LINE_BYTES};
pub use trumanfs_init::limit::LimitKind;
pub use trumanfs_init::{INIT, run as run_init};
