//! trumanfs: a home directory that an AI agent cannot hurt.
//!
//! The program is made of this library, and other programs can use it: [`client`] has what an operator can ask of a store,
//! each verb once, [`exec`] has the executors (the bundled shell, real programs, single operations on files). Neither prints,
//! ends the process, or panics. Both find out by themselves whether a store is mounted.
//!
//! ```
//! use trumanfs::client::{Client, UndoOptions, UndoQuery};
//! use trumanfs::exec::shell::Shell;
//! use trumanfs::exec::{self, StoreAccess, Limits, Status};
//! use trumanfs::operator::undo::OnConflict;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = tempfile::tempdir()?;
//! std::fs::write(store.path().join("notes.txt"), "what matters\n")?;
//!
//! // A line of the bundled shell, in a store that nobody has mounted.
//! let mut shell = Shell::at(exec::open(store.path(), &StoreAccess::default())?, Limits::default());
//! let outcome = shell.run(b"echo gone > notes.txt; rm -r notes.txt; ls | wc -l; cat /etc/passwd");
//! assert_eq!(outcome.status, Status::Failed);
//! assert_eq!(outcome.stdout, b"0\n");
//! assert_eq!(outcome.stderr, b"cat: /etc/passwd: No such file or directory\n");
//!
//! // What that run did, taken back. (A shell that has changed something has the store for itself, unless that is mounted.)
//! drop(shell);
//! let client = Client::open(store.path())?;
//! let what = UndoQuery { run: Some(outcome.run.to_string()), ..UndoQuery::default() };
//! let how = UndoOptions { on_conflict: OnConflict::Stop, dry_run: false };
//! let report = client.undo(&client.undo_request(&what, how)?)?;
//! assert!(report.failed.is_none() && !report.stopped);
//! assert_eq!(std::fs::read(store.path().join("notes.txt"))?, b"what matters\n");
//! # Ok(())
//! # }
//! ```
//!
//! A program that mounts homes or runs real programs calls [`helper::run`] first in `main`, for it becomes their helper.
//! `examples/` has whole programs.
//!
//! The rooms, and who may use whom (`docs/ARCHITECTURE.md`, kept true by `tests/architecture.rs`):
//!
//! ```text
//! main → cli ─┬─► serve ─► exec, client, operator
//!             ├─► exec ── Home ──► a mounted home (kernel → fuse), or world where nothing is mounted
//!             ├─► client ─┬─► operator ──► world, journal         (where nothing is mounted)
//!             │           └─► control ··· socket ··· daemon ─► operator      (while mounted)
//!             └─► daemon ─► fuse ──► world ──► journal ──► sys ──► kernel
//! cli ─► helper ─► daemon, exec                     crates: types, mounts, policy, sandbox
//! ```
//!
//! - [`world`]: every rule, no FUSE. Start at [`world::World`].
//! - [`journal`]: what happened, hash-chained.
//! - [`fuse`]: decodes requests, asks the world, replies.
//! - [`daemon`]: mounting, signals, the control socket, changes made behind the mount.
//! - [`client`]: what an operator can ask of a store; one client for every front end.
//! - [`control`]: the protocol between client and daemon.
//! - [`exec`]: how somebody without a process of their own works in a home.
//! - [`helper`]: the processes that the library starts from the program it is part of.
//! - [`operator`]: what an operator reads and does; prints nothing.
//! - [`serve`]: servers for programs that run agents.
//! - [`cli`]: what was typed, and every word printed.
//! - [`sys`]: the only room with `unsafe`.
//!
//! Code that knows no home is in crates of its own (`crates/`), and the compiler keeps it so: `types` (names, paths, errors),
//! `mounts` (the mount table and the register of homes), `policy` (which commands and hosts are allowed), `sandbox` (what a program
//! can see and reach) and `init`, its first process.
#![warn(missing_docs)]

pub mod cli;
pub mod client;
pub mod control;
pub mod daemon;
pub mod exec;
pub mod fuse;
pub mod helper;
pub mod journal;
pub mod operator;
pub mod serve;
pub mod world;

pub use trumanfs_mounts as mounts;
pub use trumanfs_sys as sys;
pub use trumanfs_types::{error, name};

// Last, because the architecture test reads a file as far as its tests. Skipping has one home, the test binaries' and ours.
#[cfg(test)]
#[path = "../tests/common/need.rs"]
mod need;
#[cfg(test)]
#[path = "../tests/common/random.rs"]
mod random;
