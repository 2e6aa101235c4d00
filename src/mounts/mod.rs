//! The homes of this machine: which are mounted, which store is behind each, and unmounting one.
//!
//! A leaf: it looks at the mount table and at a small file for each mount, and at no store.

pub mod nesting;
pub mod registry;
pub mod table;
pub mod unmount;
