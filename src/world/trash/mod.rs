//! The trash: its entries, the gathering of removed trees, and permanent deletion for operators.

pub mod erase;
pub(in crate::world) mod gather;
pub(in crate::world) mod gatherer;
pub mod purge;
pub mod trash_entries;
