//! The client of every front end: each verb that an operator can ask of a store, once.
//!
//! A [`Client`] stands for a TARGET: a store, a home, or something in a home. Each verb finds out by itself whether the
//! store is served: then the daemon carries a change out, over its control socket; else this process does, under the
//! store's lock, in a session of its own and with what the store was last mounted with. Reading needs neither.
//!
//! Nothing here prints, ends the process, or knows how a command line is written. Every failure is an
//! [`Error`](crate::error::Error), and [`Error::kind`](crate::error::Error::kind) is what front ends make exit codes
//! of.
//!
//! ```
//! use trumanfs::client::Client;
//! use trumanfs::operator::filter::RecordFilter;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = tempfile::tempdir()?;
//! # let place = trumanfs::exec::open(store.path(), &Default::default())?;
//! # trumanfs::exec::shell::Shell::at(place, Default::default()).run(b"echo x > a; rm a");
//! let client = Client::open(store.path())?;
//! let mut log = client.log(&RecordFilter::default())?;
//! let mut operations = Vec::new();
//! while let Some((_session, record)) = log.next_record()? {
//!     operations.push(record.op.word());
//! }
//! assert!(operations.ends_with(&["create", "unlink", "end"]), "{operations:?}");
//! # Ok(())
//! # }
//! ```

mod agent_caches;
mod agent_config;
mod agent_directory;
mod agent_fork;
mod agent_instructions;
mod agent_login;
mod agents;
mod change;
mod check;
mod connect;
mod enclosing;
mod expire;
mod foreseen_home;
mod fork;
mod git_directory;
mod git_identity;
mod hidden_from_git;
mod hold;
mod home_descriptors;
mod joint;
mod points;
mod profile_additions;
mod purge;
mod read;
mod review;
mod run;
mod running_agents;
mod status;
mod stores;
mod target;
mod trash;
pub mod trial;
mod umount;
mod undo;
mod undo_turns;
mod unknown_writer;

pub use crate::control::MountStatus;
pub use crate::operator::merge::MergeReport;
pub use crate::operator::review::Review;
pub use crate::operator::run_kept::RunKept;
pub use crate::operator::unknown_writer::StoreSnapshot;
pub use crate::world::store::forked::{ForkMethod, ForkOrigin};
pub use crate::world::{ExpireResult, PurgeResult, SessionPatterns};
pub use agent_caches::{caches_of_tool, tools_with_caches};
pub use agent_config::AgentConfig;
pub use agent_directory::AgentDirectory;
pub use agent_fork::AgentFork;
pub use agent_instructions::{ShownInstructions, user_instructions};
pub use agent_login::LoginNotice;
pub use agents::{AgentPlace, UnsettledRun};
pub use enclosing::{TargetKind, enclosing_store, named_directory, target_kind};
pub use foreseen_home::{ForeseenHome, HistoryPlace};
pub use fork::ForkReport;
pub use git_directory::OuterGitDirectory;
pub use git_identity::GitIdentity;
pub use hidden_from_git::{HiddenFromGit, hidden_around, hidden_from_git};
pub use hold::{HeldFor, HomeHold, hold, unmounted_store};
pub use home_descriptors::HomeDescriptors;
pub use joint::{JointUndo, OtherPart, OtherParts, undo_jointly};
pub use profile_additions::{AdditionsFile, ProfileAdditions};
pub use purge::FreedCallback;
pub use read::ReportPage;
pub use run::{LiveRun, RunMember, RunRegistry};
pub use running_agents::{
    AgentConnection, AgentListener, AgentReply, AgentRequest, AnswerRequest, RunningAgents,
    expect_user, read_request, send_reply,
};
pub use status::{KnownMount, mounts, state_dirs};
pub use stores::{KnownStore, forget_store, known_stores, known_targets, move_store_state};
pub use target::{Client, DirectorySite, PinnedDir, site, store_behind};
pub use trash::RestoredEntry;
pub use umount::umount;
pub use undo::{EVERY_SESSION, UndoOptions, UndoQuery};
