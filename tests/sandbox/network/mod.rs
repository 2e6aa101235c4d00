//! The network of a sandbox: what arrives where, what is decided about it, and that nothing else leaves.
//!
//! `sockets` and `refused` need nothing of the machine. `inside`, `agents` and `ssh_agent` have servers of their own at public
//! addresses, in a network namespace without a way out that `world` makes for them.

mod agents;
mod inside;
mod net;
mod refused;
mod sockets;
mod ssh_agent;
mod world;
