//! The network of programs in sandboxes: which hosts they reach, and how.
//!
//! A sandbox hands the sockets of its network to its launcher ([`NetworkSockets`](crate::NetworkSockets)). Here is what
//! answers at them: a stub of the DNS, proxies for HTTP and SOCKS, and what connections to addresses arrive at. All of
//! it decides by the same [`NetworkSettings`], which come from a policy; nothing that is not decided about leaves.
//!
//! Nothing here runs in the sandbox, and no byte of a program is believed: what is not understood is refused.

mod answers;
mod body_scanner;
mod byte_reader;
mod client_hello;
mod dns;
mod gate;
mod gateway;
mod http;
mod log;
mod name_table;
mod program_connection;
mod refusal_packet;
mod relay;
mod secret;
mod session;
mod settings;
mod socks;
mod ssh;
pub(crate) mod stop_signal;

pub use answers::{
    AnswerEvent, AnswerObserver, AnswerScope, HostAnswer, HostAnswers, HostAsk, HostVerdict,
    RefusedHost, UnlistedHosts,
};
pub use gateway::Gateway;
pub use log::{ConnectionObserver, ConnectionRecord, ConnectionReport, SecretRequestRecord};
pub use secret::{RequestPattern, SecretHeader, SecretRoute, SecretValue};
pub use settings::{NetworkRequest, NetworkSettings, NetworkSetup, add_proxy_variables};

#[cfg(test)]
mod tests;
