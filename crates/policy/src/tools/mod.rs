//! Validators: whether the words behind a program are those that its entry allows. `engine.rs` judges by the grammar of
//! the tool; the other files have what no grammar can say.

mod case;
mod engine;
mod git_words;
mod node;
mod npx;
mod powershell;
mod pytest;
mod python;
mod runner;

pub(super) use case::{CheckedCommand, CommandCase};
pub(super) use engine::check;
