//! Former contents: keeping them before they are destroyed, reducing them to the needed ranges, and evicting them.

pub(in crate::world) mod blocks;
pub(in crate::world) mod chains;
pub(in crate::world) mod choice;
pub(in crate::world) mod compare;
pub mod digest;
pub(in crate::world) mod digest_round;
pub(in crate::world) mod digests;
pub(in crate::world) mod draft_versions;
pub(in crate::world) mod evict;
pub(in crate::world) mod extents;
pub(in crate::world) mod finalize;
pub(in crate::world) mod hashing;
pub(in crate::world) mod likeness;
pub(in crate::world) mod open_writers;
pub(in crate::world) mod overwrite;
pub mod quota;
pub mod ranges;
pub mod replace;
pub(in crate::world) mod shared_blocks;
pub(in crate::world) mod successor;
pub mod version_files;
pub mod versions;
