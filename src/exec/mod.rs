//! The executors: how somebody without a process of their own works in a home.
//!
//! One pipeline: a request is parsed, then admitted or refused as a whole, then runs within its [`Limits`], and ends in an
//! [`Outcome`]. The bundled [`shell`] is the first front end. What it does to files goes through [`Home`] alone, which is a
//! mounted home or, where nothing is mounted, the world in process: both have the same rules.

pub mod home;
pub mod mounted_home;
pub mod offline_home;
pub mod shell;

use std::time::Duration;

pub use home::Home;

/// What a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run; nothing is no limit.
    pub time: Option<Duration>,
    /// How many bytes it may hold in memory; 0 is no limit.
    pub memory: u64,
    /// How many lines leave on standard output at most, and on standard error; 0 is no limit.
    pub lines: u64,
    /// How many bytes leave on each of them at most; 0 is no limit.
    pub bytes: u64,
    /// Whether the end of what leaves is kept too where it has to be cut.
    pub tail: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            time: None,
            memory: 256 << 20,
            lines: 200,
            bytes: 64 * 1024,
            tail: false,
        }
    }
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// What was written to standard output, cut at the limits.
    pub stdout: Vec<u8>,
    /// What was written to standard error.
    pub stderr: Vec<u8>,
    /// The exit status.
    pub status: u8,
    /// Whether standard output was cut.
    pub truncated: bool,
}
