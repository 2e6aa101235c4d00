//! trumanfs: a home directory that an AI agent cannot hurt.
//!
//! The rooms, and who may use whom (kept true by `tests/architecture.rs`):
//!
//! ```text
//! main → cli ─┬─► exec ── Home ──► (a mounted home → kernel → fuse), or world where nothing is mounted
//!             ├─► daemon ─► fuse ──► world ──► journal ──► sys ──► kernel
//!             └─► operator ──► world, journal   (while mounted: through daemon/control, which calls operator)
//! leaves anyone may use: error, name
//! ```
//!
//! - [`world`]: every rule, no FUSE. Start at [`world::World`].
//! - [`journal`]: what happened, hash-chained.
//! - [`fuse`]: decodes requests, asks the world, replies.
//! - [`daemon`]: mounting, signals, the control socket, changes made behind the mount.
//! - [`mounts`]: the homes of this machine, and the store behind each.
//! - [`exec`]: how somebody without a process of their own works in a home: the bundled shell.
//! - [`operator`]: what an operator reads and does; prints nothing.
//! - [`cli`]: what was typed, and every word printed.
//! - [`sys`]: the only room with `unsafe`.
#![warn(missing_docs)]

pub mod cli;
pub mod client;
pub mod control;
pub mod daemon;
pub mod error;
pub mod exec;
pub mod fuse;
pub mod journal;
pub mod mounts;
pub mod name;
pub mod operator;
pub mod serve;
pub mod sys;
pub mod world;

// Last, because the architecture test reads a file as far as its tests. Skipping has one home, the test binaries' and ours.
#[cfg(test)]
#[path = "../tests/common/need.rs"]
mod need;
#[cfg(test)]
#[path = "../tests/common/random.rs"]
mod random;
