//! The listener for versions that have become final (`finalize.rs`).

use std::os::fd::OwnedFd;

use crate::journal::How;

/// A version that is final.
#[derive(Debug)]
pub struct Final<'a> {
    /// The directory of the session's versions.
    pub dir: &'a OwnedFd,
    /// Its number in the session.
    pub n: u64,
    /// How it was kept.
    pub how: How,
    /// The size of the whole content.
    pub size: u64,
}

/// A listener for versions that have become final, called on the finalizer's thread.
pub trait Finals: Send + Sync + std::fmt::Debug {
    /// Reports a version that has become final, with its redundant ranges already punched out.
    fn became_final(&self, version: &Final<'_>);
}
