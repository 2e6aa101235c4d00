//! Validators: whether the words behind a program are those that its entry allows. One file for each tool that has
//! rules of its own, `generic.rs` for all others.

mod case;
mod dispatch;
mod dotnet;
mod generic;
mod git;
mod git_flags;
mod known;
mod node;
mod npm;
mod npx;
mod powershell;
mod pytest;
mod python;
mod runner;
mod tables;

pub(super) use case::{CheckedCommand, CommandCase};
pub(super) use dispatch::check;
