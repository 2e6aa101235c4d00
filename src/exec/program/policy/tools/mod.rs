//! Validators: whether the words behind a program are those that its entry allows. One file for each tool that has
//! rules of its own, `generic.rs` for all others.

mod case;
mod dispatch;
mod generic;
mod known;
mod powershell;
mod tables;

pub(super) use case::{Case, Checked};
pub(super) use dispatch::check;
