//! Names, paths, attributes, origins and errors that every part of trumanfs shares.
//!
//! - [`name`]: one name of the store, and a path of such names; both are checked when made.
//! - [`error`]: the ways in which something fails, and the errno of each.
//! - [`meta`]: the attributes of a node; [`attrs`], those to set; [`xattr`], the extended ones.
//! - [`origin`]: where a change comes from: an executor, and one run of it; [`turn_mark`], where a turn begins in one.
#![warn(missing_docs)]

pub mod attrs;
pub mod error;
pub mod meta;
pub mod name;
pub mod origin;
pub mod turn_mark;
pub mod xattr;
