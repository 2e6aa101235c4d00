//! From the tree of a file to what the policy says. Every key is known, has the type it needs, and is meant for the
//! validator of its entry; all that is wrong is collected, so that `policy check` can print all of it.

mod entry;
mod extends;
mod fields;
mod flags;
mod keys;
mod subcommand;

pub(super) use entry::entries;
pub(super) use extends::extended;
pub(super) use fields::{FieldReader, unknown_key};
pub(super) use flags::is_flag;
