//! Safe wrappers for calls that rustix lacks. The only module with `unsafe` and with `libc`.
//!
//! Each block makes one call and says why it is sound. Nothing here knows what a call is for.
#![allow(unsafe_code)]
#![warn(missing_docs)]

pub mod creds;
pub mod extents;
pub mod fanotify;
pub mod fd;
pub mod file_lease;
pub mod fileattr;
pub mod identity;
pub mod locks;
pub mod namespaces;
pub mod process;
pub mod process_maps;
pub mod sched;
pub mod seccomp;
pub mod signal;
pub mod users;
pub mod zone;

// Skipping has one home, the test binaries'.
#[cfg(test)]
#[path = "../../../tests/common/need.rs"]
mod need;
