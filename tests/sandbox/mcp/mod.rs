//! `trumanfs serve mcp`: a real server over its standard streams, in both eras of the protocol.

mod bounds;
mod clients;
mod ends;
mod hostile;
mod malformed;
mod places;
mod server;
mod shell_attacks;
mod shell_corpus;
mod shell_sessions;
mod tools;
