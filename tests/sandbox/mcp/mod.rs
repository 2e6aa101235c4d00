//! `trumanfs serve mcp`: a real server over its standard streams, in both eras of the protocol.

mod bounds;
mod clients;
mod ends;
mod hostile;
mod listing;
mod malformed;
mod parallel;
mod places;
mod rest;
mod server;
mod shell_attacks;
mod shell_corpus;
mod shell_sessions;
mod tools;
