//! The Model Context Protocol over standard input and output: a home as tools, for any agent that speaks it.
//!
//! Both eras of the protocol: sessions that `initialize` opens, and revision 2026-07-28, in which each request says who asks.
//! The SDK (`rmcp`) knows the messages; `transport` bounds what a client may send, `handler` answers, and each tool is a
//! request to an executor or to the client. Nothing here prints: standard output carries the protocol alone.
//!
//! Threads: one reads, one writes, one runs the protocol; each call of a tool has a thread of its own while it lasts.

mod admission;
mod answer;
mod arguments;
mod calls;
mod file_tools;
mod handler;
mod history;
mod id_scanner;
mod job_tools;
mod jobs;
mod kept_outputs;
mod live_output;
mod resources;
mod result_schemas;
mod serve;
mod server_home;
mod sessions;
mod tool_context;
mod tool_descriptions;
mod tools;
mod transport;
mod way_out;
mod writer;

pub use serve::serve;
pub use server_home::{ServedShell, ServerSettings, ShellSettingsMaker};
pub use transport::ServerEnd;
