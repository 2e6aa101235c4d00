//! The network of a sandbox: what arrives where, what is decided about it, and that nothing else leaves.

mod sockets;
