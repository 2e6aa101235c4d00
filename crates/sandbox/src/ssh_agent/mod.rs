//! A user's ssh-agent as programs of a sandbox have it: a proxy that lists keys and signs only for logins to hosts whose
//! keys the user knows and that the network allows.
//!
//! `session` decides about each message and does nothing; `proxy` has the sockets and threads. A signature tells nobody
//! where it is used, so everything rests on the session's identifier: the host's key has signed it, and what is signed
//! names it.

mod confirm;
mod host_key;
mod known_hosts;
mod log;
mod proxy;
mod session;
mod wire;

pub use confirm::Confirmation;
pub use known_hosts::KnownHosts;
pub use log::{SignatureObserver, SignatureRecord};
pub use proxy::{SOCKET_PATH, SshAgentProxy, SshAgentRules, serve};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
