//! The listener for versions that have become final (`finalize.rs`).

use std::os::fd::OwnedFd;

use crate::journal::KeepMethod;

/// A version that has become final.
#[derive(Debug)]
pub struct FinalVersion<'a> {
    /// The directory of the session's versions.
    pub dir: &'a OwnedFd,
    /// The version's number in the session.
    pub n: u64,
    /// The method by which the content was kept.
    pub how: KeepMethod,
    /// The size of the whole content.
    pub size: u64,
}

/// A listener for versions that have become final, called on the finalizer's thread.
pub trait FinalListener: Send + Sync + std::fmt::Debug {
    /// Reports a version that has become final, with its redundant ranges already punched out.
    fn became_final(&self, version: &FinalVersion<'_>);
}
