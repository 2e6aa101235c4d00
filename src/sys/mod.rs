//! Safe wrappers for what rustix does not have. The only room with `unsafe` and with `libc`.
//!
//! Each block makes one call and says why it is sound. Nothing here knows what the calls are for.
#![allow(unsafe_code)]

pub mod creds;
pub mod digest;
pub mod fanotify;
pub mod fd;
pub mod fileattr;
pub mod locks;
pub mod process;
pub mod sched;
pub mod users;
pub mod zone;
