//! Real programs in a home: what is meant to run ([`policy`]), in what surroundings it runs ([`sandbox`]),
//! and whom it reaches from there ([`network`]).

mod agent;
mod agent_extras;
mod agent_watch;
mod answer_server;
mod ask_command;
mod background;
mod command;
mod data_file;
mod decided;
mod decision;
mod executor;
mod gateway;
mod home_backing;
mod host_group;
mod line;
mod line_sandboxes;
mod output;
mod own_dir;
mod profile;
mod program_home;
mod runnable;
mod secret_provider;
mod served_sandbox;
mod ssh_agent;
mod system_shell;
mod terminal;
pub mod token_cap;
mod toolchains;
mod turn_socket;

pub use agent::{AgentCommand, AgentRun, SANDBOX_VARIABLES};
pub use agent_watch::{AgentWatch, WatchSettings};
pub use command::ProgramCommand;
pub use decided::DecidedCommand;
pub use decision::foreseen_refusal;
pub use host_group::HostGroup;
pub use line::LineSource;
pub use profile::AgentProfile;
pub use program_home::ProgramHome;
pub use secret_provider::{SecretProvider, SecretVariables, with_placeholder};
pub use ssh_agent::SshAgentAccess;
pub use system_shell::{SystemShell, SystemShellSettings};
pub use terminal::UserTerminal;
pub use toolchains::version_managers;
/// The policy: the programs that are meant to run.
pub use trumanfs_policy as policy;
/// The sandbox: the things that a running program can see and do.
pub use trumanfs_sandbox as sandbox;
/// The network: the hosts that the program reaches from the sandbox.
pub use trumanfs_sandbox::network;
pub use turn_socket::{TurnRequest, TurnSocket};
