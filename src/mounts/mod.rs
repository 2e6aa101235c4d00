//! The homes of this machine: those mounted now, the store behind each, and unmounting.
//!
//! A leaf: it reads the mount table and a small file for each mount, and never a store.

pub mod nesting;
pub mod registry;
pub mod table;
pub mod unmount;
