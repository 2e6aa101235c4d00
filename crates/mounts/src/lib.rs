//! The homes of this machine: which are mounted, which store is behind each, and unmounting one.
//!
//! The causes for which none can be mounted here are in a table, too.
//!
//! A leaf: it looks at the mount table and at a small file for each mount, and at no store.

pub mod diagnosis;
pub mod nesting;
pub mod obstacle;
pub mod registry;
pub mod table;
pub mod unmount;
