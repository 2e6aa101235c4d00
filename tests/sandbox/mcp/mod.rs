//! `trumanfs serve mcp`: a real server over its standard streams, in both eras of the protocol.

mod clients;
mod malformed;
mod server;
mod tools;
