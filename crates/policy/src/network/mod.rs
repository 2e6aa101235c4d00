//! The hosts and ports that a policy allows, and the decision about one connection: a pure function of both.

mod address;
mod host;
mod pattern;
mod ports;
mod rules;

pub use address::is_public;
pub use host::Host;
pub use pattern::HostPattern;
pub use ports::{DNS, PROXY, PortList, SOCKS, WrongPort, anywhere, wrong_ports};
pub use rules::{HostDenial, HostRules};
