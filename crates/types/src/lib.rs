//! Names, paths and errors that every part of trumanfs shares.
//!
//! - [`name`]: one name of the store, and a path of such names. What is no name cannot be one.
//! - [`error`]: in which ways something fails, and the errno of each.
#![warn(missing_docs)]

pub mod error;
pub mod name;
