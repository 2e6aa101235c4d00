//! Servers for programs that run agents. They use `client` and `exec` as the command line does, and add no rule.

pub mod hook;
#[cfg(feature = "mcp")]
pub mod mcp;
