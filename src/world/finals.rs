//! What is told of versions that have become final (`finalize.rs`).

use std::os::fd::OwnedFd;

use crate::journal::How;

/// A version that is final.
#[derive(Debug)]
pub struct Final<'a> {
    /// The directory of the session's versions.
    pub dir: &'a OwnedFd,
    /// Its number in this session.
    pub n: u64,
    /// How it was kept.
    pub how: How,
    /// The size of the content that it is of.
    pub size: u64,
}

/// Is told of versions that have become final, on the finalizer's thread.
pub trait Finals: Send + Sync + std::fmt::Debug {
    /// A version has become final: punched, where that gave anything back.
    fn became_final(&self, version: &Final<'_>);
}
